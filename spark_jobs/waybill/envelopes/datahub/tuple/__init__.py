"""DataHub TUPLE topics."""
