"""Serialization method SharePlex."""
