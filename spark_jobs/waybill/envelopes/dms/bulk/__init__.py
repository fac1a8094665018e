"""AWS DMS in bulk, records and files."""
