"""AWS Database Migration Service: records of its Kafka target, and rows of its S3 files."""
