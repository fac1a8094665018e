"""Generated tables, values and histories: canonical changes that a source could have sent.

`tables` makes schemas, `texts` makes the text of values with the edges of every logical type in
them, and `histories` makes what a small imaginary database did: it applies every statement to its
rows and writes it down, so it knows its own final rows.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from waybill.records import NO_TABLE, Change, Column, Message, TableSchema, intern_schema
from waybill.types import INTEGER_RANGE, LogicalType, parse_type

# Values


def _integer_edges(kind: str) -> list[str]:
    low, high = INTEGER_RANGE[kind]
    near = {low, low + 1, -1, 0, 1, 7, high - 1, high}
    return [str(n) for n in sorted(near) if low <= n <= high]


EDGES: dict[str, list[str]] = {
    **{kind: _integer_edges(kind) for kind in INTEGER_RANGE},
    "boolean": ["true", "false"],
    "number": [
        *("0", "-0", "1.10", "-1.10", "0.000000000000000000000000000001", "100.00"),
        "123456789012345678901234567890",
        "-12345678901234567890123456789012345678901234567890.1234567890",
        f"1{'0' * 400}",
        f"0.{'0' * 399}1",
        "9007199254740993",
        "18446744073709551616",
    ],
    "float32": ["0.0", "-0.0", "1.5", "0.1", "3.4028235e+38", "1e-45", "16777216.0"],
    "float64": [
        *("0.0", "-0.0", "1.1", "-2.5", "0.1", "1e+16", "1e-07", "123456789.123456"),
        *("1.7976931348623157e+308", "5e-324", "2.2250738585072014e-308", "9007199254740992.0"),
    ],
    "string": [
        *(
            "",
            " ",
            "a",
            "plain text",
            "naïve “quoted” 'text'",
            'say "hi": now\\',
            "完成",
            "\U0001f600",
        ),
        *("null", "NULL", "true", "1.10", "007", "{}", "[1]", "a\tb\nc\r\n", "\u0000", "\u0001x"),
        *("\u2028\u2029", "\ufeffbom", "\x7f\x80", "e\u0301", "a:b", '":', "</script>", "'; --"),
    ],
    "enum": ["new", "it's", "完成"],
    "set": ["a,b", "", "d e"],
    "json": ['{"a": 1.10, "b": [null, "x"]}', "[]", '"text"', "1e400", '{"a":"\\u0000"}'],
    "interval": ["P1Y2M3DT4H5M6.789S", "1 year 2 mons"],
    "xml": ['<a b="c">d &amp; e</a>'],
    "bytes": ["", "AA==", "AP8=", "//79/A==", base64.b64encode(bytes(range(256))).decode()],
    "geometry": ["AQEAAAAAAAAAAADwPwAAAAAAAABA"],
    "date": ["1970-01-01", "2024-02-29", "1000-01-01", "9999-12-31", "1969-12-31"],
    "time": ["00:00:00", "23:59:59.999999", "12:30:00.5", "10:11:12.123"],
    "timestamp": [
        *("1970-01-01T00:00:00", "2024-02-29T23:59:59.999999", "1999-12-31T12:00:00.123"),
        *("1000-01-01T00:00:00", "9999-12-31T23:59:59.999999", "2024-03-31T02:30:00"),
    ],
    "timestamptz": [
        *("1970-01-01T00:00:00Z", "2024-02-29T23:59:59.999999Z", "2038-01-19T03:14:07.999Z"),
        *("1970-01-01T00:00:01.5Z", "2024-11-03T05:30:00Z"),
    ],
}
"""Texts of each type that any envelope for it should carry, its limits and traps among them."""

HARD: dict[str, list[str]] = {
    **{kind: [str(10**30), "-0", "007", "abc"] for kind in INTEGER_RANGE},
    "boolean": ["1", "maybe"],
    "float32": ["NaN", "Infinity", "-Infinity", "1e400", "0.12345678901234567890"],
    "float64": ["NaN", "Infinity", "-Infinity", "1e400", "9007199254740993", "0." + "1" * 30],
    "number": ["NaN"],
    "decimal": ["NaN", "1" * 60, "0." + "1" * 60],
    "bytes": ["not base64", "AA"],
    "date": ["0000-00-00", "2024-02-30", "infinity", "10000-01-01", "0044-03-15 BC"],
    "time": ["-838:59:59.000001", "838:59:59", "24:00:00", "12:30:00.123456789012"],
    "timestamp": [
        *("0000-00-00 00:00:00", "2024-02-30 10:00:00", "infinity", "+294276-12-31T00:00:00"),
        *("2024-02-29T23:59:59.123456789", "0001-01-01T00:00:00", "2024-02-29T23:59:59.1234567890"),
    ],
    "timestamptz": ["2024-02-29T23:59:59.123456789Z", "infinity", "0001-01-01T00:00:00Z"],
}
"""Texts that a type's column may hold although they are at or over its edge: an envelope carries
them unchanged or refuses them."""


def _decimal_edges(precision: int, scale: int) -> list[str]:
    whole, fraction = "9" * (precision - scale), "9" * scale
    largest = (whole or "0") + (f".{fraction}" if scale else "")
    zero = "0" + (f".{'0' * scale}" if scale else "")
    short = f"1.{'10'.ljust(scale, '0')}"[: 2 + scale] if scale else "1"
    return [largest, f"-{largest}", zero, short if precision > scale else zero]


def edges_of(kind: LogicalType) -> list[str]:
    """The texts of a type that should pass everywhere."""
    if kind.kind == "decimal":
        return _decimal_edges(kind.precision or 0, kind.scale or 0)
    if kind.kind == "bit":
        size = kind.precision or 1
        values = (0, 1, 2**size - 1)
        return [base64.b64encode(v.to_bytes((size + 7) // 8, "big")).decode() for v in values]
    return EDGES[kind.kind]


def texts(kind: LogicalType, hard: bool = False) -> st.SearchStrategy[str]:
    """Texts of values of a type; with `hard` those over its edge too."""
    strategies = [st.sampled_from(edges_of(kind))]
    if hard and kind.kind in HARD:
        strategies.append(st.sampled_from(HARD[kind.kind]))
    if kind.is_integer:
        low, high = INTEGER_RANGE[kind.kind]
        strategies.append(st.integers(low, high).map(str))
    elif kind.kind == "decimal":
        strategies.append(_decimals(kind.precision or 0, kind.scale or 0))
    elif kind.kind == "float64":
        strategies.append(st.floats(allow_nan=False, allow_infinity=False).map(repr))
    elif kind.kind == "string":
        strategies.append(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
    elif kind.kind == "bytes":
        strategies.append(st.binary(max_size=12).map(lambda b: base64.b64encode(b).decode()))
    elif kind.kind in ("timestamp", "timestamptz"):
        zone = "Z" if kind.kind == "timestamptz" else ""
        moments = st.datetimes(_SOON_AFTER_1970, _LATE)
        strategies.append(moments.map(lambda moment: f"{moment.isoformat()}{zone}"))
    return st.one_of(strategies)


def _values(column: Column, hard: bool) -> st.SearchStrategy[str]:
    """Texts that a column of MySQL holds: BINARY(n) n bytes, a time the digits declared for it."""
    declared = re.fullmatch(
        r"(binary|time|datetime|timestamp)(?:\((\d+)\))?", column.source_type or ""
    )
    if declared is None:
        return texts(column.type, hard)
    size = int(declared[2] or 0)
    if declared[1] == "binary":
        return st.binary(min_size=size, max_size=size).map(lambda b: base64.b64encode(b).decode())
    fraction = re.compile(rf"\.([0-9]{{0,{size}}})[0-9]*")
    return texts(column.type, hard).map(
        lambda text: fraction.sub(lambda m: f".{m[1]}" if m[1] else "", text)
    )


def _decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    def text(digits: int, minus: bool) -> str:
        padded = str(digits).rjust(scale + 1, "0")
        whole, fraction = (padded[:-scale], padded[-scale:]) if scale else (padded, "")
        sign = "-" if minus and digits else ""
        return f"{sign}{whole}.{fraction}" if scale else f"{sign}{whole}"

    return st.builds(text, st.integers(0, 10**precision - 1), st.booleans())


def _moment(year: int, month: int, day: int) -> Any:
    from datetime import datetime

    return datetime(year, month, day)  # noqa: DTZ001 - a wall clock


_SOON_AFTER_1970, _LATE = _moment(1970, 1, 2), _moment(2037, 12, 31)

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
    types = SOURCE_TYPES[dialect]
    key_types = [t for t in types if parse_type(t, dialect).kind in KEY_KINDS]
    made = [
        column_of(name, draw(st.sampled_from(key_types if i < key_size else types)), dialect)
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


@st.composite
def rows(draw: st.DrawFn, schema: TableSchema, hard: bool = False) -> dict[str, str | None]:
    """Whole rows of a table by column name; key columns are never null."""
    row: dict[str, str | None] = {}
    for column in schema.columns:
        in_key = column.name in (schema.key or ())
        nulls = in_key or draw(st.integers(0, 5)) > 0
        row[column.name] = draw(_values(column, hard and not in_key)) if nulls else None
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
        self.clock += self.draw(st.sampled_from([1_000, 1_234, 1_000_000, 3_600_000_000]))
        self.number += self.draw(st.sampled_from([1, 1, 999]))
        row = after or before
        keyed = row and [row.get(name) for name in self.schema.key or ()]
        partition = sum(repr(keyed).encode()) % self.knobs.partitions if keyed else 0
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        message = Message("topic", partition, offset, self.clock // 1000, None, None)
        schema = more.pop("schema", self.schema)
        full_row = operation == "read" and self.draw(st.booleans())
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
        kept.update({name: row[name] for name in others if self.draw(st.booleans())})
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
