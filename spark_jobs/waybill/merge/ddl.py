"""What the text of a DDL statement says about existing rows.

These things concern the merge: that a table is gone with all its rows, a new column whose value in
existing rows no message will ever show (its default), a column that is gone or got another name,
and a table that got another name. Everything else shows in the images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.mapping.sql import (
    DIALECTS,
    EXACT,
    NUMBERED,
    UnreadableStatement,
    exact_name,
    partly_read,
    readings,
    without_front,
)
from waybill.mapping.table_renames import table_renames, texts_of
from waybill.types import LogicalType, parse_type

if TYPE_CHECKING:
    from sqlglot import exp

_EMPTIES = re.compile(r"(drop|truncate|create\s+or\s+replace)\b", re.IGNORECASE)
_ALTER = re.compile(r"alter\b", re.IGNORECASE)


class Alteration(NamedTuple):
    """What a statement does to the columns of a table.

    Attributes:
        table: name parts of the table as the statement spells them, e.g. `("shop", "orders")`.
        added: new columns.
        defaults: those whose existing rows hold a value, with its exact text.
        unclear: those whose value in existing rows the text does not say.
        dropped: columns that are gone.
        renamed: old and new names.
        dialect_known: whether the source's SQL is known, so that new columns are spelled as rows
            show them.
        exact: whether all columns are, because names differ by case there.
    """

    table: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    defaults: Mapping[str, str] = MappingProxyType({})
    unclear: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    dialect_known: bool = False
    exact: bool = False


def read_alteration(text: str, dialect: str = "") -> Alteration | None:
    """What a statement says, None if it is not an ALTER TABLE.

    Args:
        text: one statement.
        dialect: the source's SQL (`mysql`, `postgresql`); both are tried where it is not known.

    Raises:
        UnreadableStatement: it alters something and cannot be read.
    """
    text = without_front(text)
    if not _ALTER.match(text):
        return None
    from sqlglot import exp

    for reading in (*readings(text, dialect), *partly_read(text, dialect)):
        if isinstance(reading.tree, exp.Alter):
            return _alteration(reading.tree, reading.dialect, dialect)
    raise UnreadableStatement(text)


def emptied_tables(text: str, dialect: str = "") -> tuple[tuple[str, ...], ...]:
    """Name parts of the tables whose rows a statement takes away: DROP, TRUNCATE, replacement.

    Raises:
        UnreadableStatement: it looks like one of these and cannot be read.
    """
    text = without_front(text)
    if not _EMPTIES.match(text):
        return ()
    from sqlglot import exp

    for found, _ in readings(text, dialect):
        if isinstance(found, exp.Drop | exp.Create):
            of_table = found.args.get("kind") == "TABLE" and not found.args.get("temporary")
            tables = list(found.find_all(exp.Table)) if of_table else []
            if isinstance(found, exp.Create):
                tables = tables[:1] if found.args.get("replace") else []
            return tuple(tuple(part.name for part in table.parts) for table in tables)
        # One that names partitions leaves the rows of the others.
        if isinstance(found, exp.TruncateTable) and found.find(exp.Partition) is None:
            tables = list(found.find_all(exp.Table))
            return tuple(tuple(part.name for part in table.parts) for table in tables)
    raise UnreadableStatement(text)


def renamed_tables(
    text: str, dialect: str = ""
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Name parts of the tables that a statement gives another name: the old and the new ones.

    Raises:
        UnreadableStatement: it looks like one of these and cannot be read.
    """
    return tuple((texts_of(old), texts_of(new)) for old, new in table_renames(text, dialect))


def _parts(table: exp.Expr) -> tuple[str, ...]:
    from sqlglot import exp

    return tuple(part.name for part in table.parts) if isinstance(table, exp.Table) else ()


def _alteration(statement: exp.Alter, dialect: str, source: str) -> Alteration:
    """What an ALTER says.

    Args:
        statement: the ALTER.
        dialect: sqlglot's name of its SQL.
        source: the source's dialect.
    """
    from sqlglot import exp

    defaults: dict[str, str] = {}
    added: list[str] = []
    unclear: list[str] = []
    dropped: list[str] = []
    renamed: list[tuple[str, str]] = []
    reads_types = source in DIALECTS

    def named(column: exp.Expr) -> str:
        return exact_name(column, source)

    for action in _actions(statement):
        if isinstance(action, exp.ColumnDef):
            name = named(action.this)
            added.append(name)
            value = _existing_value(action, dialect, reads_types)
            if value is _UNCLEAR:
                unclear.append(name)
            elif value is not None:
                defaults[name] = value
        elif isinstance(action, exp.RenameColumn):
            renamed.append((named(action.this), named(action.args["to"])))
        elif isinstance(action, exp.Drop) and action.args.get("kind") == "COLUMN":
            dropped += map(named, action.find_all(exp.Column))
    renamed += _changed_names(statement)
    table = statement.find(exp.Table)
    parts = () if table is None else _parts(table)
    return Alteration(
        parts,
        tuple(added),
        defaults,
        tuple(unclear),
        tuple(dropped),
        tuple(renamed),
        reads_types,
        source in EXACT,
    )


def _actions(statement: exp.Alter) -> Iterator[Any]:
    for action in statement.args.get("actions") or ():
        # ADD (a INT, b INT) comes as one schema of columns.
        yield from action.expressions if type(action).__name__ == "Schema" else (action,)


def _changed_names(statement: exp.Alter) -> Iterator[tuple[str, str]]:
    """MySQL's `CHANGE old new type`."""
    for action in statement.args.get("actions") or ():
        if type(action).__name__ in ("AlterColumn", "ModifyColumn", "ChangeColumn"):
            new = action.args.get("rename_from")
            if new is not None and new.name != action.this.name:
                yield new.name, action.this.name


_UNCLEAR: Any = object()

_DIGITS = Context(prec=2000)
"""More than any database has in a number of a table."""


def _existing_value(column: exp.ColumnDef, dialect: str, reads_types: bool) -> Any:
    """Text of the value in existing rows; None for null, `_UNCLEAR` if it cannot be determined."""
    from sqlglot import exp

    if _is_made(column):
        return _UNCLEAR
    logical = _logical(column, dialect, reads_types)
    default = column.find(exp.DefaultColumnConstraint)
    if default is None:
        return _implicit(logical) if dialect == "mysql" and _not_null(column) else None
    value = default.this
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    sign = ""
    if isinstance(value, exp.Neg):
        sign, value = "-", value.this
    if isinstance(value, exp.Null):
        return None
    if logical is None:
        return _UNCLEAR
    if isinstance(value, exp.Boolean):
        word = bool(value.this)
        return ("true" if word else "false") if logical.kind == "boolean" else str(int(word))
    if not isinstance(value, exp.Literal):
        return _UNCLEAR
    return _as_text(sign + str(value.this), logical)


def _is_made(column: exp.ColumnDef) -> bool:
    """Whether the database gives every row a value of its own: a number, or what it computes."""
    from sqlglot import exp

    kind = column.args.get("kind")
    constraints = (
        exp.AutoIncrementColumnConstraint,
        exp.ComputedColumnConstraint,
        exp.GeneratedAsIdentityColumnConstraint,
    )
    numbered = kind is not None and getattr(kind.this, "name", "") in NUMBERED
    return numbered or column.find(*constraints) is not None


def _logical(column: exp.ColumnDef, dialect: str, reads_types: bool) -> LogicalType | None:
    """The type of a new column, None where it cannot be determined."""
    from sqlglot import exp

    kind = column.args.get("kind")
    if kind is None:
        return None
    if dialect == "mysql" and kind.this == exp.DataType.Type.BOOLEAN:
        # MySQL makes a TINYINT(1) of it, and that is what rows show; others have a type of its own.
        return LogicalType("int8") if reads_types else None
    try:
        return parse_type(
            kind.sql(dialect=dialect), "mysql" if dialect == "mysql" else "postgresql"
        )
    except ValueError:
        return None


def _not_null(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    found = column.find(exp.NotNullColumnConstraint)
    return found is not None and not found.args.get("allow_null")


def _implicit(logical: LogicalType | None) -> Any:
    """What MySQL puts into existing rows of a NOT NULL column without a default."""
    if logical is not None and (logical.is_integer or logical.kind == "decimal"):
        return _as_text("0", logical)
    return "" if logical is not None and logical.kind == "string" else _UNCLEAR


def _as_text(text: str, logical: LogicalType) -> Any:
    """A literal as the exact text that a value of the column has."""
    kind = logical.kind
    if kind in ("string", "json", "xml", "set", "enum"):
        return text
    if logical.is_integer or kind in ("decimal", "number"):
        try:
            number = Decimal(text)
        except ArithmeticError:
            return _UNCLEAR
        scale = logical.scale if kind == "decimal" else 0 if logical.is_integer else None
        if not number.is_finite() or abs(number.adjusted()) > _DIGITS.prec:
            return _UNCLEAR
        if scale is None:
            return format(number, "f")
        try:
            exact = number.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
        except ArithmeticError:
            return _UNCLEAR
        return format(exact, "f") if exact == number else _UNCLEAR
    if kind == "boolean":
        return {"0": "false", "1": "true"}.get(text, _UNCLEAR)
    if kind in ("date", "timestamp") and re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", text):
        return text.replace(" ", "T")
    return _UNCLEAR
