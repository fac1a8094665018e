"""Oracle GoldenGate for Big Data: operations of a trail as JSON."""
