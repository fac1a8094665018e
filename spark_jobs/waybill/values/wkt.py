"""Well-known text of geometries, and their well-known binary in Base64 (the canonical text).

Two-dimensional geometries only. A reference system stands in front (`SRID=4326;`) as in extended
well-known text. Coordinates are doubles and stay exact: what does not come back bit by bit is
refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from waybill.errors import Refusal
from waybill.values.values import base64_bytes, base64_text, float64_text

_NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_SRID_FLAG = 0x20000000
_DEEPEST = 16
_TOKEN = re.compile(r"\s*([A-Za-z]+|[-+]?[0-9.][-+0-9.eE]*|[(),])")
_SRID = re.compile(r"SRID=([0-9]{1,9});")


def wkt_to_base64(text: str) -> str:
    """Well-known text to little-endian well-known binary in Base64.

    Raises:
        Refusal: kind `value`, when the text is no geometry of two dimensions.
    """
    return base64_text(_binary(text))


def wkt_from_base64(text: str) -> str:
    """Well-known binary in Base64 to well-known text.

    Raises:
        Refusal: kind `encoding`, when the text would not lead back to the same bytes.
    """
    try:
        data = base64_bytes(text)
        written = _Reader(data).text()
        if _binary(written) == data:
            return written
    except (Refusal, struct.error, KeyError, IndexError):
        pass
    raise Refusal("encoding", "a geometry that has no well-known text of two dimensions")


class _Reader:
    """Reads well-known binary."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def text(self) -> str:
        """The whole geometry, with its reference system in front."""
        (kind,) = struct.unpack_from("<I", self.data, 1)
        srid = ""
        if kind & _SRID_FLAG:
            srid = f"SRID={struct.unpack_from('<I', self.data, 5)[0]};"
        return srid + self._geometry(0)

    def _count(self) -> int:
        (count,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        if count > len(self.data):
            raise IndexError(count)
        return int(count)

    def _geometry(self, depth: int, bare: bool = False) -> str:
        if depth > _DEEPEST or self.data[self.at] != 1:
            raise IndexError(depth)
        self.at += 1
        kind = self._kind()
        if kind == 1:
            body = f"({self._point()})"
        elif kind == 2:
            body = self._points()
        elif kind == 3:
            body = _list([self._points() for _ in range(self._count())])
        else:
            bare_parts = kind != 7
            body = _list([self._geometry(depth + 1, bare_parts) for _ in range(self._count())])
        return body if bare else _NAMES[kind] + body

    def _kind(self) -> int:
        (kind,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 8 if kind & _SRID_FLAG else 4
        return int(kind & ~_SRID_FLAG)

    def _points(self) -> str:
        return _list([self._point() for _ in range(self._count())])

    def _point(self) -> str:
        x, y = struct.unpack_from("<dd", self.data, self.at)
        self.at += 16
        return f"{x!r} {y!r}"


def _list(parts: list[str]) -> str:
    return f"({','.join(parts)})"


def _binary(text: str) -> bytes:
    srid = _SRID.match(text)
    parser = _Parser(text[srid.end() :] if srid else text)
    data = parser.geometry(0)
    if parser.peek():
        raise _bad()
    if srid:
        kind = struct.unpack_from("<I", data, 1)[0] | _SRID_FLAG
        data = struct.pack("<BII", 1, kind, int(srid[1])) + data[5:]
    return data


def _bad() -> Refusal:
    return Refusal("value", "a value of a geometry column is no well-known text")


class _Parser:
    """Reads well-known text."""

    def __init__(self, text: str) -> None:
        self.tokens = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _bad()
            self.tokens.append(match[1])
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise _bad()
        self.at += 1
        return token

    def geometry(self, depth: int, kind: int | None = None) -> bytes:
        """A geometry; inside a multi geometry its kind is known and not named."""
        if depth > _DEEPEST:
            raise _bad()
        if kind is None:
            kind = _KINDS.get(self._take().upper())
        if kind is None:
            raise _bad()
        head = struct.pack("<BI", 1, kind)
        if kind == 1:
            # MULTIPOINT(1 2,3 4) is written without the inner brackets too.
            if depth and self.peek() != "(":
                return head + self._point()
            self._take("(")
            point = self._point()
            self._take(")")
            return head + point
        if kind == 2:
            return head + self._all(self._point)
        if kind == 3:
            return head + self._all(lambda: self._all(self._point))
        inner = None if kind == 7 else kind - 3
        return head + self._all(lambda: self.geometry(depth + 1, inner))

    def _all(self, part: Callable[[], bytes]) -> bytes:
        self._take("(")
        parts = [part()]
        while self.peek() == ",":
            self._take()
            parts.append(part())
        self._take(")")
        return struct.pack("<I", len(parts)) + b"".join(parts)

    def _point(self) -> bytes:
        return struct.pack("<dd", self._number(), self._number())

    def _number(self) -> float:
        token = self._take()
        canonical = float64_text(token)
        try:
            value = float(token)
        except ValueError:
            raise _bad() from None
        if repr(value) != canonical or canonical[-1] in "nf":
            raise _bad()
        return value
