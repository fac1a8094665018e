"""Databus events: binary versions 1 and 2, and the JSON form."""
