"""Serialization method Canal."""
