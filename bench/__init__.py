"""Every performance figure of the documentation comes from a command here: `make bench`."""
