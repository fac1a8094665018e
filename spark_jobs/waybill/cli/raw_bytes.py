"""The bytes of a message as text: as they are where that is UTF-8, else as a dump."""

from __future__ import annotations

from waybill.cli.output import printable
from waybill.counting import counted

SHOWN = 480
"""Bytes that are shown of one key or value."""

_WIDTH = 16


def bytes_as_lines(data: bytes, limit: int | None = SHOWN) -> list[str]:
    """Lines that show the bytes of a key or value; the last one says what was left out.

    Args:
        data: the bytes.
        limit: how many are shown; None for all.
    """
    part = data if limit is None else data[:limit]
    rest = len(data) - len(part)
    text = _text(part, cut=rest > 0)
    lines = [printable(text)] if text is not None else _dump(part)
    if rest:
        lines.append(f"… {counted(rest, 'byte')} more; --full shows all")
    return lines


def _text(data: bytes, cut: bool) -> str | None:
    """The bytes as text; None if they are none, or hold bytes that no text has."""
    for end in range(4 if cut else 1):
        try:
            text = data[: len(data) - end].decode()
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


def _dump(data: bytes) -> list[str]:
    lines = []
    for at in range(0, len(data), _WIDTH):
        row = data[at : at + _WIDTH]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:06x}  {row.hex(' '):<{3 * _WIDTH - 1}}  {seen}")
    return lines
