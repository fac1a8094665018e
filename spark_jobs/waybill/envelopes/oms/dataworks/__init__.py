"""Serialization method DataWorks."""
