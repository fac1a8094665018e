"""Object storage that speaks S3's protocol: S3 itself, OSS, MinIO and their like."""
