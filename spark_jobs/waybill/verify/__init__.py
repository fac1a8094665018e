"""Compares the merged tables with the database that they come from, and what was published."""
