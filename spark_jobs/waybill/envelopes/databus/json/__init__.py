"""Databus events in their JSON form."""
