"""Databus in bulk, both forms."""
