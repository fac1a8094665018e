"""The servers that a stack needs, from packages, on the loopback address, without containers."""
