"""What is compiled for Databus; positions are those of bytes in one array, the arena."""
