"""How the rows of merged tables are described to encoders: as the changes that made them were.

A merged table knows names and types of the lake. What its messages said of a column, and what they
made their ids of, stands with the changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.names import literal
from waybill.records import ROW_OPERATIONS, Column, TableSchema, intern_schema

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.merge.state import TableState

_CONNECTOR = re.compile(r'"connector":\s*"([^"\\]*)"')


class Described(NamedTuple):
    """A table as its changes describe it.

    Attributes:
        schemas: the schemas of its changes, those of the newest changes first.
        extra: of the newest change.
    """

    schemas: list[TableSchema]
    extra: str | None


def described(lake: Lake, upto: int) -> dict[str, Described]:
    """What changes up to a snapshot of `changes` say of each table, by its qualified name."""
    log = lake.read(lake.log("changes"), upto)
    operations = ", ".join(literal(operation) for operation in sorted(ROW_OPERATIONS))
    rows = log.where(f"outcome = 'ok' AND schema_id IS NOT NULL AND operation IN ({operations})")
    used = rows.groupBy("schema_id").agg(
        F.max("order_key").alias("newest"), F.max_by("extra", "order_key").alias("extra")
    )
    newest = {row.schema_id: (row.newest, row.extra) for row in used.collect()}
    found: dict[str, list[tuple[str, str, str | None, TableSchema]]] = {}
    told = lake.scan(lake.log("changes"), ("schema_id", "extra"), {"outcome": ["schema"]}, upto)
    texts = {row["schema_id"]: row["extra"] for row in told if row["schema_id"] in newest}
    for id_, text in texts.items():
        schema = TableSchema.from_json(text)
        order, extra = newest[id_]
        found.setdefault(schema.qualified_name, []).append((order, id_, extra, schema))
    return {
        name: Described([one[3] for one in every], every[0][2])
        for name, every in ((n, sorted(f, key=_order, reverse=True)) for n, f in found.items())
    }


def _order(one: tuple[str, str, str | None, TableSchema]) -> tuple[str, str]:
    return one[:2]


def whole_schema(state: TableState, schemas: Iterable[TableSchema]) -> TableSchema | None:
    """The schema of a merged table's rows; None of a table that no change of a row described.

    It has every column that rows may have, each as the newest change described it that has the
    column, without those that statements have dropped.

    Args:
        state: what the merge knows of the table.
        schemas: how its changes described it, the newest first.
    """
    newest: TableSchema | None = None
    columns: dict[str, Column] = {}
    for schema in schemas:
        newest = newest or schema
        for column in schema.columns:
            columns.setdefault(column.name, column)
    if newest is None:
        return None
    known = dict.fromkeys(name for name in (*columns, *state.names) if name in state.names)
    kept = [columns.get(name) or Column(name) for name in known if name not in state.dropped]
    return intern_schema(
        newest.database, newest.schema, newest.table, tuple(kept), state.key, newest.dialect
    )


def extra_of_connector(extra: str | None) -> str | None:
    """What tells encoders which product made an id, of what came with a change; None if nothing."""
    found = None if extra is None else _CONNECTOR.search(extra)
    return None if found is None else f'{{"connector":"{found[1]}"}}'
