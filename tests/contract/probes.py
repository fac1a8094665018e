"""For every capability, changes that have it: small, fixed, and readable in a failing test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from msgspec import structs

from tests.histories import DDL, SOURCE_TYPES, column_of, image
from tests.value_texts import edges_of
from waybill.records import NO_TABLE, Change, Message, TableSchema, intern_schema

TIME = 1_700_000_000_123_000


def table(
    columns: dict[str, str],
    key: tuple[str, ...] | None = ("id",),
    dialect: str = "mysql",
    schema: str | None = None,
) -> TableSchema:
    """A table whose name tells what it is made of, because one name has one declaration."""
    made = tuple(column_of(name, kind, dialect) for name, kind in columns.items())
    name = f"t{crc32(repr((columns, key, dialect)).encode()):08x}"
    return intern_schema("shop", schema, name, made, key, dialect)


ROW_VERBS = ("REPLACE VIEW v AS SELECT 1", "CALL p()", "WITH x AS (SELECT 1) SELECT * FROM x")
"""Statements that begin as those of row changes do."""

COLUMNS = {"id": "bigint", "region": "varchar(8)", "amount": "decimal(38,10)"}
PLAIN = table(COLUMNS, ("region", "id"))
IN_PUBLIC = table(dict.fromkeys(COLUMNS, "string"), ("id",), "", "public")
ROW = {"id": "9007199254740993", "region": "eu", "amount": "1.1000000000"}
OTHER = {"id": "9007199254740993", "region": "eu", "amount": "-2.5000000000"}
WITH_LOB = table({"id": "bigint", "doc": "json"})
NOTHING = {"id": "1", "doc": None}
MOVED = {"id": "12", "region": "us", "amount": "-2.5000000000"}


def change(
    operation: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    schema: TableSchema = PLAIN,
    **more: Any,
) -> Change:
    """A change at a fixed place, with a sequence of one number."""
    made = Change(
        operation,
        schema,
        Message("topic", 1, 17, TIME // 1000, None, None),
        before=None if before is None else image(schema, **before),
        after=None if after is None else image(schema, **after),
        sequence=(1_605_339_516_000_000_004,),
        source_time=TIME,
    )
    return structs.replace(made, **more)


def _full_rows() -> list[Change]:
    return [
        change("read", after=ROW, full_row=True, sequence=None, source_time=None),
        change("read", after=ROW, full_row=True, sequence=None),
        change("read", after=ROW),
        change("read", after=ROW, sequence=None),
        change("read", after=ROW, full_row=True),
    ]


def _transactions() -> list[Change]:
    return [
        change("begin", schema=NO_TABLE, transaction="tx-1"),
        change("insert", after=ROW, transaction="tx-1"),
        change("commit", schema=NO_TABLE, transaction="tx-1"),
        change("rollback", schema=NO_TABLE, transaction="tx-1"),
        *(change("insert", after=ROW, transaction=name) for name in ("0", "-0", "9" * 5000)),
    ]


def _types() -> list[Change]:
    """One table per type, so that a failure names it."""
    made = []
    for dialect, kinds in SOURCE_TYPES.items():
        for kind in kinds:
            schema = table({"id": "bigint" if dialect else "int64", "v": kind}, dialect=dialect)
            text = edges_of(schema.columns[1].type)[-1]
            made.append(change("insert", after={"id": "1", "v": text}, schema=schema))
    return made


def _exact_numbers() -> list[Change]:
    made = []
    for kind in ("number", "decimal(60,30)", "decimal(38,10)", "uint64", "int64"):
        schema = table({"id": "int64", "v": kind}, dialect="")
        for text in edges_of(schema.columns[1].type):
            made.append(change("insert", after={"id": "1", "v": text}, schema=schema))
    return made


def _key_columns() -> list[Change]:
    three = {"a": "int", "b": "varchar(10)", "c": "int"}
    row = {"a": "1", "b": "x", "c": "3"}
    keys: list[tuple[str, ...]] = [("a",), ("c", "a"), ("b", "c", "a"), ()]
    return [change("insert", after=row, schema=table(three, key)) for key in keys]


PROBES: dict[str, Callable[[], list[Change]]] = {
    "before_image": lambda: [
        change("update", ROW, OTHER),
        change("delete", ROW),
        change("update", {"id": "9007199254740993", "region": "eu"}, OTHER),
        change("update", NOTHING, NOTHING, schema=WITH_LOB),
    ],
    "unchanged_columns": lambda: [
        change("update", None, {"id": "5", "region": "eu"}),
        change("update", ROW, {"id": "9007199254740993", "region": "eu"}),
        change("update", ROW, {"id": "9007199254740993", "region": "us"}),
    ],
    "full_rows": _full_rows,
    "operations": lambda: [change("insert", after=ROW), change("update", None, OTHER)],
    "delete": lambda: [change("delete", ROW)],
    "truncate": lambda: [change("truncate")],
    "ddl": lambda: [
        change("ddl", ddl_text=text.format(name="shop.orders")) for text in (*DDL, *ROW_VERBS)
    ],
    "transactions": _transactions,
    "heartbeat": lambda: [
        change("heartbeat", schema=NO_TABLE, sequence=None),
        change("heartbeat", schema=NO_TABLE, source_time=TIME + 456),
    ],
    "key_change": lambda: [
        change("update", ROW, MOVED),
        change("update", {"id": "9007199254740993", "region": "eu"}, MOVED),
    ],
    "key_columns": _key_columns,
    "types": _types,
    "exact_numbers": _exact_numbers,
    "sequence_id": lambda: [
        change("insert", after=ROW, sequence=(0,)),
        change("insert", after=ROW, sequence=(10**25,)),
        change("insert", after=ROW, sequence=(7, 4711, 0)),
        change("read", after=ROW, full_row=True),
    ],
    "source_time": lambda: [
        change("insert", after=ROW, source_time=time)
        for time in (0, 1_700_000_000_000_000, 1_700_000_000_123_000, 1_700_000_000_123_456, -1)
    ],
    "schema_name": lambda: [change("insert", after=ROW, schema=IN_PUBLIC)],
    "database_kind": lambda: [
        change(operation, before, after, extra=b'{"%b":{"dbType":"%b"}}' % origin)
        for origin in ((b"oms", b"OB_ORACLE"), (b"dataworks", b"ORACLE"), (b"streamx", b"Oracle"))
        for operation, before, after in (
            ("insert", None, ROW),
            ("update", ROW, OTHER),
            ("delete", ROW, None),
        )
    ],
    "other": lambda: [change("other", schema=NO_TABLE, ddl_text=None)],
}
"""Changes by the capability that they need."""
