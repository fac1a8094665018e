"""Debezium."""
