"""DMS with S3 as its target."""
