"""The stage `merge`: changes into the tables, on branches that the gate judges."""
