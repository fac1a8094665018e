"""Notations of values that several formats share."""
