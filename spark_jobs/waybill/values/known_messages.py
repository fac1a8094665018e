"""Messages all of whose members are known, decoded in one piece.

A decoder that has read a message of a table exactly declares, member by member, what the next ones
hold. They are decoded by that; a message that says anything else is read exactly again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from typing import Any, get_args

import msgspec
from msgspec import UNSET, UnsetType

from waybill.values.values import quotes_of

Members = Mapping[str, Any]
"""Types by name, in the order of the message.

Where a type takes UNSET, the member may be missing.
"""

_ATTRIBUTE = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")

_into = msgspec.json.Encoder().encode_into


def strict(
    members: Members, absent: Iterable[str] = (), attributes: Mapping[str, str] | None = None
) -> type[Any]:
    """The struct of an object that has these members and no others.

    Its fields are in their order and have their names, with `_` for `-`; a name that Python cannot
    spell becomes `x` and a number.

    Args:
        members: what the object holds.
        absent: names that the struct has as well, and whose value is None.
        attributes: the fields of members that are not to have their name.
    """
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}
    for number, (name, kind) in enumerate(members.items()):
        field = (attributes or {}).get(name) or name.replace("-", "_")
        if field in rename or _ATTRIBUTE.fullmatch(field) is None or iskeyword(field):
            field = f"x{number}"
        rename[field] = name
        if kind is UnsetType or UnsetType in get_args(kind):
            fields.append((field, kind, UNSET))
        else:
            fields.append((field, kind))
    return msgspec.defstruct(
        "Known",
        fields,
        rename=rename,
        namespace=dict.fromkeys(absent),
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


class KnownMessage:
    """Decodes messages of one kind, where they say nothing but what is decoded of them.

    Then no name stands twice in one, and nothing was passed over: encoding it gives the same bytes
    again, or at least, where a producer writes JSON in other ways, as many quotes; every name and
    every string has two.

    Args:
        kind: what they hold, see `strict`.
        other: whether a message that is written in other ways says something else all the same.
    """

    def __init__(self, kind: type[Any], other: Callable[[bytes], Any] | None = None) -> None:
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
        # Encoding into the same buffer again spares most of the time.
        self._buffer = bytearray()
        self._other = other

    def __call__(self, value: bytes) -> Any:
        """What a message holds; None if it holds more than that.

        Raises:
            ValueError: it is another message (`JSON_ERRORS`).
        """
        decoded, buffer = self._decode(value), self._buffer
        _into(decoded, buffer)
        return decoded if buffer == value or self._is_all(buffer, value) else None

    def _is_all(self, buffer: bytearray, value: bytes) -> bool:
        if quotes_of(bytes(buffer)) != quotes_of(value):
            return False
        return self._other is None or not self._other(value)
