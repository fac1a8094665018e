"""The stage `validate`: what was staged is judged, and only then made visible."""
