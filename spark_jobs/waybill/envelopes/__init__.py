"""One file per message format, a registry of them, and the conversion of Arrow batches."""
