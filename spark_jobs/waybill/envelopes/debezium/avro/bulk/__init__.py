"""Debezium's Avro in bulk."""
