"""How the rows of merged tables are described to encoders: as the changes that made them were.

A merged table knows names and types of the lake. What its messages said of a column, and what they
made their ids of, stands with the changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.bootstrap.joined_types import joined_type
from waybill.lake.names import literal
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.merge.increment import order_sql
from waybill.merge.renamings import above, present_schema
from waybill.records import ROW_OPERATIONS, Column, TableSchema, intern_schema

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.merge.state import MergeState, TableState

_CONNECTOR = re.compile(r'"connector":\s*"([^"\\]*)"')


class Described(NamedTuple):
    """A table as its changes describe it.

    Attributes:
        schemas: the schemas of its changes, those of the newest changes first.
        extra: of the newest change.
    """

    schemas: list[TableSchema]
    extra: str | None


def described(lake: Lake, upto: int, state: MergeState) -> dict[str, Described]:
    """What changes up to a snapshot of `changes` say of each table, by its qualified name.

    Columns have the names of now.

    Args:
        lake: the lake.
        upto: the snapshot.
        state: what the merge knows of the tables.
    """
    order = F.expr(order_sql(bool(state.by_source_time)))
    log = RebuiltTables(lake, upto).counting(lake.read(lake.log("changes"), upto))
    operations = ", ".join(literal(operation) for operation in sorted(ROW_OPERATIONS))
    rows = log.where(f"outcome = 'ok' AND schema_id IS NOT NULL AND operation IN ({operations})")
    used = rows.groupBy("schema_id").agg(
        F.max(order).alias("newest"), F.max_by("extra", order).alias("extra")
    )
    newest = {row.schema_id: (row.newest, row.extra) for row in used.collect()}
    found: dict[str, list[tuple[str, str, str | None, TableSchema]]] = {}
    scanned = lake.scan(lake.log("changes"), ("schema_id", "extra"), {"outcome": ["schema"]}, upto)
    texts = {row["schema_id"]: row["extra"] for row in scanned if row["schema_id"] in newest}
    for id_, text in texts.items():
        schema = TableSchema.from_json(text)
        at, extra = newest[id_]
        name = schema.qualified_name
        renamed = above(state.table(name).renamed, at)
        schema = present_schema(schema, renamed) or schema
        found.setdefault(name, []).append((at, id_, extra, schema))
    return {
        name: Described([one[3] for one in every], every[0][2])
        for name, every in ((n, sorted(f, key=_order, reverse=True)) for n, f in found.items())
    }


def _order(one: tuple[str, str, str | None, TableSchema]) -> tuple[str, str]:
    return one[:2]


def whole_schema(state: TableState, schemas: Iterable[TableSchema]) -> TableSchema | None:
    """The schema of a merged table's rows; None of a table that no change of a row described.

    It has every column that rows may have, without those that statements have dropped. Each is as
    the newest change described it that has the column, with a type that holds every text of it.

    Args:
        state: what the merge knows of the table.
        schemas: how its changes described it, the newest first.
    """
    newest: TableSchema | None = None
    by_name: dict[str, list[Column]] = {}
    for schema in schemas:
        newest = newest or schema
        for column in schema.columns:
            by_name.setdefault(column.name, []).append(column)
    if newest is None:
        return None
    columns = {name: _joined(every) for name, every in by_name.items()}
    known = dict.fromkeys(name for name in (*columns, *state.names) if name in state.names)
    kept = [columns.get(name) or Column(name) for name in known if name not in state.dropped]
    return intern_schema(
        newest.database, newest.schema, newest.table, tuple(kept), state.key, newest.dialect
    )


def _joined(columns: list[Column]) -> Column:
    newest, type_ = columns[0], joined_type(column.type for column in columns)
    return newest if type_ == newest.type else Column(newest.name, type_, None, newest.nullable)


def dates_in(schema: TableSchema, schemas: Iterable[TableSchema]) -> frozenset[str]:
    """The columns of timestamps whose older rows hold dates.

    Args:
        schema: of the table's rows.
        schemas: how its changes described it.
    """
    dates = {c.name for one in schemas for c in one.columns if c.type.kind == "date"}
    return frozenset(c.name for c in schema.columns if c.type.kind == "timestamp") & dates


def not_in_all(schemas: Iterable[TableSchema]) -> frozenset[str]:
    """The columns that not all changes of a table have."""
    names = [frozenset(schema.names) for schema in schemas]
    return frozenset[str]().union(*names) - frozenset.intersection(*names)


def extra_of_connector(extra: str | None) -> str | None:
    """What tells encoders which product made an id, of what came with a change; None if nothing."""
    found = None if extra is None else _CONNECTOR.search(extra)
    return None if found is None else f'{{"connector":"{found[1]}"}}'
