"""The notations of Databus' values."""
