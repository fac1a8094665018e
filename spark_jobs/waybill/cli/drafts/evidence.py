"""What a sample of messages tells: tables, their keys, types and operations, and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.cli.check_tables import image_of
from waybill.cli.drafts.key_guesses import KeyGuess, Row, key_guesses
from waybill.cli.drafts.type_guesses import TypeGuess, type_guess
from waybill.errors import Refusal, WaybillError
from waybill.records import ROW_OPERATIONS, refused
from waybill.row_times.typed import check_row

if TYPE_CHECKING:
    from waybill.protocol import Decoder
    from waybill.records import Change, Message

UNTYPED = frozenset({"unknown", "number"})
"""Kinds of columns whose type a person can tell better than the messages."""

_TEXT = "string"


class Refused(NamedTuple):
    """Rows or messages that were refused for one kind of reason.

    Attributes:
        rows: how many.
        sentence: why the first was. It may name values of a row, so it does not go into the file,
            which the lake keeps and pages show.
        place: topic, partition and offset of the first.
    """

    rows: int
    sentence: str
    place: str


@dataclass
class ColumnSeen:
    """One column of a table.

    Attributes:
        type: its logical type, as the last message states it.
        source_type: the type as the messages name it.
        values: its values that are not null.
    """

    type: str = "unknown"
    source_type: str | None = None
    values: list[str] = field(default_factory=list)

    @property
    def guess(self) -> TypeGuess | None:
        """What its values suggest where the messages state no type."""
        # A text whose type the messages name is one; where they name none it may be a date.
        open_ = self.type in UNTYPED or (self.type == _TEXT and self.source_type is None)
        return type_guess(self.values) if open_ else None


@dataclass
class TableSeen:
    """One table of the sample.

    Attributes:
        name: as `tables` of a migration calls it.
        key: its key; None or empty where the messages name none.
        dialect: whose names of types the messages use.
        columns: by name, in order.
        operations: how many changes of each kind.
        sequenced: how many have a sequence id.
        full: how many are full rows without one.
        new_rows: rows that were inserted or read.
        rows: every row as its change leaves it, or as it was deleted.
    """

    name: str
    key: tuple[str, ...] | None = None
    dialect: str = ""
    columns: dict[str, ColumnSeen] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    sequenced: int = 0
    full: int = 0
    new_rows: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def key_guesses(self) -> list[KeyGuess]:
        """What could be its key."""
        return [] if self.key else key_guesses(self.new_rows, self.rows)

    @property
    def type_guesses(self) -> dict[str, TypeGuess]:
        """What the types could be of columns that have none, by name."""
        guesses = {name: column.guess for name, column in self.columns.items()}
        return {name: guess for name, guess in guesses.items() if guess is not None}

    @property
    def order(self) -> str:
        """What orders its changes, in a few words."""
        counts = [
            (self.sequenced, "by id"),
            (sum(self.operations.values()) - self.sequenced - self.full, "by position"),
            (self.full, "full rows"),
        ]
        present = [(count, what) for count, what in counts if count]
        if len(present) == 1:
            return present[0][1]
        return ", ".join(f"{count} {what}" for count, what in present)


@dataclass
class Evidence:
    """What a sample tells.

    Attributes:
        messages: how many were looked at.
        changes: the changes that were taken.
        refused: what was refused, by kind.
        tables: by name.
        events: changes that are not rows, by operation.
        partitions: where the changes came from.
        split_keys: keys that came from several partitions without a sequence id.
        halves: halves of updates, by side.
    """

    messages: int
    changes: list[Change] = field(default_factory=list)
    refused: dict[str, Refused] = field(default_factory=dict)
    tables: dict[str, TableSeen] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    partitions: set[tuple[str, int]] = field(default_factory=set)
    split_keys: int = 0
    halves: Counter[str] = field(default_factory=Counter)

    @property
    def refused_count(self) -> int:
        """How many rows or messages were refused."""
        return sum(found.rows for found in self.refused.values())

    @property
    def sequenced(self) -> int:
        """How many changes of rows have a sequence id."""
        return sum(table.sequenced for table in self.tables.values())

    @property
    def unsequenced(self) -> int:
        """How many have none and are not full rows."""
        rows = sum(sum(table.operations.values()) for table in self.tables.values())
        return rows - self.sequenced - sum(table.full for table in self.tables.values())

    @property
    def dialects(self) -> list[str]:
        """Whose names of types the messages use, where that is the name of a database."""
        named = {table.dialect for table in self.tables.values()}
        return sorted(named & DATABASES)


DATABASES = frozenset({"mysql", "mariadb", "postgresql", "oracle", "sqlserver", "db2", "oceanbase"})
"""Dialects that are kinds of databases."""


def changes_of(decoder: Decoder, messages: Iterable[Message]) -> list[Change]:
    """Every change of messages, refused ones among them, as a conversion would take them."""
    found: list[Change] = []
    for message in messages:
        try:
            found += map(_checked, decoder.decode(message))
        except Refusal as refusal:
            found.append(refused(message, refusal))
        except WaybillError as error:
            found.append(refused(message, Refusal("shape", error.sentence)))
    return found


def _checked(change: Change) -> Change:
    if change.outcome == "ok" and change.operation in ROW_OPERATIONS:
        try:
            check_row(change)
        except Refusal as refusal:
            return refused(change.message, refusal)
    return change


def evidence_of(every: Sequence[Change], messages: int) -> Evidence:
    """What changes tell.

    Args:
        every: the changes of a sample, refused and skipped ones among them.
        messages: how many messages they came from.
    """
    found = Evidence(messages)
    places: dict[tuple[str, str], set[int]] = {}
    for change in every:
        if change.outcome == "refused":
            kind = change.reason_kind or "shape"
            message = change.message
            place = f"{message.topic}/{message.partition}/{message.offset}"
            before = found.refused.get(kind, Refused(0, change.reason or "", place))
            found.refused[kind] = before._replace(rows=before.rows + 1)
        elif change.outcome == "ok":
            found.changes.append(change)
            found.partitions.add((change.message.topic, change.message.partition))
            if change.operation not in ROW_OPERATIONS or not change.schema.table:
                found.events[change.operation] += 1
                continue
            _take(found, change)
            key = _key_of(change)
            if key is not None and change.sequence is None and not change.full_row:
                table = change.schema.qualified_name
                places.setdefault((table, key), set()).add(change.message.partition)
    found.split_keys = sum(len(where) > 1 for where in places.values())
    return found


def _take(found: Evidence, change: Change) -> None:
    schema = change.schema
    name = schema.qualified_name
    table = found.tables.setdefault(name, TableSeen(name))
    table.key = schema.key or table.key
    table.dialect = schema.dialect or table.dialect
    if change.half is not None:
        found.halves[change.half] += 1
    table.operations[change.operation] += 1
    table.sequenced += change.sequence is not None
    table.full += change.sequence is None and change.full_row
    for column in schema.columns:
        seen = table.columns.setdefault(column.name, ColumnSeen())
        if column.type.kind != "unknown" or seen.type == "unknown":
            seen.type, seen.source_type = str(column.type), column.source_type
    images = [image_of(image) for image in (change.before, change.after) if image is not None]
    for image in images:
        for column_name, text in image.items():
            if text is not None:
                table.columns[column_name].values.append(text)
    last = change.before if change.after is None else change.after
    if last is not None and change.half is None:
        # Rows before an update may hold no more than what changed.
        table.rows.append(image_of(last))
    if change.operation in ("insert", "read") and change.half is None and change.after is not None:
        table.new_rows.append(image_of(change.after))


def _key_of(change: Change) -> str | None:
    try:
        key = change.key_image()
    except Refusal:
        # It is refused later, with the same sentence as by `waybill check`.
        return None
    return None if key is None else msgspec.json.encode(key).decode()


def as_data(evidence: Evidence) -> list[dict[str, Any]]:
    """The tables for programs."""
    return [
        {
            "table": table.name,
            "key": list(table.key or ()),
            "key_guesses": [list(guess.columns) for guess in table.key_guesses],
            "columns": {name: _column(column) for name, column in table.columns.items()},
            "operations": dict(table.operations),
            "order": table.order,
        }
        for table in evidence.tables.values()
    ]


def _column(column: ColumnSeen) -> Mapping[str, Any]:
    guess = column.guess
    return {
        "type": column.type,
        "source_type": column.source_type,
        "guess": None if guess is None else guess.type,
    }
