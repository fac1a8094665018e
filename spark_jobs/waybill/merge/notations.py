"""How the types that messages state write values: with how many digits behind the point.

Rows are found by texts: those of their keys, and in a table without key those of all values. A
DECIMAL(10,2) writes 5.10 and a DECIMAL(12,4) the same value as 5.1000; so do times with more digits
of the second. If a column of these changes so, nothing finds the rows that were written before: an
update would put its row beside the old one. So such a table waits, until a TRUNCATE, a DROP or a
full reload has taken the old rows away.

A type that says nothing about digits is held against none, and neither is a wider one that writes
the same texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.errors import Code, SchemaChangeError
from waybill.types import TIMES, LogicalType, parse_type, with_digits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from waybill.merge.state import TableState
    from waybill.records import Column, TableSchema


def check_notations(
    name: str,
    state: TableState,
    schemas: Iterable[TableSchema],
    declared: Collection[str],
    bag: bool,
) -> None:
    """See that the texts by which rows are found are still written as before, and remember how.

    Args:
        name: qualified name of the table.
        state: what is known of it; gets what the schemas state.
        schemas: how the changes of the batch describe it.
        declared: columns whose types the migration declares.
        bag: whether it has no key.

    Raises:
        SchemaChangeError: they are not, and the table has rows of before.
    """
    before, found = state.written, dict(state.written)
    for column, was, now in _changes(before, schemas, declared, bag):
        if was is not None and _digits(was) != _digits(now):
            both = (
                f"was {was} and is now {now}"
                if column in before
                else f"comes as {was} and as {now} in one batch"
            )
            code = Code.COLUMN_DECISION if bag else Code.KEY_CHANGED
            raise SchemaChangeError(_sentence(name, column, both, bag), code=code)
        found[column] = str(now)
    state.written = found


def differ(
    written: Mapping[str, str],
    schemas: Iterable[TableSchema],
    declared: Collection[str],
    bag: bool,
) -> bool:
    """Whether schemas write texts by which rows are found in several ways; see above."""
    changes = _changes(written, schemas, declared, bag)
    return any(was is not None and _digits(was) != _digits(now) for _, was, now in changes)


def _changes(
    written: Mapping[str, str],
    schemas: Iterable[TableSchema],
    declared: Collection[str],
    bag: bool,
) -> Iterable[tuple[str, LogicalType | None, LogicalType]]:
    """By column whose type says how it is written: the type of before, and that of a schema."""
    known = {column: parse_type(text) for column, text in written.items()}
    for schema in schemas:
        for column in schema.columns:
            if not bag and column.name not in (schema.key or ()):
                continue
            now = _stated(column, schema.dialect, column.name in declared)
            if now is not None:
                yield column.name, known.get(column.name), now
                known[column.name] = now


def _stated(column: Column, dialect: str, declared: bool) -> LogicalType | None:
    """The type that a message states, None where it states none or says nothing about digits."""
    type_ = column.type
    if declared:
        # What the migration declares does not change what the source writes.
        try:
            type_ = parse_type(column.source_type or "unknown", dialect)
        except ValueError:
            return None
    type_ = with_digits(type_, column.source_type)
    if type_.kind in TIMES and type_.precision is None and dialect == "mysql":
        # MySQL 8.4 Reference Manual, "Fractional Seconds in Time Values": 0 if it is left out.
        type_ = LogicalType(type_.kind, 0) if column.source_type else type_
    return type_ if _digits(type_) is not None else None


def _digits(type_: LogicalType) -> tuple[str, int] | None:
    """What a type says about how values are written: of times or of numbers, how many digits."""
    if type_.is_integer:
        return "number", 0
    if type_.kind == "decimal":
        return "number", type_.scale or 0
    if type_.kind in TIMES and type_.precision is not None:
        return type_.kind, type_.precision
    return None


def _sentence(name: str, column: str, both: str, bag: bool) -> str:
    which = "column" if bag else "key column"
    why = "a row of a table without key by its texts" if bag else "a row by the text of its key"
    return (
        f"{which} {column} of {name} {both}, which write the same value with other digits, and the "
        f"merge finds {why}: load {name} in full again with an `as_of` after the last change with "
        "the older type, from a dump that has the newer one; or empty it at the source (TRUNCATE) "
        "and fill it again; or begin under a new migration name, from a dump and what follows it"
    )
