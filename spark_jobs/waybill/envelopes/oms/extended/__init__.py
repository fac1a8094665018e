"""Serialization method DefaultExtendColumnType."""
