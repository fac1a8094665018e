"""Changes of the rules from rows of Spark, and rows of the rules as Spark writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.merge.rules import Change, Row, Values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.merge.state import TableState

_image = msgspec.json.Decoder(dict[str, str | None])
_list = msgspec.json.Decoder(list[str])


class Stored(NamedTuple):
    """A row as a merged table holds it."""

    key: str
    order: str
    live: bool
    image: str | None
    sources: str | None


def read_image(text: str | None) -> dict[str, str | None] | None:
    """The values of a text image."""
    return None if text is None else _image.decode(text)


def json_text(image: Values) -> str:
    """The text image of values."""
    return msgspec.json.encode(dict(image)).decode()


def change_of(row: Any) -> Change:
    """The change that a row of `Increment.rows` stands for."""
    return Change(
        row.order,
        row.operation,
        row.key,
        read_image(row.image),
        row.old_key,
        (row.topic, row.partition, row.offset, row["index"]),
        # Only key changes are distinguished by it.
        None if row.old_key is None else read_image(row.before),
        row.transaction,
    )


def row_of(stored: Stored) -> Row:
    """The state of a key from what the table holds; a stored tombstone has no image."""
    sources = None if stored.sources is None else frozenset(_list.decode(stored.sources))
    return Row(stored.order, read_image(stored.image), stored.live, sources)


def stored_of(key: str, row: Row) -> Stored:
    """What the table holds of a key."""
    image = json_text(row.image or {}) if row.live else None
    sources = None
    if row.live and row.sources is not None:
        sources = msgspec.json.encode(sorted(row.sources)).decode()
    return Stored(key, row.order, row.live, image, sources)


def statements(state: TableState) -> list[Change]:
    """The columns that statements added, as changes."""
    return [
        Change(default.order, "column", image={default.column: default.text})
        for default in state.defaults
    ]


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Changes from the lowest order to the highest."""
    return sorted(changes, key=lambda change: change.order)
