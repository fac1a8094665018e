"""The notations of IBM CDC's values."""
