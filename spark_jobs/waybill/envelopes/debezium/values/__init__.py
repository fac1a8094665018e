"""The notations of Debezium's values."""
