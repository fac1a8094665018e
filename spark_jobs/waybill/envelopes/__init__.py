"""A folder per family of message formats, a registry of them, and Arrow batches through them."""
