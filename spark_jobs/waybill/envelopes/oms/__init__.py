"""OceanBase Migration Service (OMS)."""
