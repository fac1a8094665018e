"""Whether the lake knows that a table is gone from the source, and was not only hidden there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from waybill.mapping.sql import UnreadableStatement, without_front
from waybill.merge.alterations import named
from waybill.merge.ddl import emptied_tables
from waybill.merge.position import order_of
from waybill.merge.statements import Statement
from waybill.overview.row_changes import qualified_name

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.merge.state import TableState

_DROP = re.compile(r"drop\b", re.IGNORECASE)
_CREATE = re.compile(r"create\b", re.IGNORECASE)

_READ = (
    *("database", "schema", "table", "ddl_text", "order_key", "source_time"),
    *("topic", "partition", "offset"),
)


def is_dropped(lake: History, name: str, known: TableState, dialect: str, by_time: bool) -> bool:
    """Whether a DROP of a table came, and neither a CREATE nor a row of it since.

    Args:
        lake: the lake.
        name: the table's, in the lake.
        known: what the merge knows of it.
        dialect: the source's SQL.
        by_time: whether source times decide (`order.ambiguous: source_time`).
    """
    if known.highest > known.truncated:
        return False
    asked = {"operation": ["ddl"], "outcome": ["ok"]}
    statements = (
        _statement(row, dialect, by_time)
        for row in lake.scan(lake.log("changes"), _READ, asked)
        if row["ddl_text"] is not None
    )
    about = [(one.order, drops) for one in statements if (drops := _drops(one, name)) is not None]
    return max(about, default=("", False))[1]


def _statement(row: dict[str, Any], dialect: str, by_time: bool) -> Statement:
    return Statement(
        qualified_name(row),
        bool(row["table"]),
        order_of(row["order_key"], row["source_time"], by_time),
        row["ddl_text"],
        dialect,
        *(row["topic"], row["partition"], row["offset"]),
        unordered=False,
    )


def _drops(statement: Statement, name: str) -> bool | None:
    """Whether a statement drops a table, or makes it; None where it does neither."""
    text = without_front(statement.text or "")
    if _CREATE.match(text):
        return False if statement.has_table and statement.qualified == name else None
    if not _DROP.match(text):
        return None
    try:
        emptied = emptied_tables(text, statement.dialect)
    except UnreadableStatement:
        # The merge has said so; it proves nothing here.
        return None
    gone = {named(statement, parts, len(emptied)) for parts in emptied}
    return True if name in gone else None
