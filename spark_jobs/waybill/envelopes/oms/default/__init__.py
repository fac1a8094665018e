"""Serialization method Default."""
