"""What source and target of Kafka have in common: properties of clients, errors, questions."""
