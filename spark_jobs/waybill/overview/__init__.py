"""What people see of a migration: an account of every batch and an index of the last ones.

Made from what stages have committed, and kept as small files beside the gate's reports, so that a
page is a handful of small reads. Losing one loses nothing: each stage writes them again.
"""
