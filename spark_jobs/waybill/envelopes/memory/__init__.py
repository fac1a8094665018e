"""What decoders remember of the tables whose messages they have read."""
