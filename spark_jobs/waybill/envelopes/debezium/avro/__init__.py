"""Debezium's change events in Avro."""
