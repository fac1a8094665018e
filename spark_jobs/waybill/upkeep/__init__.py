"""Upkeep of a migration's lake: files, snapshots, tombstones, messages that nobody needs."""
