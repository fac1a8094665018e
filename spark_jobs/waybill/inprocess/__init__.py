"""Conversion of files without Spark: message by message, in blocks, in bounded memory."""
