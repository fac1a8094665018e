"""The specification of a migration: its fields, its file, and what is checked when it is read."""
