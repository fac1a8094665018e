"""The rules of a mapping, as plain data that crosses to the workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from waybill.mapping.shadows import SHADOW, is_shadow
from waybill.name_patterns import matches_any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.records import TableSchema

NOT_SELECTED = "not selected"
"""Why a change of a table that is left out is skipped."""

NOT_MET = "where is not met"
"""Why a change is skipped whose row meets its table's condition neither before nor after."""


class Mask(NamedTuple):
    """How the values of a column are masked.

    Attributes:
        kind: `null`, `text`, `sha256`, `hmac` or `last4`.
        text: the fixed text, or the key of the HMAC.
    """

    kind: str
    text: str = ""

    def __repr__(self) -> str:
        return f"Mask({self.kind!r})"


class Added(NamedTuple):
    """What a new column holds.

    Attributes:
        kind: `constant`, `database`, `schema`, `table`, `source_time`, `operation` or `sequence`.
        text: the constant.
    """

    kind: str
    text: str = ""


class Join(NamedTuple):
    """How the tables of a rule become one.

    Attributes:
        column: the new column with the name of the table that a row is from.
        in_key: whether that column is part of the key; otherwise no two tables may have one key.
        shared_defaults: whether a default that a statement gives a new column of one of them holds
            for the rows of all.
    """

    column: str
    in_key: bool
    shared_defaults: bool = False


@dataclass(frozen=True)
class MappingRule:
    """What is made of the tables that a rule names; names of columns are those of the source.

    Attributes:
        tables: names or patterns of tables.
        names: templates of `database`, `schema` and `table`, those that change.
        keep: names or patterns of the columns that stay, None for all.
        drop: names or patterns of columns that go.
        rename: new names of columns.
        masks: by name or pattern of a column.
        add: new columns by name.
        where: a condition in SQL that rows have to meet, by the source's names.
        join: how the tables become one, None where each stays one.
    """

    tables: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
    masks: dict[str, Mask] = field(default_factory=dict)
    add: dict[str, Added] = field(default_factory=dict)
    where: str | None = None
    join: Join | None = None

    @property
    def of_columns(self) -> bool:
        """Whether it says anything about columns."""
        parts = (self.drop, self.rename, self.masks, self.add, self.join)
        return self.keep is not None or any(parts)


@dataclass(frozen=True)
class Rules:
    """A mapping as a migration states it.

    Attributes:
        include: names or patterns of the tables that are taken; empty for all.
        exclude: names or patterns of tables that are left out.
        of_tables: what is made of tables. All rules that name a table apply; where two say
            something about one thing, the first one counts.
        shadows: whether shadow tables of online schema changes are left out that `include` does not
            name as they are.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    of_tables: tuple[MappingRule, ...] = ()
    shadows: bool = False

    def __bool__(self) -> bool:
        return bool(self.of_all or self.shadows)

    @property
    def of_all(self) -> bool:
        """Whether it says anything about tables that are not shadow tables."""
        return bool(self.include or self.exclude or self.of_tables)

    @property
    def masks(self) -> bool:
        """Whether any column is masked."""
        return any(rule.masks for rule in self.of_tables)

    @property
    def conditions(self) -> bool:
        """Whether rows of any table have to meet a condition."""
        return any(rule.where is not None for rule in self.of_tables)

    @property
    def shows_less(self) -> bool:
        """Whether anything of the source is left out or masked."""
        left_out = self.include or self.exclude or self.masks or self.conditions
        return bool(left_out) or self.hides_columns

    @property
    def hides_columns(self) -> bool:
        """Whether columns are masked or left out by their names."""
        return self.masks or any(rule.drop or rule.keep is not None for rule in self.of_tables)

    @property
    def joined_by(self) -> tuple[str, ...]:
        """The columns that tell of joined tables which one a row is from."""
        return tuple({rule.join.column for rule in self.of_tables if rule.join is not None})

    @property
    def joins(self) -> bool:
        """Whether any tables become one."""
        return any(rule.join is not None for rule in self.of_tables)

    @property
    def renames(self) -> bool:
        """Whether any table gets another name."""
        return any(rule.names for rule in self.of_tables)

    def selects(self, schema: TableSchema) -> bool:
        """Whether changes of a table are taken; those of no table are."""
        return self.left_out(schema) is None

    def left_out(self, schema: TableSchema) -> str | None:
        """Why changes of a table are left out, None where they are taken."""
        if not schema.table:
            return None
        names = names_of(schema)
        if fits(names, self.exclude) or (self.include and not fits(names, self.include)):
            return NOT_SELECTED
        named = any(name in self.include for name in names)
        if self.shadows and not named and is_shadow(schema.table, schema.dialect):
            return SHADOW
        return None

    def chooses(self, qualified: str) -> bool:
        """Whether a table is taken of which only the qualified name is known."""
        parts = qualified.split(".")
        names = (qualified, ".".join(dict.fromkeys((parts[0], parts[-1]))))
        return not fits(names, self.exclude) and (not self.include or fits(names, self.include))

    def rules_of(self, schema: TableSchema) -> list[MappingRule]:
        """The rules that name a table; changes of no table stay as they are."""
        if not schema.table:
            return []
        names = names_of(schema)
        return [rule for rule in self.of_tables if fits(names, rule.tables)]


def names_of(schema: TableSchema) -> tuple[str, ...]:
    """What a pattern may call a table: its qualified name, or that without the schema."""
    short = ".".join(part for part in (schema.database, schema.table) if part)
    return (schema.qualified_name, short)


def fits(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether one of some names is one of some names or patterns."""
    return any(matches_any(name, patterns) for name in names)


def spellings(qualified: str) -> tuple[str, str]:
    """A table's name as people may write it: whole, or without its schema."""
    parts = qualified.split(".")
    return qualified, ".".join(dict.fromkeys((parts[0], parts[-1])))


def fits_column(name: str, patterns: Iterable[str], any_case: bool) -> bool:
    """Whether a column is one of some names or patterns.

    Args:
        name: the source's name of it.
        patterns: names or patterns.
        any_case: whether the case of letters is ignored; see `in_any_case`.
    """
    if any_case:
        name, patterns = name.casefold(), [pattern.casefold() for pattern in patterns]
    return matches_any(name, patterns)


def same_column(name: str, other: str, any_case: bool) -> bool:
    """Whether two names are of one column; see `fits_column`."""
    return name == other or (any_case and name.casefold() == other.casefold())


def in_any_case(name: str, schema: TableSchema) -> bool:
    """Whether a mapping may spell a column of a table in another case than the table does.

    It may wherever that means one column: the case of letters depends on the tool that wrote a
    message or a dump, and a mask must not depend on it.
    """
    return ignores_case(schema.dialect) or name.casefold() not in schema.spelled_twice


def ignores_case(dialect: str) -> bool:
    """Whether a database is known to ignore the case of letters in names of columns."""
    return dialect in ("mysql", "tsql")


NO_RULES = Rules()
"""The mapping that takes everything as it is."""
