"""Conditions on rows, in SQL: read once for each table, evaluated exactly on text images.

Three-valued as in SQL, with a fourth value where a message leaves out what the condition asks for.
Numbers are compared as decimals, texts by code points, times by their order; nothing is rounded
and no text is taken for a number.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from waybill.errors import Code, ConfigurationError, Refusal
from waybill.mapping.time_literals import clock, stated_time
from waybill.mapping.time_order import NO_TIME, moment
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

    from waybill.records import TableSchema
    from waybill.types import LogicalType

Truth = bool | None | UnsetType
"""True, false, unknown because of a null (None), or not stated by the message (UNSET)."""

FUNCTIONS = ("COALESCE", "LENGTH", "LOWER", "UPPER")
"""What a condition may call."""

NUMBER, TEXT, BOOLEAN, NOTHING, OTHER = "number", "text", "boolean", "null", "other"
_MOMENTS: Final = ("date", "timestamp", "timestamptz")
_TIMES: Final = (*_MOMENTS, "time")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}


class _Value(NamedTuple):
    """A value of a condition.

    Attributes:
        kind: `number`, `text`, `boolean`, one of the times, `null`, or `other`, of which only
            null is asked.
        of: its value for an image: None for null, UNSET where the message leaves it out.
        literal: its text where it is a literal.
    """

    kind: str
    of: Callable[[Any], Any]
    literal: str | None = None


def condition(
    text: str, schema: TableSchema, absent: Collection[str] = ()
) -> Callable[[Any], Truth]:
    """What a condition says of an image of a table.

    Args:
        text: the condition.
        schema: the table.
        absent: columns of the condition that the table does not have, which are null.

    Raises:
        ConfigurationError: it cannot be read, or does not fit the table's columns.
    """
    return _Reader(text, schema, absent).truth(_read(text, schema))


def asked_columns(text: str, schema: TableSchema) -> dict[str, int]:
    """The columns of a condition that a table has, by its names, with their places.

    Raises:
        ConfigurationError: the condition cannot be read.
    """
    from sqlglot import exp

    named = {node.name.casefold() for node in _read(text, schema).find_all(exp.Column)}
    return {name: at for at, name in enumerate(schema.names) if name.casefold() in named}


def compared_columns(text: str, schema: TableSchema) -> frozenset[str]:
    """The columns of a condition of which it asks more than whether they are null.

    Raises:
        ConfigurationError: the condition cannot be read.
    """
    from sqlglot import exp

    compared = set()
    for node in _read(text, schema).find_all(exp.Column):
        parent = node.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        if not (isinstance(parent, exp.Is) and isinstance(parent.expression, exp.Null)):
            compared.add(node.name.casefold())
    return frozenset(name for name in schema.names if name.casefold() in compared)


def missing_columns(text: str, schema: TableSchema) -> tuple[str, ...]:
    """The columns of a condition that a table does not have.

    Raises:
        ConfigurationError: the condition cannot be read.
    """
    from sqlglot import exp

    named = dict.fromkeys(node.name for node in _read(text, schema).find_all(exp.Column))
    known = {name.casefold() for name in schema.names}
    return tuple(name for name in named if name.casefold() not in known)


def _read(text: str, schema: TableSchema) -> exp.Expr:
    """A condition, which has nothing but what is understood."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statement = sqlglot.parse_one(f"SELECT 1 WHERE {text}", dialect="postgres")
    except SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise _wrong(text, schema, f"it cannot be read ({reason})") from None
    where = statement.args.get("where") if isinstance(statement, exp.Select) else None
    others = [name for name, arg in statement.args.items() if arg and name not in _ONLY]
    if where is None or others:
        raise _wrong(text, schema, "it is more than a condition")
    for node in where.this.walk():
        known = _PARTS.get(type(node).__name__)
        given = {name for name, arg in node.args.items() if arg}
        if known is None or not given <= {*known, *_ALWAYS}:
            raise _wrong(
                text,
                schema,
                f"{node.sql(dialect='postgres')} is not a part of a condition here; it may have "
                "columns, values, comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT and "
                f"{', '.join(FUNCTIONS)}",
            )
    condition_: exp.Expr = where.this
    return condition_


_ALWAYS = ("this", "expression")
_PARTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("And", "Or", "Not", "Paren", "Neg", "Null", "Boolean", "Escape", "Column"), ()
    ),
    **dict.fromkeys(_COMPARED, ()),
    "Is": ("negate",),
    "Like": ("negate",),
    "In": ("expressions", "negate"),
    "Between": ("low", "high", "negate"),
    "Literal": ("is_string",),
    "Identifier": ("quoted",),
    "Coalesce": ("expressions",),
    "Lower": (),
    "Upper": (),
    "Length": (),
}
"""What a condition may have, and what of each is understood: nothing is passed over."""

_ONLY = ("expressions", "where", "kind")


def _wrong(text: str, schema: TableSchema, why: str) -> ConfigurationError:
    sentence = f"where: {text!r} does not fit {schema.qualified_name}: {why}"
    return ConfigurationError(sentence, code=Code.MAPPING)


class _Reader:
    """Makes functions of the parts of one condition."""

    def __init__(self, text: str, schema: TableSchema, absent: Collection[str]) -> None:
        self._text, self._schema = text, schema
        self._absent = {name.casefold() for name in absent}

    def _wrong(self, why: str) -> ConfigurationError:
        return _wrong(self._text, self._schema, why)

    def truth(self, node: exp.Expr) -> Callable[[Any], Truth]:
        """A function from an image to what the node says of it."""
        inner = self._truth(node)
        return (lambda image: _not(inner(image))) if node.args.get("negate") else inner

    def _truth(self, node: exp.Expr) -> Callable[[Any], Truth]:
        """The same, without the NOT of NOT LIKE, IS NOT and the like."""
        from sqlglot import exp

        if isinstance(node, exp.Paren):
            return self.truth(node.this)
        if isinstance(node, exp.Not):
            inner = self.truth(node.this)
            return lambda image: _not(inner(image))
        if isinstance(node, exp.And | exp.Or):
            parts = [self.truth(node.this), self.truth(node.expression)]
            wanted = isinstance(node, exp.Or)
            return lambda image: _joined(wanted, [part(image) for part in parts])
        if type(node).__name__ in _COMPARED:
            return self._compared(type(node).__name__, node.this, node.expression)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Between):
            low = self._compared("GTE", node.this, node.args["low"])
            high = self._compared("LTE", node.this, node.args["high"])
            return lambda image: _joined(False, [low(image), high(image)])
        if isinstance(node, exp.Like) or (
            isinstance(node, exp.Escape) and isinstance(node.this, exp.Like)
        ):
            return self._like(node)
        value = self.value(node)
        if value.kind not in (BOOLEAN, NOTHING):
            raise self._wrong(f"{node.sql()} is neither true nor false")
        of: Callable[[Any], Truth] = value.of
        return of

    def value(self, node: exp.Expr) -> _Value:
        """A value that is compared."""
        from sqlglot import exp

        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if isinstance(node, exp.Null | exp.Boolean | exp.Literal):
            return _stated(node)
        if isinstance(node, exp.Neg):
            inner = self.value(node.this)
            if inner.kind == NUMBER or self._may_be(inner):
                return _Value(inner.kind, lambda image: _made(inner.of(image), Decimal.copy_negate))
        if isinstance(node, exp.Column) and not node.table:
            return self._column(node.name)
        if isinstance(node, exp.Lower | exp.Upper | exp.Length):
            return self._function(node)
        if isinstance(node, exp.Coalesce):
            return self._coalesce(node)
        raise self._wrong(f"{node.sql(dialect='postgres')} is not a value that can be compared")

    def _column(self, name: str) -> _Value:
        schema = self._schema
        if name.casefold() in self._absent:
            return _Value(NOTHING, lambda _: None)
        found = [name] if name in schema.index else []
        found = found or [n for n in schema.names if n.casefold() == name.casefold()]
        if len(found) != 1:
            raise self._wrong(f"there is no column {name}{did_you_mean(name, schema.names)}")
        place = schema.index[found[0]]
        kind = _kind_of(schema.columns[place].type)
        if kind is None:
            raise self._wrong(f"the type of {name} is not known: declare it under tables")
        field, read = f"f{place}", _READ.get(kind, _as_it_is)

        def of(image: Any) -> Any:
            value = getattr(image, field)
            return read(value) if isinstance(value, str) else value

        return _Value(kind, of)

    def _may_be(self, value: _Value) -> bool:
        """Whether a value is that of a column that is not there, of whatever type it will be."""
        return bool(self._absent) and value.kind == NOTHING

    def _function(self, node: Any) -> _Value:
        inner = self.value(node.this)
        if self._may_be(inner):
            return inner
        if inner.kind != TEXT:
            raise self._wrong(f"{node.sql()} is of no text")
        make: Callable[[str], Any] = {
            "Lower": str.lower,
            "Upper": str.upper,
            "Length": lambda text: Decimal(len(text)),
        }[type(node).__name__]
        kind = NUMBER if type(node).__name__ == "Length" else TEXT
        return _Value(kind, lambda image: _made(inner.of(image), make))

    def _coalesce(self, node: Any) -> _Value:
        values = [self.value(one) for one in (node.this, *node.expressions)]
        kinds = {value.kind for value in values} - {NOTHING}
        if len(kinds) > 1:
            # A text among times is one of them.
            times = kinds.intersection(_TIMES)
            if len(times) != 1 or kinds - times != {TEXT}:
                raise self._wrong(f"{node.sql()} has values of different kinds")
            (kind,) = times
            values = [self._as(value, kind) for value in values]
            kinds = {kind}

        def of(image: Any) -> Any:
            for value in values:
                found = value.of(image)
                if found is not None:
                    return found
            return None

        return _Value(kinds.pop() if kinds else NOTHING, of)

    def _as(self, value: _Value, kind: str) -> _Value:
        """A value as one of another's kind, so that both can be compared."""
        if value.kind in (kind, NOTHING):
            return value
        if value.kind == TEXT and value.literal is not None and kind in _TIMES:
            stated = self._time(value.literal, kind)
            return _Value(kind, lambda _: stated)
        raise self._wrong(f"a {value.kind} is compared with a {kind}")

    def _time(self, text: str, kind: str) -> Any:
        """A literal as a time that is compared."""
        try:
            return _READ[kind](stated_time(text, kind))
        except ValueError as error:
            raise self._wrong(str(error)) from None

    def _compared(self, name: str, one: exp.Expr, other: exp.Expr) -> Callable[[Any], Truth]:
        left, right = self.value(one), self.value(other)
        if OTHER in (left.kind, right.kind):
            raise self._wrong(f"only IS NULL may be asked of {one.sql()} and {other.sql()}")
        if left.kind != right.kind:
            if left.kind in _TIMES or right.kind == NOTHING:
                right = self._as(right, left.kind)
            else:
                left = self._as(left, right.kind)
        if left.kind == "time" and name not in ("EQ", "NEQ"):
            raise self._wrong(f"times of day are only compared by = and <>: {one.sql()}")
        compare = _COMPARED[name]
        if left.kind in _MOMENTS and name not in ("EQ", "NEQ"):
            compare = self._in_order(compare)

        def truth(image: Any) -> Truth:
            mine, theirs = left.of(image), right.of(image)
            if mine is None or theirs is None:
                # Whatever the other is.
                return None
            unstated = mine is UNSET or theirs is UNSET
            return UNSET if unstated else bool(compare(mine, theirs))

        return truth

    def _in_order(self, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        """A comparison of times, which refuses a text that is none."""

        def checked(mine: Any, theirs: Any) -> bool:
            if NO_TIME in (mine[0], theirs[0]):
                # The text is not shown: a mapping may hide the column.
                message = (
                    f"the condition {self._text!r} asks whether a time is before another, and the "
                    "row holds a text there that is no time: send a valid one, or ask only for =, "
                    "<> and IS NULL of that column"
                )
                raise Refusal("where", message)
            return compare(mine, theirs)

        return checked

    def _is(self, node: Any) -> Callable[[Any], Truth]:
        from sqlglot import exp

        value = self.value(node.this)
        wanted: bool | None = None
        if isinstance(node.expression, exp.Boolean):
            wanted = bool(node.expression.this)
            if value.kind != BOOLEAN and not self._may_be(value):
                raise self._wrong(f"{node.this.sql()} is neither true nor false")
        elif not isinstance(node.expression, exp.Null):
            raise self._wrong(f"{node.sql()}: write IS NULL, IS TRUE or IS FALSE")

        def truth(image: Any) -> Truth:
            found = value.of(image)
            return UNSET if found is UNSET else found is wanted

        return truth

    def _in(self, node: Any) -> Callable[[Any], Truth]:
        if node.args.get("query") or not node.expressions:
            raise self._wrong(f"{node.sql()}: IN takes a list of values")
        parts = [self._compared("EQ", node.this, one) for one in node.expressions]
        return lambda image: _joined(True, [part(image) for part in parts])

    def _like(self, node: Any) -> Callable[[Any], Truth]:
        from sqlglot import exp

        escape = "\\"
        if isinstance(node, exp.Escape):
            escape = str(node.expression.this)
            node = node.this
        value, pattern = self.value(node.this), self.value(node.expression)
        of_text = value.kind == TEXT or self._may_be(value)
        if not of_text or pattern.literal is None or len(escape) > 1:
            raise self._wrong(f"{node.sql()}: LIKE takes a text and a pattern")
        match = re.compile(_regular(pattern.literal, escape), re.DOTALL).fullmatch

        def truth(image: Any) -> Truth:
            found: Truth = _made(value.of(image), lambda text: match(text) is not None)
            return found

        return truth


def _stated(node: Any) -> _Value:
    """A value that the condition states itself."""
    from sqlglot import exp

    if isinstance(node, exp.Null):
        return _Value(NOTHING, lambda _: None)
    if isinstance(node, exp.Boolean):
        word = bool(node.this)
        return _Value(BOOLEAN, lambda _: word)
    text = str(node.this)
    if node.is_string:
        return _Value(TEXT, lambda _: text, text)
    number = Decimal(text)
    return _Value(NUMBER, lambda _: number, text)


def _not(truth: Truth) -> Truth:
    return (not truth) if isinstance(truth, bool) else truth


def _joined(wanted: bool, parts: list[Truth]) -> Truth:
    """OR of some truths, or AND where `wanted` is false."""
    if wanted in [part for part in parts if isinstance(part, bool)]:
        return wanted
    if any(part is UNSET for part in parts):
        return UNSET
    return None if None in parts else not wanted


def _made(value: Any, make: Callable[[Any], Any]) -> Any:
    """What is made of a value that is there."""
    return value if value is None or value is UNSET else make(value)


def _kind_of(type_: LogicalType) -> str | None:
    """How values of a type are compared; None where the type is not known."""
    if type_.is_number and type_.kind != "number":
        return NUMBER
    if type_.kind in ("string", "enum", "set"):
        return TEXT
    if type_.kind == "unknown":
        return None
    return {"number": NUMBER, "boolean": BOOLEAN}.get(
        type_.kind, type_.kind if type_.kind in _TIMES else OTHER
    )


def _number(text: str) -> Decimal | None:
    number = Decimal(text)
    # What is not a number is neither above nor below any.
    return None if number.is_nan() else number


def _as_it_is(text: str) -> str:
    return text


_READ: dict[str, Callable[[str], Any]] = {
    NUMBER: _number,
    BOOLEAN: lambda text: text == "true",
    "time": clock,
    **dict.fromkeys(_MOMENTS, moment),
}


def _regular(pattern: str, escape: str) -> str:
    """A pattern of LIKE as a regular expression."""
    made, escaped = [], False
    for char in pattern:
        if escaped or char not in ("%", "_", escape):
            made.append(re.escape(char))
            escaped = False
        elif char == escape:
            escaped = True
        else:
            made.append(".*" if char == "%" else ".")
    return "".join(made)
