"""Avro binary data in Confluent's framing, for every envelope that has it."""
