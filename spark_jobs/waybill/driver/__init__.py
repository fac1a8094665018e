"""A Spark driver that stays: it runs stages on demand, without a start of Java for each."""
