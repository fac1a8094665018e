"""Kinds of values in messages, and what marks a value that is none."""

from __future__ import annotations

PLAIN, ESCAPED, INTEGER, NUMBER, NULL, TRUE, FALSE, POWER = range(1, 9)
"""Kinds of values: text without escapes, text with the shortest escapes, integer in plain digits,
any other number in plain digits, the three words, and a number with an exponent."""

VOID, BOOLEAN, VARINT, FLOAT, DOUBLE, FIXED, ENUM, BYTES, STRING = range(9, 18)
"""Kinds of values of Avro: null in a union, then the others; int and long are one kind."""
OPTIONAL = 9
"""What is added to the kind of an Avro value that is in a union of null and one type.

The number of the union's branch belongs to such a value then, as it does to `VOID`, and no other
number of a branch does.
"""

MOST_VALUES = 512
"""A message with more values is read on its own."""
DEEPEST = 60
"""Objects and arrays inside each other; deeper ones are read on their own."""

NULL_SIZE = -1
"""The length of a null."""
BAD = -2
"""The length of a value that cannot be had in bulk."""
