"""What runs inside Spark's Python tasks beside the work of a stage."""
