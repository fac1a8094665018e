"""DataHub BLOB topics."""
