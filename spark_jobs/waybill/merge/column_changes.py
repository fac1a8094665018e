"""Changes of a table's columns: which class each is of, what is decided, what comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from waybill.errors import Code, SchemaChangeError
from waybill.lake_columns import lake_name
from waybill.merge.column_types import joined_by_rewrite, joined_numbers, keeps, promoted
from waybill.merge.columns import TYPES, MergedColumn, finer_time, lake_type
from waybill.spec.decisions import (
    ADD,
    DROP,
    MAP,
    NARROW,
    RENAME,
    RETYPE,
    UNDECIDED,
    WIDEN,
    ColumnDecision,
)
from waybill.types import with_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from waybill.records import TableSchema
    from waybill.types import LogicalType

LONGEST_STATEMENT = 200
"""Characters of a statement that an event keeps."""

EMPTY_BEFORE = "earlier rows have none"


class ColumnChange(msgspec.Struct, frozen=True):
    """A change of a table's columns, as an event.

    Attributes:
        change: its class (`waybill.spec.decisions.CLASSES`).
        column: the column's name in the source, that of before if it was renamed.
        before: the type in the lake; empty where the column was not there.
        after: the type that the source states now, or the new name; empty where it is gone.
        effect: what the merge made of it.
        statement: the beginning of the SQL that did it, empty where the topic had none.
        batch: the batch that brought it.
    """

    change: str
    column: str
    before: str
    after: str
    effect: str
    statement: str = ""
    batch: str = ""

    def __str__(self) -> str:
        if self.change == ADD:
            return f"{self.column} added ({self.after})"
        if self.change == DROP:
            return f"{self.column} dropped"
        if self.change == RENAME:
            return f"{self.column} renamed to {self.after}: {self.effect}"
        suffix = "" if self.change == WIDEN else f": {self.effect}"
        return f"{self.column} from {self.before} to {self.after}{suffix}"

    @property
    def sentence(self) -> str:
        """What happened, with the statement that did it."""
        return f"{self}, by {self.statement}" if self.statement else str(self)


def change_class(before: MergedColumn | None, after: MergedColumn | None) -> str | None:
    """The class of what became of a column; None where nothing did.

    Args:
        before: the column as the lake has it, None if it was not there.
        after: the column as the source states it now, None if it is gone. A column that goes on
            under another name was renamed, whatever its type.
    """
    if before is None:
        return None if after is None else ADD
    if after is None:
        return DROP
    if before.name != after.name:
        return RENAME
    if before.type == after.type:
        return None
    if keeps(before.type, after.type):
        return NARROW
    return RETYPE if promoted(before.type, after.type) is None else WIDEN


@dataclass
class TakenChanges:
    """How a batch's changes of a table's columns are decided, and those that it took.

    Attributes:
        table: qualified name of the table.
        decision: what the migration has decided.
        stated: types narrower than the column's that the source has stated, by column. Such a type
            may come again with every batch, and is a change only when it is new.
        changes: what was taken.
    """

    table: str
    decision: ColumnDecision = UNDECIDED
    stated: dict[str, tuple[str, ...]] = field(default_factory=dict)
    changes: list[ColumnChange] = field(default_factory=list)

    def check_add(self, name: str) -> None:
        """See to it that a table of the lake may get a new column.

        Raises:
            SchemaChangeError: a person decides about it.
        """
        self._check(ADD, f"{self.table} has a new column {name}", "take")

    def add(self, column: MergedColumn) -> None:
        """Take a column that is new in a table of the lake.

        Raises:
            SchemaChangeError: a person decides about it.
        """
        self.check_add(column.name)
        self.changes.append(ColumnChange(ADD, column.name, "", column.type, EMPTY_BEFORE))

    def drop(self, column: MergedColumn | None, name: str) -> None:
        """Take that a column is gone.

        Raises:
            SchemaChangeError: a person decides about it.
        """
        self._check(DROP, f"column {name} of {self.table} was dropped", "keep")
        type_ = "" if column is None else column.type
        effect = "it stays, with its earlier values"
        self.changes.append(ColumnChange(DROP, name, type_, "", effect))

    def rename(self, column: MergedColumn | None, name: str, new: str) -> None:
        """Take that a column goes on under another name."""
        type_ = "" if column is None else column.type
        effect = f"{new} is a new column beside {name}"
        if self.decision.rename == MAP:
            effect = "it keeps its values under the new name"
        self.changes.append(ColumnChange(RENAME, name, type_, new, effect))

    def retype(self, have: MergedColumn, want: str, becomes: str) -> MergedColumn:
        """Take another type for a column of the lake.

        Args:
            have: the column.
            want: the type that the source states.
            becomes: the type that holds both.

        Returns:
            The column as it is then.

        Raises:
            SchemaChangeError: a person decides about it.
        """
        change = change_class(have, have._replace(type=want))
        if change is None or want in self.stated.get(have.name, ()):
            return have._replace(known=True)
        sentence = (
            f"column {have.name} of {self.table} is {have.type} in the lake and now is {want}"
        )
        if change == NARROW:
            self._check(NARROW, sentence, "keep")
            effect = f"it stays {have.type}"
        elif change == WIDEN:
            self._check(WIDEN, sentence, "take")
            effect = f"it is widened to {becomes}"
        else:
            effect = f"the table is rewritten with it as {becomes}"
        narrower = [one for one in (have.type, want) if one != becomes]
        self.stated[have.name] = (*self.stated.get(have.name, ()), *narrower)
        self.changes.append(ColumnChange(change, have.name, have.type, want, effect))
        return have._replace(type=becomes, known=True)

    def rewritten(
        self, have: MergedColumn, logical: LogicalType, want: str, declared: bool, in_use: bool
    ) -> str:
        """The type of a column that only a rewrite gives it.

        Args:
            have: the column.
            logical: the type that it is to take.
            want: what that is in the lake.
            declared: whether the migration declares the type, which then has to hold all.
            in_use: whether the lake has the column; otherwise one batch brings both types.

        Raises:
            SchemaChangeError: a person decides about it, or no type holds both exactly.
        """
        becomes = joined_by_rewrite(have.type, want)
        if declared and becomes != want:
            becomes = None
        if becomes is None or self.decision.stops(RETYPE):
            raise SchemaChangeError(
                _sentence(self.table, have, logical, becomes, in_use), code=Code.COLUMN_TYPE
            )
        return becomes

    def _check(self, change: str, sentence: str, go_on: str) -> None:
        if self.decision.stops(change):
            message = (
                f"{sentence}, about which a person decides: set `{change}: {go_on}` for "
                f"{self.table} under schema_changes and run again"
            )
            raise SchemaChangeError(message, code=Code.COLUMN_DECISION)


def extend(
    columns: tuple[MergedColumn, ...],
    schemas: Iterable[TableSchema],
    declared: Mapping[str, LogicalType],
    table: str,
    in_lake: int,
    taken: TakenChanges | None = None,
    lake_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[MergedColumn, ...]:
    """The columns of a table after changes with these schemas.

    Args:
        columns: those so far.
        schemas: how the changes of the batch describe the table.
        declared: types that the migration declares; they go before what a schema says.
        table: qualified name.
        in_lake: how many of `columns` are in the lake already.
        taken: what is decided, and where it is remembered what was taken; without it nothing is
            decided.
        lake_names: what the lake calls columns that it has of the table, whose rows are not there.

    Raises:
        SchemaChangeError: a person has to decide about a change.
    """
    taken = taken or TakenChanges(table)
    found = {column.name: column for column in columns}
    fixed = {column.name for column in columns[:in_lake]}
    for schema in schemas:
        for stated in schema.columns:
            logical = declared.get(stated.name) or with_digits(stated.type, stated.source_type)
            known = logical.kind != "unknown"
            type_ = lake_type(logical)
            have = found.get(stated.name)
            if have is None:
                others = [*(column.lake for column in found.values()), *lake_names.values()]
                lake = lake_names.get(stated.name) or lake_name(stated.name, others)
                have = found[stated.name] = MergedColumn(stated.name, lake, type_, known)
                if in_lake:
                    taken.add(have)
            elif known:
                joined = _joined(
                    have, logical, type_, stated.name in fixed, stated.name in declared
                )
                if joined is None:
                    joined = taken.rewritten(
                        *(have, logical, type_, stated.name in declared, stated.name in fixed)
                    )
                if stated.name in fixed:
                    found[stated.name] = taken.retype(have, type_, joined)
                else:
                    found[stated.name] = have._replace(type=joined, known=True)
    return tuple(found.values())


def _sentence(
    table: str, have: MergedColumn, logical: LogicalType, becomes: str | None, in_use: bool
) -> str:
    """What a type does not fit, and what to do: `becomes` is what a rewrite would make of it."""
    both = f"is {have.type} in the lake and now comes as {logical}"
    if not in_use:
        both = f"comes as {have.type} and as {logical} in one batch"
    wide = logical if finer_time(logical) and have.type == TYPES[logical.kind] else "string"
    example = f"tables: {{{table}: {{columns: {{{have.name}: {wide}}}}}}}"
    rewrite = (
        ""
        if becomes is None
        else f"set `retype: rewrite` for {table} under schema_changes, which rewrites the table "
        f"with it as {becomes}, or "
    )
    return (
        f"column {have.name} of {table} {both}, which does not fit: {rewrite}take the change back "
        f"at the source, or declare a type that holds both, e.g. {example}, under a new migration "
        "name"
    )


def _joined(
    have: MergedColumn, logical: LogicalType, want: str, in_use: bool, declared: bool
) -> str | None:
    """The type of a column that now also takes another type, None if there is none.

    Args:
        have: the column.
        logical: the type that it is to take.
        want: what that is in the lake.
        in_use: whether the lake has the column.
        declared: whether the migration declares the type.
    """
    if not in_use and (
        not have.known or (finer_time(logical) and have.type == TYPES[logical.kind])
    ):
        return want
    if have.type in (want, "string"):
        return have.type
    wider = promoted(have.type, want) if in_use else joined_numbers(have.type, want)
    if declared:
        return want if wider == want else None
    if not in_use and keeps(want, have.type) and want != "string":
        return want
    return have.type if keeps(have.type, want) else wider


def of_batch(
    changes: Iterable[ColumnChange], statements: Iterable[str], batch: str
) -> tuple[ColumnChange, ...]:
    """Changes with the batch that brought them, and with the statement that did each.

    Args:
        changes: of one table.
        statements: those of the batch that altered the table, oldest first.
        batch: id of the batch.
    """
    texts = list(statements)

    def with_statement(change: ColumnChange) -> ColumnChange:
        word = re.compile(rf"(?<!\w){re.escape(change.column)}(?!\w)", re.IGNORECASE)
        text = next((text for text in reversed(texts) if word.search(text)), "")
        return msgspec.structs.replace(change, statement=shown(text), batch=batch)

    return tuple(with_statement(change) for change in changes)


def shown(statement: str) -> str:
    """A statement as an event keeps it: on one line, and not longer than `LONGEST_STATEMENT`."""
    text = " ".join(statement.split())
    return text if len(text) <= LONGEST_STATEMENT else f"{text[: LONGEST_STATEMENT - 1]}…"
