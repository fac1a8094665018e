"""Generated tables, values and histories: canonical changes that a source could have sent.

`tables` makes schemas, and `histories` makes what a small imaginary database did: it applies every
statement to its rows and writes it down, so it knows its own final rows.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from tests.value_texts import texts
from waybill.records import NO_TABLE, Change, Column, Message, TableSchema, intern_schema
from waybill.types import INTEGER_RANGE, LogicalType, parse_type

# Values


@cache
def _values(kind: LogicalType, source_type: str, hard: bool) -> st.SearchStrategy[str]:
    """Texts that a column of MySQL holds: BINARY(n) n bytes, a time the digits declared for it."""
    declared = re.fullmatch(r"(binary|time|datetime|timestamp)(?:\((\d+)\))?", source_type)
    if declared is None:
        return texts(kind, hard)
    size = int(declared[2] or 0)
    if declared[1] == "binary":
        return st.binary(min_size=size, max_size=size).map(lambda b: base64.b64encode(b).decode())
    fraction = re.compile(rf"\.([0-9]{{0,{size}}})[0-9]*")
    return texts(kind, hard).map(
        lambda text: fraction.sub(lambda m: f".{m[1]}" if m[1] else "", text)
    )


# Tables

SOURCE_TYPES = {
    "mysql": [
        *("tinyint", "smallint", "mediumint", "int", "bigint", "tinyint unsigned"),
        *(
            "smallint unsigned",
            "int unsigned",
            "bigint unsigned",
            "decimal(38,10)",
            "decimal(12,2)",
        ),
        *("decimal(65,30)", "decimal(5,0)", "float", "double", "bit(1)", "bit(8)", "bit(20)"),
        *("char(10)", "varchar(200)", "text", "longtext", "binary(8)", "varbinary(64)", "blob"),
        *("json", "enum('new','it''s','完成')", "set('a','b','d e')", "date", "time(6)"),
        *("datetime", "datetime(6)", "timestamp", "timestamp(6)"),
    ],
    "postgresql": [
        *("smallint", "integer", "bigint", "numeric(38,10)", "numeric", "real"),
        *(
            "double precision",
            "boolean",
            "character varying(200)",
            "text",
            "bytea",
            "json",
            "jsonb",
        ),
        *("uuid", "date", "time without time zone", "timestamp without time zone"),
        *("timestamp with time zone", "xml", "interval"),
    ],
    "": [
        *(*INTEGER_RANGE, "boolean", "number", "float32", "float64", "string", "bytes", "json"),
        *("decimal(38,10)", "decimal(60,0)", "decimal(30,30)", "bit(20)", "enum", "set", "xml"),
        *("interval", "geometry", "date", "time", "timestamp", "timestamptz"),
    ],
}
"""Column types by dialect, as `source_type` names them; with the empty one, logical types."""

KEY_KINDS = frozenset({*INTEGER_RANGE, "string", "date", "decimal"} - {"int8", "uint8"})
NAMES = [
    *("id", "name", "amount", "created_at", "列", "a b", "a:b", "%s", "op", "before", "dataColumn"),
    *("ID", "Name", "f0", "x-y", "über", "type", "null", "1st", "under_score"),
]
"""Names that columns have, some of which a careless envelope takes for its own members."""


def column_of(name: str, source_type: str, dialect: str) -> Column:
    """A column as a decoder of that dialect would describe it."""
    kind = parse_type(source_type, dialect)
    return Column(name, kind, source_type if dialect else None)


@cache
def _types(dialect: str, of_keys: bool) -> st.SearchStrategy[str]:
    """Types of columns, or of those of a key."""
    types = SOURCE_TYPES[dialect]
    if of_keys:
        types = [one for one in types if parse_type(one, dialect).kind in KEY_KINDS]
    return st.sampled_from(types)


@st.composite
def tables(
    draw: st.DrawFn,
    dialects: tuple[str, ...] = ("", "mysql", "postgresql"),
    keys: tuple[int, int] = (0, 3),
    columns: tuple[int, int] = (1, 6),
) -> TableSchema:
    """Schemas of tables.

    Args:
        draw: given by hypothesis.
        dialects: which type names columns have.
        keys: least and most key columns.
        columns: least and most columns besides the key.
    """
    dialect = draw(st.sampled_from(dialects))
    key_size = draw(st.integers(*keys))
    others = draw(st.integers(max(columns[0], 1 - key_size), columns[1]))
    names = draw(st.permutations(NAMES))[: key_size + others]
    made = [
        column_of(name, draw(_types(dialect, i < key_size)), dialect)
        for i, name in enumerate(names)
    ]
    key = tuple(names[:key_size])
    order = draw(st.permutations(made))
    schema = draw(st.sampled_from(["public", None])) if dialect != "mysql" else None
    return intern_schema("shop", schema, "orders", tuple(order), key, dialect)


# Images


def image(schema: TableSchema, **values: Any) -> Any:
    """An image from values by column name; columns not named are left out."""
    return schema.Image(**{f"f{schema.index[name]}": value for name, value in values.items()})


def by_name(schema: TableSchema, row: Any) -> dict[str, str | None] | None:
    """The columns of an image that are there."""
    if row is None:
        return None
    values = {name: getattr(row, f"f{i}") for i, name in enumerate(schema.names)}
    return {name: value for name, value in values.items() if value is not UNSET}


# Strategies that are drawn from again and again are made once, as in `texts`.
_ONE_OF_SIX = st.integers(0, 5)
_SECONDS = st.sampled_from([1_000, 1_234, 1_000_000, 3_600_000_000])
_STEPS = st.sampled_from([1, 1, 999])
_EITHER = st.booleans()


@st.composite
def rows(draw: st.DrawFn, schema: TableSchema, hard: bool = False) -> dict[str, str | None]:
    """Whole rows of a table by column name; key columns are never null."""
    row: dict[str, str | None] = {}
    for column in schema.columns:
        in_key = column.name in (schema.key or ())
        nulls = in_key or draw(_ONE_OF_SIX) > 0
        values = _values(column.type, column.source_type or "", hard and not in_key)
        row[column.name] = draw(values) if nulls else None
    return row


# Histories


@dataclass
class Knobs:
    """What a source tells in its log."""

    before: str = "full"
    """The before image: full, key (its key columns only), none."""
    partial: bool = False
    """After images may leave out columns that are not the key."""
    sequence: str = "one"
    """Sequence ids: none, one number, or many parts."""
    transactions: bool = False
    """Begin, commit, rollback, and ids of transactions on rows."""
    events: bool = False
    """TRUNCATE, DDL and heartbeats."""
    hard: bool = False
    """Values over the edge of their type."""
    partitions: int = 2


@dataclass
class History:
    """What happened to one table.

    Attributes:
        schema: the table.
        changes: the log, in the order of the source.
        rows: the final rows by key values; for a table without key, all rows in a list.
    """

    schema: TableSchema
    changes: list[Change] = field(default_factory=list)
    rows: dict[tuple[str | None, ...], dict[str, str | None]] = field(default_factory=dict)


class Source:
    """The imaginary database: it runs statements and writes its log."""

    def __init__(self, draw: st.DrawFn, schema: TableSchema, knobs: Knobs) -> None:
        self.draw = draw
        self.knobs = knobs
        self.history = History(schema)
        self.offsets = [0] * knobs.partitions
        self.clock = 1_700_000_000_000_000
        self.number = 1_605_339_516_000_000_000
        self.transaction: str | None = None

    @property
    def schema(self) -> TableSchema:
        return self.history.schema

    def key(self, row: dict[str, str | None]) -> tuple[str | None, ...]:
        return tuple(row[name] for name in self.schema.key or self.schema.names)

    def log(self, operation: str, before: Any = None, after: Any = None, **more: Any) -> None:
        """Write a change down, at the next place of its partition."""
        self.clock += self.draw(_SECONDS)
        self.number += self.draw(_STEPS)
        row = after or before
        keyed = row and [row.get(name) for name in self.schema.key or ()]
        partition = sum(repr(keyed).encode()) % self.knobs.partitions if keyed else 0
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        message = Message("topic", partition, offset, self.clock // 1000, None, None)
        schema = more.pop("schema", self.schema)
        full_row = operation == "read" and self.draw(_EITHER)
        sequence = {
            "none": None,
            "one": (self.number,),
            "many": (7, self.number, offset % 3),
        }[self.knobs.sequence]
        self.history.changes.append(
            Change(
                operation,
                schema,
                message,
                before=None if before is None else image(schema, **before),
                after=None if after is None else image(schema, **after),
                sequence=None if full_row else sequence,
                full_row=full_row,
                source_time=None if full_row else self.clock,
                transaction=self.transaction if after or before else more.pop("transaction", None),
                **more,
            )
        )

    def stated_before(self, row: dict[str, str | None]) -> dict[str, str | None] | None:
        if self.knobs.before == "none":
            return None
        if self.knobs.before == "key" and self.schema.key:
            return {name: row[name] for name in self.schema.key}
        return row

    def stated_after(self, row: dict[str, str | None]) -> dict[str, str | None]:
        if not self.knobs.partial:
            return row
        kept = {n: v for n, v in row.items() if n in (self.schema.key or ())}
        others = [name for name in row if name not in kept]
        kept.update({name: row[name] for name in others if self.draw(_EITHER)})
        return kept

    def new_row(self) -> dict[str, str | None]:
        return self.draw(rows(self.schema, self.knobs.hard))

    def read(self) -> None:
        row = self.new_row()
        if self.key(row) not in self.history.rows:
            self.history.rows[self.key(row)] = row
            self.log("read", after=row)

    def insert(self) -> None:
        row = self.new_row()
        if self.key(row) not in self.history.rows:
            self.history.rows[self.key(row)] = row
            self.log("insert", after=row)

    def _some(self) -> dict[str, str | None] | None:
        keys = list(self.history.rows)
        return self.history.rows[self.draw(st.sampled_from(keys))] if keys else None

    def update(self) -> None:
        old = self._some()
        if old is None or not self.schema.key:
            return
        new = {**self.new_row(), **{name: old[name] for name in self.schema.key}}
        after = self.stated_after(new)
        self.history.rows[self.key(old)] = {**old, **after}
        self.log("update", self.stated_before(old), after)

    def move(self) -> None:
        """An update of the key."""
        old = self._some()
        new = self.new_row()
        if old is None or not self.schema.key or self.key(new) in self.history.rows:
            return
        del self.history.rows[self.key(old)]
        self.history.rows[self.key(new)] = new
        before = self.stated_before(old)
        moved = None if before else self.schema.Key(*self.key(old))
        self.log("update", before, new, moved_from=moved)

    def delete(self) -> None:
        old = self._some()
        if old is not None:
            del self.history.rows[self.key(old)]
            before = self.stated_before(old) or {
                n: old[n] for n in self.schema.key or self.schema.names
            }
            self.log("delete", before)

    def truncate(self) -> None:
        self.history.rows.clear()
        self.log("truncate")

    def ddl(self) -> None:
        name = self.schema.qualified_name
        self.log("ddl", ddl_text=self.draw(st.sampled_from(DDL)).format(name=name))

    def heartbeat(self) -> None:
        self.log("heartbeat", schema=NO_TABLE)

    def begin(self) -> None:
        self.transaction = f"tx-{self.number}"
        self.log("begin", schema=NO_TABLE, transaction=self.transaction)

    def end(self) -> None:
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            self.log("commit", schema=NO_TABLE, transaction=transaction)


DDL = (
    "ALTER TABLE {name} ADD COLUMN extra TEXT",
    "CREATE TABLE {name}_new (id INT)",
    "DROP TABLE {name}_old",
    "RENAME TABLE {name} TO {name}_2",
    "CREATE UNIQUE INDEX i ON {name} (id)",
    "DROP INDEX i ON {name}",
    "CREATE DATABASE more DEFAULT CHARACTER SET utf8mb4",
)


@st.composite
def histories(
    draw: st.DrawFn,
    schema: TableSchema | None = None,
    knobs: Knobs | None = None,
    steps: tuple[int, int] = (1, 12),
) -> History:
    """Histories of one table.

    Args:
        draw: given by hypothesis.
        schema: the table; drawn where it is not given.
        knobs: what the source tells; drawn where it is not given.
        steps: least and most statements after the snapshot.
    """
    if schema is None:
        schema = draw(tables())
    if knobs is None:
        knobs = Knobs(
            before=draw(st.sampled_from(["full", "key", "none"])),
            partial=draw(st.booleans()),
            sequence=draw(st.sampled_from(["none", "one", "many"])),
            transactions=draw(st.booleans()),
            events=draw(st.booleans()),
        )
    source = Source(draw, schema, knobs)
    for _ in range(draw(st.integers(0, 3))):
        source.read()
    actions = [source.insert, source.insert, source.update, source.update, source.delete]
    actions += [source.move] if schema.key else []
    actions += [source.truncate, source.ddl, source.heartbeat] if knobs.events else []
    actions += [source.begin, source.end] if knobs.transactions else []
    for _ in range(draw(st.integers(*steps))):
        draw(st.sampled_from(actions))()
    source.end()
    return source.history
