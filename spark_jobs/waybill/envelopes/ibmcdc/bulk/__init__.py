"""IBM CDC in bulk."""
