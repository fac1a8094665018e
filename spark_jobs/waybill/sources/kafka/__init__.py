"""Topics of Kafka as a source: ranges of offsets fixed by a plan, read to their end."""
