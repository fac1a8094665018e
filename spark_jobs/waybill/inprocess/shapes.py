"""What the messages of an envelope look like: the names that it writes itself.

A few made-up changes are written by the envelope's own encoder. The names that then stand in its
messages, without those of the columns, tell them from messages of others. Nothing has to be kept
by hand, so nothing can be out of date.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.errors import WaybillError
from waybill.records import NO_TABLE, ROW_OPERATIONS, Change, Column, Message, intern_schema
from waybill.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.protocol import Encoder, Envelope, Settings

COLUMNS = ("waybill_key", "waybill_value")

CLEAR = 3
"""So many names of one envelope do not stand together by chance."""

Names = frozenset[str]
"""Names in a message: those at its top, and `outer.inner` for those one level below."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Likeness(NamedTuple):
    """How much of a message speaks for an envelope.

    Attributes:
        found: how many names (or bytes) of it are the envelope's own.
        missing: how many names of the envelope's nearest message are not there.
        seen: what was found, for people.
        unseen: names that are missing.
    """

    found: int
    missing: int
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def clear(self) -> bool:
        """Whether the message can hardly be another's, even if it cannot be read."""
        return self.found >= CLEAR and self.found > self.missing


NOTHING = Likeness(0, 0)


def names_in(value: bytes) -> Names | None:
    """The names in a message; None if it is not a JSON object."""
    try:
        top = _decode(value)
    except (ValueError, RecursionError):
        return None
    found = set(top)
    for name, raw in top.items():
        if bytes(raw).startswith(b"{"):
            try:
                found.update(f"{name}.{inner}" for inner in _decode(raw))
            except (ValueError, RecursionError):
                continue
    return frozenset(found)


class Shapes:
    """The messages that an envelope writes.

    Args:
        envelope: its declaration.
    """

    def __init__(self, envelope: Envelope) -> None:
        self.mark = envelope.mark
        self.rows: set[Names] = set()
        self.events: set[Names] = set()
        if self.mark is None:
            for operation, shape in _written(envelope):
                if shape:
                    (self.rows if operation in ROW_OPERATIONS else self.events).add(shape)
        self.all = self.rows | self.events
        self.names: Names = frozenset().union(*self.all)

    def likeness(self, message: Message, names: Names | None, row: bool | None) -> Likeness:
        """How much a message looks like one of these.

        Args:
            message: it.
            names: the names in it (`names_in`).
            row: whether it carries a row, None if that is not known.
        """
        if self.mark is not None:
            seen = self.mark(message)
            return NOTHING if seen is None else Likeness(seen.size, 0, (seen.text,))
        shapes = self.all if row is None else self.rows if row else self.events
        if names is None or not shapes:
            return NOTHING
        near = max(shapes, key=lambda shape: (len(shape & names), -len(shape - names)))
        unseen = tuple(sorted(near - names))
        return Likeness(len(near & names), len(unseen), tuple(sorted(self.names & names)), unseen)


@cache
def shapes_of(name: str) -> Shapes:
    """The messages that an envelope of the registry writes."""
    return Shapes(registry.get(name))


def _written(envelope: Envelope) -> Iterator[tuple[str, Names]]:
    """The names in messages of every kind, whatever the settings choose."""
    for encoder in _encoders(envelope):
        for change in _changes():
            try:
                written = encoder.encode(change, [])
            except WaybillError:
                continue
            for encoded in written:
                names = None if encoded.value is None else names_in(encoded.value)
                if names is not None:
                    own = frozenset(name for name in names if not name.endswith(COLUMNS))
                    yield change.operation, own


def _encoders(envelope: Envelope) -> Iterator[Encoder]:
    if envelope.encoder is None:
        return
    for choice in ({}, *choices(envelope.encode_settings)):
        try:
            yield envelope.encoder(envelope.encode_settings(**choice))
        except (ValidationError, WaybillError):
            continue


def choices(model: type[Settings]) -> Iterator[dict[str, Any]]:
    """Each switch turned, and each other choice of a setting, one at a time."""
    for name, known in model.model_fields.items():
        kind = known.annotation
        values: tuple[Any, ...] = (False, True) if kind is bool else ()
        for part in (kind, *get_args(kind)):
            if get_origin(part) is Literal:
                values = get_args(part)
        yield from ({name: value} for value in values if value != known.default)


def _changes() -> Iterator[Change]:
    columns = tuple(Column(name, parse_type("varchar(9)"), "varchar(9)") for name in COLUMNS)
    table = intern_schema("database", None, "table", columns, COLUMNS[:1], "mysql")
    row, other = table.Image("1", "a"), table.Image("1", "b")
    more: dict[str, Any] = {"sequence": (1,), "source_time": 1_000_000, "transaction": "1"}

    def change(operation: str, schema: Any = table, **images: Any) -> Change:
        message = Message("database.table", 0, 0, 1000, None, None)
        return Change(operation, schema, message, **images, **more)

    yield change("insert", after=row)
    yield change("update", before=row, after=other)
    yield change("delete", before=row)
    yield change("read", after=row, full_row=True)
    yield change("truncate")
    yield change("ddl", ddl_text="DROP TABLE t")
    yield change("heartbeat", NO_TABLE)
    yield change("begin", NO_TABLE)
    yield change("commit", NO_TABLE)
