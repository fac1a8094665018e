"""Finding the values of many Avro messages at once, and making the values of others."""
