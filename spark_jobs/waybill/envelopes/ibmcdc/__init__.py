"""IBM CDC Replication Engine for Kafka."""
