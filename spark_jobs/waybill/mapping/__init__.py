"""What a migration chooses of its tables and columns, and what it makes of them.

A mapping turns changes into changes: of other names, with fewer or other columns, with masked
values. It stands behind the decoder for the lake and everything after it, and in front of an
encoder for one target. What it leaves out is counted.
"""
