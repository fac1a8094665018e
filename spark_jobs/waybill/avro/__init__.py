"""Avro binary data in Confluent's framing, one message and many at a time."""
