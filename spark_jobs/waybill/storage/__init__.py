"""Files on disks and in object storage."""
