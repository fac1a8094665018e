"""A table as a mapping makes it: compiled once for each schema, applied to each of its changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from waybill.errors import Code, ConfigurationError
from waybill.mapping.conditions import asked_columns, condition, missing_columns
from waybill.mapping.masks import DISTINCT, mask_function
from waybill.mapping.rules import (
    Added,
    MappingRule,
    Mask,
    fits,
    fits_column,
    ignores_case,
    in_any_case,
    same_column,
)
from waybill.records import Column, intern_schema
from waybill.types import STRING, LogicalType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from waybill.mapping.conditions import Truth
    from waybill.records import TableSchema, Text

_encode = msgspec.json.Encoder().encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_EVENT = frozenset({"source_time", "operation", "sequence"})
"""What differs from change to change of one table."""


class ChangeContext(NamedTuple):
    """What new columns may take from a change.

    Attributes:
        operation: one of `records.OPERATIONS`.
        source_time: microseconds since 1970, None where the source tells none.
        sequence: parts of the sequence id, None where there is none.
    """

    operation: str
    source_time: int | None
    sequence: tuple[int, ...] | None


class _KeptColumn(NamedTuple):
    """A column that stays.

    Attributes:
        place: its place among the source's columns.
        column: as it is now.
        mask: what hides its values, None where they stay.
    """

    place: int
    column: Column
    mask: Callable[[str], str | None] | None


class MappedColumn(NamedTuple):
    """What becomes of a column that stays.

    Attributes:
        name: as it is called now.
        mask: what hides its values, None where they stay.
    """

    name: str
    mask: Mask | None


class MappedTable:
    """A table and what becomes of its changes.

    Args:
        schema: the table as it is.
        rules: those that name it.
        types: declared types by column, which go before what messages say.

    Attributes:
        source: the table as it is.
        schema: the table as it becomes.
        columns_stay: whether no column changes, so that rows stay as they are.

    Raises:
        ConfigurationError: two columns would have one name, or the key would not tell rows apart.
    """

    def __init__(
        self,
        schema: TableSchema,
        rules: Iterable[MappingRule],
        types: Mapping[str, LogicalType] = MappingProxyType({}),
    ) -> None:
        self.source = schema
        rules = list(rules)
        taken = [
            made
            for place, column in enumerate(schema.columns)
            if (made := _taken(schema, place, _typed(column, types), rules)) is not None
        ]
        added: dict[str, Added] = {}
        for rule in rules:
            for name, what in rule.add.items():
                added.setdefault(name, what)
        self.join = next((rule.join for rule in rules if rule.join is not None), None)
        """How it becomes one with other tables; None where it stays one."""
        join = self.join
        if not schema.columns:
            # A statement tells none; its table has them all the same.
            added, join = {}, None
        own = [] if join is None else [join.column]
        self._check_names([*(one.column.name for one in taken), *added, *own])
        self._shard = (schema.qualified_name,) if join is not None else ()
        self._in_key = self._shard if join is not None and join.in_key else ()
        if join is not None and schema.key == ():
            message = (
                f"{schema.qualified_name} has no key, so its rows cannot be distinguished from "
                "those of the tables that it is joined with: declare the key columns under "
                "tables, or leave it out of the rule with join"
            )
            raise ConfigurationError(message, code=Code.MAPPING)
        self._masks = [(i, one.mask) for i, one in enumerate(taken) if one.mask is not None]
        fields = [f"f{one.place}" for one in taken]
        self._take = _several(fields)
        apart = {one.place for one in taken if _stays_apart(schema.names[one.place], rules, schema)}
        gone = (name for place, name in enumerate(schema.names) if place not in apart)
        self._indistinct = next(gone, None)
        """A column of which different values become the same, None where there is none."""
        self._added = list(added.values())
        self._same_for_all = [self._constant(what) for what in self._added]
        names = _names(schema, rules)
        new = [Column(name, _type_of(what), None, True) for name, what in added.items()]
        shard = [Column(name, STRING, None, False) for name in own]
        columns = (*(one.column for one in taken), *new, *shard)
        self._key_masks = [
            next(one.mask for one in taken if one.place == place) for place in self._key_places()
        ]
        called = {schema.columns[one.place].name: one.column.name for one in taken}
        key = None if schema.key is None else tuple(called.get(n, n) for n in schema.key)
        if key is not None and self._in_key:
            key = (*key, *own)
        self.schema = intern_schema(*names, columns, key, schema.dialect)
        self.columns_stay = columns == schema.columns and not self._masks
        self.where = where = next((rule.where for rule in rules if rule.where is not None), None)
        """The condition that rows have to meet, None where all are taken."""
        self.lacks: tuple[str, ...] = ()
        """Columns of the condition that the table does not have: came later, or are left out."""
        self.asked: dict[str, int] = {}
        """The other columns of the condition, and their places."""
        self.holds: Callable[[Any], Truth] | None = None
        """What the table's condition says of a row; None where it has none."""
        if where is not None and schema.columns:
            self.lacks = missing_columns(where, schema)
            self.holds = condition(where, schema, self.lacks)
            self.asked = asked_columns(where, schema)
        if not schema.columns:
            self.columns_stay = not any(rule.of_columns for rule in rules)
        self._rules = rules

    @property
    def rows_stay(self) -> bool:
        """Whether all its rows are taken as they are, so that statements may tell of them."""
        return self.columns_stay and all(rule.where is None for rule in self._rules)

    @property
    def same(self) -> bool:
        """Whether no change of it becomes another one."""
        return self.schema_stays and self.rows_stay

    @property
    def schema_stays(self) -> bool:
        """Whether what is taken of it keeps its names and its columns."""
        return self.schema is self.source and self.columns_stay

    def called(self, name: str) -> str | None:
        """What a column is called now, None where it is gone or its values are masked.

        Args:
            name: as a statement spells it, whose letters may be of another case.
        """
        folded = name.casefold()
        known = next((n for n in self.source.names if n.casefold() == folded), name)
        known = name if name in self.source.index else known
        any_case = in_any_case(known, self.source)
        for rule in self._rules:
            if rule.keep is not None and not fits_column(known, rule.keep, any_case):
                return None
        if self.hides(known):
            return None
        return _new_name(known, self._rules, any_case)

    def column(self, name: str) -> MappedColumn | None:
        """What becomes of a column of its rows; None where it goes.

        Args:
            name: exactly as rows name it; `called` is for statements.
        """
        any_case = in_any_case(name, self.source)
        if _is_dropped(name, self._rules, any_case):
            return None
        mask = _mask_of(name, self._rules, any_case)
        return MappedColumn(_new_name(name, self._rules, any_case), mask)

    def hides(self, name: str, exact: bool = False) -> bool:
        """Whether the values of a column are masked, or it is dropped.

        Args:
            name: the source's name, whose letters may be of another case.
            exact: whether the name is what rows will call it, so that a name in the file has to fit
                it whichever other columns the table has; `keep` that leaves it out counts, too.
        """
        if exact:
            any_case = ignores_case(self.source.dialect)
            mask = _mask_of(name, self._rules, any_case)
            return mask is not None or _is_dropped(name, self._rules, any_case)
        names = (name, name.casefold())
        hidden = [pattern for rule in self._rules for pattern in (*rule.drop, *rule.masks)]
        return fits(names, (*hidden, *_folded(hidden)))

    def check_bag(self, shared_ids: bool) -> None:
        """See that rows of a table without a key stay apart in the lake.

        There they are known by their values: a row before has to be equal to the row that it was,
        and two rows of one sequence id must not become equal.

        Args:
            shared_ids: whether changes have sequence ids, which those of a transaction may share.

        Raises:
            ConfigurationError: they do not.
        """
        if self.source.key != () or not self.source.columns:
            return
        why = f"{self.source.qualified_name} has no key, so its rows are known by their values"
        event = next((what.kind for what in self._added if what.kind in _OF_EVENT), None)
        if event is not None:
            message = (
                f"{why}, and a new column with the {event} is another one in each change: add it "
                "at the targets only, or declare a key under tables"
            )
            raise ConfigurationError(message, code=Code.MAPPING)
        column = self._indistinct
        if shared_ids and column is not None:
            message = (
                f"{why}, and without those of {column} two rows may become one: mask it by sha256 "
                "or hmac, drop or mask it at the targets only, or declare a key under tables"
            )
            raise ConfigurationError(message, code=Code.MAPPING)

    def _key_places(self) -> tuple[int, ...]:
        """Places of the key columns, where the schema has them among its columns."""
        schema = self.source
        if not schema.key or not schema.columns:
            return ()
        if any(name not in schema.index for name in schema.key):
            return ()
        return tuple(schema.index[name] for name in schema.key)

    def _check_names(self, names: list[str]) -> None:
        # A source may have names that differ by case; no mapping makes any.
        spellings, own = Counter(name.casefold() for name in names), set(self.source.names)
        twice = [
            name
            for name in names
            if spellings[name.casefold()] > 1 and (name not in own or names.count(name) > 1)
        ]
        if twice:
            message = (
                f"the mapping of {self.source.qualified_name} gives two columns the name "
                f"{twice[0]!r}, whatever the case of its letters: choose another one under rename "
                "or add"
            )
            raise ConfigurationError(message, code=Code.MAPPING)

    def image(self, image: Any, event: ChangeContext, alone: bool | None = None) -> Any:
        """A row as it becomes.

        Columns that tell of the change are filled in the row that it is about: a row after, or the
        one that a DELETE removed. The row before an update has none of them, also where its message
        is only the first half of the update.

        Args:
            image: of the source's schema.
            event: the change that it belongs to.
            alone: of a row before, whether no row after is beside it; None for a row after.
        """
        now = alone is None or (alone and event.operation != "update")
        values: list[Text] = list(self._take(image))
        for place, mask in self._masks:
            value = values[place]
            if isinstance(value, str):
                values[place] = mask(value)
        for what, text in zip(self._added, self._same_for_all, strict=True):
            values.append(_event_value(what, event, now) if what.kind in _OF_EVENT else text)
        return self.schema.Image(*values, *self._shard)

    def key(self, key: Any) -> Any:
        """A key image as it becomes."""
        values = msgspec.structs.astuple(key)
        return self.schema.Key(
            *(
                value if mask is None or not isinstance(value, str) else mask(value)
                for value, mask in zip(values, self._key_masks or [None] * len(values), strict=True)
            ),
            *self._in_key,
        )

    def image_text(self, text: str, event: ChangeContext, alone: bool | None = None) -> bytes:
        """A row as text; see `image`."""
        return _encode(self.image(self.source.image_decoder.decode(text), event, alone))

    def key_text(self, text: str) -> bytes:
        """A key as text; see `key`."""
        return _encode(self.key(msgspec.json.decode(text, type=self.source.Key)))

    def _constant(self, what: Added) -> str | None:
        if what.kind in _OF_EVENT:
            return None
        if what.kind == "constant":
            return what.text
        found: str | None = getattr(self.source, what.kind)
        return found


def _folded(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(pattern.casefold() for pattern in patterns)


def _several(fields: list[str]) -> Callable[[Any], tuple[Text, ...]]:
    if not fields:
        return lambda _: ()
    if len(fields) == 1:
        one = attrgetter(fields[0])
        return lambda image: (one(image),)
    return attrgetter(*fields)


def _typed(column: Column, types: Mapping[str, LogicalType]) -> Column:
    """A column with its declared type: once it has another name, nobody finds the declaration."""
    return msgspec.structs.replace(column, type=types.get(column.name, column.type))


def _taken(
    schema: TableSchema, place: int, column: Column, rules: list[MappingRule]
) -> _KeptColumn | None:
    """What becomes of a column, None where it goes."""
    in_key = column.name in (schema.key or ())
    any_case = in_any_case(column.name, schema)
    if _is_dropped(column.name, rules, any_case):
        if in_key:
            message = (
                f"the mapping drops {column.name}, which is in the key of "
                f"{schema.qualified_name}: keep it, or mask it by hmac"
            )
            raise ConfigurationError(message, code=Code.MAPPING)
        return None
    called = _new_name(column.name, rules, any_case)
    mask = _mask_of(column.name, rules, any_case)
    if mask is None:
        return _KeptColumn(place, msgspec.structs.replace(column, name=called), None)
    if in_key and mask.kind not in DISTINCT:
        message = (
            f"{column.name} is in the key of {schema.qualified_name}, and masked by {mask.kind} it "
            "would not distinguish rows: mask it with sha256 or hmac"
        )
        raise ConfigurationError(message, code=Code.MAPPING)
    if mask.kind == "null":
        masked = msgspec.structs.replace(column, name=called, nullable=True)
    else:
        masked = Column(called, STRING, None, column.nullable)
    return _KeptColumn(place, masked, mask_function(mask))


def _new_name(name: str, rules: list[MappingRule], any_case: bool) -> str:
    for rule in rules:
        for folded in _spellings(any_case):
            for old, new in rule.rename.items():
                if same_column(name, old, folded):
                    return new
    return name


def _mask_of(name: str, rules: list[MappingRule], any_case: bool) -> Mask | None:
    for rule in rules:
        # The very name goes before patterns.
        for fits_one in (same_column, _fits_pattern):
            for folded in _spellings(any_case):
                for pattern, mask in rule.masks.items():
                    if fits_one(name, pattern, folded):
                        return mask
    return None


def _fits_pattern(name: str, pattern: str, any_case: bool) -> bool:
    return fits_column(name, (pattern,), any_case)


def _spellings(any_case: bool) -> tuple[bool, ...]:
    """Whether case is ignored, in the order of looks: what a rule spells exactly goes first."""
    return (False, True) if any_case else (False,)


def _is_dropped(name: str, rules: list[MappingRule], any_case: bool) -> bool:
    return any(
        (rule.keep is not None and not fits_column(name, rule.keep, any_case))
        or fits_column(name, rule.drop, any_case)
        for rule in rules
    )


def _stays_apart(name: str, rules: list[MappingRule], schema: TableSchema) -> bool:
    mask = _mask_of(name, rules, in_any_case(name, schema))
    return mask is None or mask.kind in DISTINCT


def _names(
    schema: TableSchema, rules: list[MappingRule]
) -> tuple[str | None, str | None, str | None]:
    """Database, schema and table as they are called now."""
    parts = {"database": schema.database, "schema": schema.schema, "table": schema.table}
    filled = {part: value or "" for part, value in parts.items()}

    def called(part: str) -> str | None:
        for rule in rules:
            if part in rule.names:
                return rule.names[part].format(**filled) or None
        return parts[part]

    return called("database"), called("schema"), called("table")


def _type_of(what: Added) -> LogicalType:
    return LogicalType("timestamptz") if what.kind == "source_time" else STRING


def _event_value(what: Added, event: ChangeContext, now: bool) -> Text:
    """What a column tells of the change."""
    if not now:
        return UNSET
    if what.kind == "operation":
        return event.operation
    if what.kind == "sequence":
        return None if event.sequence is None else ".".join(map(str, event.sequence))
    return None if event.source_time is None else _instant(event.source_time)


def _instant(micros: int) -> str | None:
    """An instant as its exact text; None where no calendar has it."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{text}{fraction}Z"
