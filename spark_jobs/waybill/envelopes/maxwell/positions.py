"""The order of Maxwell's messages.

`position` is the place in the binlog (`mysql-bin.000001:1953434`), where it is switched on. Rows of
one event share it: `xoffset` counts the rows of a transaction, and the last one has `commit` and no
`xoffset`, so it comes after all others (zendesk/maxwell, RowMap.java).

Without `position` a message tells nothing of its order. `xid` is no substitute: MySQL numbers a
transaction when it begins, and Maxwell writes transactions as they commit, so a row's newest change
may well have the lower number.
"""

from __future__ import annotations

import re

from waybill.errors import Refusal

LAST = 2**63 - 1
"""Stands for the `xoffset` of the row that has `commit`."""

MADE = "sequence"
"""Name of the binlog file in positions that were made from sequence ids of other sources. The parts
stand behind it, the last one as the offset: `sequence.7.4711:0`."""

_DOTTED = re.compile(r"(?:\.-?[0-9]+)*")
_FILE_NUMBER = re.compile(r".*\.([0-9]+)", re.DOTALL)
_OFFSET = re.compile(r"-?[0-9]+")
_LONGEST = 10_000
_MAX_FILES = 10_000


class Positions:
    """Reads positions; the name of a file is looked at once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, ...]] = {}

    def sequence(
        self, position: str | None, xoffset: int | None = None, commit: bool = False
    ) -> tuple[int, ...] | None:
        """The sequence of a message, None where it says nothing about its order.

        Raises:
            Refusal: kind `shape`, when `position` is no place in a binlog.
        """
        if not position:
            return None
        file, _, offset = position.rpartition(":")
        try:
            parts = self._files.get(file)
            if parts is None:
                parts = self._file(file, position)
            if not (offset.isdecimal() and offset.isascii()) and not _OFFSET.fullmatch(offset):
                raise _no_position(position)
            parts = (*parts, int(offset))
        except ValueError:
            # More digits than Python takes for one number.
            raise _no_position(position) from None
        if xoffset is not None:
            return (*parts, xoffset)
        return (*parts, LAST) if commit else parts

    def _file(self, file: str, position: str) -> tuple[int, ...]:
        if len(position) > _LONGEST:
            raise _no_position(position)
        parts: tuple[int, ...] | None = None
        if is_made(file):
            parts = tuple(int(part) for part in file.split(".")[1:])
        elif (number := _FILE_NUMBER.fullmatch(file)) is not None:
            parts = (int(number[1]),)
        if parts is None:
            raise _no_position(position)
        if len(self._files) >= _MAX_FILES:
            self._files.clear()
        self._files[file] = parts
        return parts


def is_made(file: str) -> bool:
    """Whether the name of a file is that of positions made from sequence ids of other sources."""
    return file.startswith(MADE) and _DOTTED.fullmatch(file, len(MADE)) is not None


def _no_position(position: str) -> Refusal:
    sentence = f"position is {position[:60]!r} and not binlog file, colon and offset"
    return Refusal("shape", sentence)


def position_of(sequence: tuple[int, ...]) -> str:
    """A position that is read as this sequence."""
    return f"{'.'.join([MADE, *map(str, sequence[:-1])])}:{sequence[-1]}"
