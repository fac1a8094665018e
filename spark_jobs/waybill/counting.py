"""Numbers with their nouns, for sentences that people read."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "", style: str = "") -> str:
    """A number and what there is of it: `1 file`, `2 files`, `0 files`.

    Args:
        number: how many.
        one: what stands behind 1, with its verb where it has one: `message waits`.
        many: what stands behind every other number; the noun with an s where it is left out.
        style: how the number is written, as `format` takes it.
    """
    return f"{number:{style}} {one if number == 1 else many or one + 's'}"
