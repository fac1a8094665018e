"""Copying, comparing and reading bytes inside compiled code, as C does it.

Loops over single bytes are what compiled code is slow at: each index is checked for its sign.
What the instructions become is in `waybill.bulk.native.instructions`, which only a compiler loads.
"""

from __future__ import annotations

from waybill.bulk.compiling import compiled
from waybill.bulk.native.functions import Instruction

copy = Instruction("copy")
"""`copy(target, at, source, start, size)`: copy bytes of `source` from `start` on to `at`."""

word = Instruction("word")
"""`word(data, at)`: the eight bytes from `at` on as one number, the first byte the lowest."""

first_marked = Instruction("first_marked")
"""`first_marked(marks)`: which of eight bytes is the first with its highest bit set, if any is."""

put_word = Instruction("put_word")
"""`put_word(data, at, number)`: write what `word` reads."""

_prefetch = Instruction("prefetch")


@compiled
def ahead(data, starts, i):
    """Have the bytes brought near that one of the next rows needs.

    The values of a column stand far from each other, at no even distance: without this a processor
    waits for most of them.
    """
    if i + _AHEAD < starts.shape[0]:
        _prefetch(data, starts[i + _AHEAD])


_AHEAD = 12
"""How many rows: long enough for bytes to come, and not so long that they go again."""
