"""Debezium's JSON in bulk."""
