"""Changes as a mapping makes them, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from waybill.caches import Bounded
from waybill.errors import Code, ConfigurationError, MissingColumnError, Refusal
from waybill.mapping.carried import carried_with, without_statements
from waybill.mapping.column_history import NO_HISTORY, columns_left_out, with_columns_to_come
from waybill.mapping.column_renames import check_renames
from waybill.mapping.moves import moved
from waybill.mapping.rules import NOT_MET
from waybill.mapping.schema_renames import check_schema_renames
from waybill.mapping.shards import (
    EMPTIED,
    OF_ONE,
    EmptiedShards,
    Several,
    emptied_by,
    of_several,
    of_shard,
)
from waybill.mapping.statement_tables import StatementTables, spellings_of, subject
from waybill.mapping.statements import changes_rows, mapped_statement, tells_rows
from waybill.mapping.table import ChangeContext, MappedTable
from waybill.mapping.table_renames import check_table_renames
from waybill.records import ROW_OPERATIONS
from waybill.suggestions import did_you_mean
from waybill.tables import TableRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.mapping.column_history import ColumnHistory
    from waybill.mapping.conditions import Truth
    from waybill.mapping.rules import Join, Rules
    from waybill.records import Change, TableSchema


def add_name(names: dict[str, str], now: str, before: str) -> None:
    """Note what a table is called now.

    Raises:
        ConfigurationError: another one is called so.
    """
    other = names.setdefault(now, before)
    if other != before:
        message = (
            f"the mapping gives the tables {other} and {before} one name, {now}: choose another "
            "one under rename for one of them"
        )
        raise ConfigurationError(message, code=Code.MAPPING)


def joined_tables(names: Mapping[str, str]) -> list[str]:
    """What tables are called that several tables become.

    Args:
        names: see `add_name`.
    """
    return [now for now, before in names.items() if before == _shards_of(now)]


def _shards_of(now: str) -> str:
    return f"shards of {now}"


NO_TABLE_RULES = TableRules()

Bags = Literal["place", "id"] | None
"""How changes of tables without a key are distinguished; see `ChangeMapper`."""

OF_TABLES = ("truncate", "ddl", "other")
"""Operations that are about a table and tell no row."""

OF_STATEMENTS = ("other", "ddl", "heartbeat")
"""Operations of events that may repeat a statement, and name no table or one of several."""

STATEMENT = "statement of a mapped table"
"""Why a statement is skipped that cannot be written with the new names."""


class Mapped(NamedTuple):
    """What becomes of a change.

    Attributes:
        change: as it becomes, None where it is left out.
        why: why it is left out; the class of the refusal where it is refused.
        sentence: why it is refused, None where it is not.
        emptied: which of the joined tables it empties.
    """

    change: Change | None
    why: str | None = None
    sentence: str | None = None
    emptied: tuple[EmptiedShards, ...] = ()


class ChangeMapper:
    """Applies the rules of a mapping; keeps what it has made of each table.

    Args:
        rules: the rules.
        declared: types of columns, by the source's names of tables.
        bags: how the lake tells changes of tables without a key apart: by their `place`, or by an
            `id` that several may share; None where no lake keeps them.
        history: when columns came that conditions ask for.
    """

    def __init__(
        self,
        rules: Rules,
        declared: TableRules = NO_TABLE_RULES,
        bags: Bags = None,
        history: ColumnHistory = NO_HISTORY,
    ) -> None:
        self.rules = rules
        self._shows_less = rules.shows_less
        self.maps_statements = any(rule.names or rule.of_columns for rule in rules.of_tables)
        """Whether statements may say something of tables that another name or columns get."""
        self._history = history
        self._bags = bags
        self._declared = declared
        self.names: dict[str, str] = {}
        """The source's qualified names of tables by those that they have now."""
        self._tables: Bounded[TableSchema, MappedTable | None] = Bounded()
        self._joins: dict[str, Join] = {}

    def of(self, schema: TableSchema) -> MappedTable | None:
        """What becomes of a table; None where it is left out.

        Raises:
            ConfigurationError: see `MappedTable`, and its `check_bag`.
        """
        if schema not in self._tables:
            taken = self.rules.selects(schema)
            made = None
            if taken:
                types = self._declared.find(schema.database, schema.schema, schema.table).columns
                made = MappedTable(schema, self.rules.rules_of(schema), types)
                if self._bags is not None:
                    made.check_bag(shared_ids=self._bags == "id")
            if made is not None and schema.table:
                now, before = made.schema.qualified_name, schema.qualified_name
                add_name(self.names, now, before if made.join is None else _shards_of(now))
                self._check_join(made)
            self._tables[schema] = made
        return self._tables[schema]

    def _check_join(self, made: MappedTable) -> None:
        if made.join is None:
            return
        now = made.schema.qualified_name
        if self._joins.setdefault(now, made.join) != made.join:
            message = (
                f"two rules with join make {now} and say different things of its column, keys or "
                f"defaults, the second one for {made.source.qualified_name}: give both the same "
                "join, or other names under rename"
            )
            raise ConfigurationError(message, code=Code.MAPPING)

    def map(self, change: Change) -> Mapped:
        """What becomes of a change.

        Raises:
            ConfigurationError: see `check_statement`.
            MissingColumnError: see `_where_met`.
        """
        self.check_statement(change.operation, change.ddl_text, change.schema)
        several = self.several(change.operation, change.ddl_text, change.schema)
        if several is not None:
            return _apart(change, several)
        mapped = self.of(change.schema)
        if mapped is None:
            return Mapped(None, self.rules.left_out(change.schema))
        if self.hides(change.operation, change.schema, change.ddl_text, change.extra):
            return Mapped(None, STATEMENT)
        if self._shows_less and change.extra is not None:
            left = without_statements(change.extra, change.operation in ROW_OPERATIONS)
            if left is not change.extra:
                change = msgspec.structs.replace(change, extra=left)
        joined = self.joined(change.operation, change.ddl_text, mapped)
        if joined is not None:
            result = self.of_shard(change.operation, change.ddl_text, joined)
            if result.why is not None:
                return result
        if mapped.same:
            return self._with_statement(change, mapped)
        if mapped.holds is not None:
            return self._where_met(change, mapped, mapped.holds)
        return self._made(change, mapped, False)

    def _where_met(
        self, change: Change, mapped: MappedTable, holds: Callable[[Any], Truth]
    ) -> Mapped:
        """What becomes of a change of a table with a condition.

        Raises:
            MissingColumnError: a row lacks a column of the condition that may have come later, for
                all that is known by now.
        """
        history = self._history
        if change.operation in ROW_OPERATIONS:
            for name in mapped.lacks:
                if not (history.complete and history.came_later(name, change)):
                    raise _missing(name, mapped)
        try:
            found = moved(change, holds)
        except Refusal as refusal:
            # What needs no history is the same whether or not anybody has looked it up.
            left_out = columns_left_out(change, mapped.asked)
            if left_out and not history.complete:
                raise _missing(left_out[0], mapped) from refusal
            change = with_columns_to_come(change, mapped.asked, history)
            try:
                found = moved(change, holds)
            except Refusal as still:
                return Mapped(None, still.kind, still.sentence)
        if found is None:
            return Mapped(None, NOT_MET)
        return self._made(found, mapped, found is not change)

    def check_statement(self, operation: str, text: str | None, schema: TableSchema) -> None:
        """See that a statement takes no column away from what hides it.

        Raises:
            ConfigurationError: see `check_renames`, `check_table_renames` and
                `check_schema_renames`.
        """
        if operation in ("ddl", "other") and self.rules.hides_columns:
            check_renames(text, schema, self.of)
            check_table_renames(text, schema, self.rules)
            check_schema_renames(text, schema, self.rules)

    def several(self, operation: str, text: str | None, schema: TableSchema) -> Several | None:
        """What a statement means that empties several tables; see `of_several`."""
        if operation != "ddl" or not self.rules.joins:
            return None
        return of_several(text, self._tables_of(schema, self.of(schema)))

    def hides(
        self, operation: str, schema: TableSchema, text: str | None, extra: bytes | str | None
    ) -> bool:
        """Whether an event may show rows of which the mapping leaves something out.

        The table that it names need not be one of those: a statement may change several, and read
        others.

        Args:
            operation: what the event is.
            schema: the table that it names, if any.
            text: its statement.
            extra: what else came with it.
        """
        if operation not in OF_STATEMENTS or not self._shows_less:
            return False
        if not schema.table:
            return tells_rows(text, extra)
        return (text is not None and changes_rows(text, schema.dialect)) or tells_rows(None, extra)

    def _tables_of(self, schema: TableSchema, mapped: MappedTable | None) -> StatementTables:
        return StatementTables(schema, mapped, self._named, self._is_ruled)

    def _is_ruled(self, schema: TableSchema) -> bool:
        rules = self.rules.rules_of(self._as_ruled(schema))
        return any(rule.names or rule.of_columns for rule in rules)

    def _named(self, schema: TableSchema) -> MappedTable | None:
        """What becomes of a table that a statement names."""
        return self.of(self._as_ruled(schema))

    def _as_ruled(self, schema: TableSchema) -> TableSchema:
        """A table that a statement names, in the case of letters in which rules name it."""
        if self.rules.rules_of(schema):
            return schema
        patterns = [pattern for rule in self.rules.of_tables for pattern in rule.tables]
        others = spellings_of(schema, patterns)
        return next((other for other in others if self.rules.rules_of(other)), schema)

    def joined(self, operation: str, text: str | None, mapped: MappedTable) -> MappedTable | None:
        """The joined table that an event is about, None where it is about another one.

        Args:
            operation: what the event is.
            text: its statement.
            mapped: the table that its message names.
        """
        if operation not in OF_TABLES:
            return None
        about = mapped
        if operation == "ddl" and text is not None and self.rules.joins:
            about = subject(text, self._tables_of(mapped.source, mapped)) or mapped
        return None if about.join is None else about

    def of_shard(self, operation: str, text: str | None, mapped: MappedTable) -> Mapped:
        """What becomes of a TRUNCATE or statement of one of the joined tables, but its text.

        Raises:
            ConfigurationError: see `waybill.mapping.shards.of_shard`.
        """
        found = of_shard(operation, text, mapped)
        if found.emptied:
            return Mapped(None, EMPTIED, emptied=(emptied_by([mapped]),))
        return Mapped(None, None if found.stays else OF_ONE)

    def statement(self, text: str | None, mapped: MappedTable) -> str | None:
        """A statement of a table with its new names; None where there is none.

        One that changes rows has the values of the source, so it is passed on only if all rows of
        the table are taken as they are.

        Args:
            text: the statement, which may name other tables, too.
            mapped: the table that its message names, which may be none.
        """
        if text is None:
            return None
        if not self.maps_statements:
            hidden = not mapped.rows_stay and changes_rows(text, mapped.source.dialect)
            return None if hidden else text
        return mapped_statement(text, self._tables_of(mapped.source, mapped))

    def _with_statement(self, change: Change, mapped: MappedTable) -> Mapped:
        """An event of a table that stays as it is, whose statement may name others."""
        text = change.ddl_text
        if text is None or change.operation not in OF_TABLES:
            return Mapped(change)
        statement = self.statement(text, mapped)
        if statement is None and change.operation != "truncate":
            return Mapped(None, STATEMENT)
        if statement == text:
            return Mapped(change)
        extra = None if change.extra is None else carried_with(change.extra, mapped)
        return Mapped(msgspec.structs.replace(change, ddl_text=statement, extra=extra))

    def _made(self, change: Change, mapped: MappedTable, moved_in_or_out: bool) -> Mapped:
        """A change that is taken, with its new names, columns and values."""
        made = msgspec.structs.replace(change, schema=mapped.schema)
        if change.extra is not None and (moved_in_or_out or not mapped.schema_stays):
            operation = change.operation if moved_in_or_out else None
            made.extra = carried_with(change.extra, mapped, operation)
        if change.operation == "ddl" or change.ddl_text is not None:
            made.ddl_text = self.statement(change.ddl_text, mapped)
            if made.ddl_text is None and change.operation != "truncate":
                return Mapped(None, STATEMENT)
        event = ChangeContext(change.operation, change.source_time, change.sequence)
        if change.before is not None:
            made.before = mapped.image(change.before, event, change.after is None)
        if change.after is not None:
            made.after = mapped.image(change.after, event)
        if change.moved_from is not None:
            made.moved_from = mapped.key(change.moved_from)
        return Mapped(made)


def _apart(change: Change, several: Several) -> Mapped:
    """A statement that empties several tables, as one about those that stay tables of their own."""
    if several.rest is None:
        return Mapped(None, EMPTIED, emptied=several.emptied)
    schema = several.rest.schema
    made = msgspec.structs.replace(change, schema=schema, ddl_text=several.text, extra=None)
    return Mapped(made, emptied=several.emptied)


def _missing(name: str, mapped: MappedTable) -> MissingColumnError:
    source = mapped.source
    message = (
        f"where: {mapped.where!r} does not fit {source.qualified_name}: there is no column "
        f"{name}{did_you_mean(name, source.names)}"
    )
    return MissingColumnError(message, code=Code.MAPPING)
