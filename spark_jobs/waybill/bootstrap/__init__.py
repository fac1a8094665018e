"""What a target begins with that is added to a running migration."""
