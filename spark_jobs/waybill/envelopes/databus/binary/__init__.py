"""Databus events in their binary form."""
