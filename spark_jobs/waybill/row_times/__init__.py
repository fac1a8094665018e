"""Times in rows: whether they are of their column's type, and zones that they lose."""
