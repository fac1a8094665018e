"""TiDB's changefeeds."""
