"""Takes statements that rename columns, where the migration says `rename: map`.

A statement has to come no later than the rows that have its new names: what the lake has got of
these under another reading cannot be told apart any more. Then, and where names do not tell which
columns are meant, the table waits for a person, with all that it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake_columns import lake_name
from waybill.merge.alterations import fitting, may_differ, same_id
from waybill.merge.renamings import Renaming, instead, is_unclear, present, renaming_error
from waybill.merge.state import Default, place_in
from waybill.order import FULL_ROW, sequence_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.merge.alterations import Meaning
    from waybill.merge.columns import Column
    from waybill.merge.ddl import Alteration
    from waybill.merge.names_in_log import NamesInLog
    from waybill.merge.state import TableState
    from waybill.merge.statements import Statement
    from waybill.merge.table_plans import TablePlan
    from waybill.records import TableSchema


def take_renaming(
    table: TablePlan, meaning: Meaning, schemas: Iterable[TableSchema], log: NamesInLog
) -> None:
    """Let a statement's columns go on under their new names.

    Args:
        table: what the batch means for the table, before its changes are looked at.
        meaning: what the statement says.
        schemas: how the changes of the batch describe the table.
        log: asks the log.

    Raises:
        SchemaChangeError: a person has to decide.
    """
    statement, alteration, state = meaning.statement, meaning.alteration, table.state
    assert alteration is not None
    if statement.again:
        _rise(state, statement)
        return
    told = {name for schema in schemas for name in schema.names}
    known = {*state.told, *told, *(n for one in state.renamed for n in one.names.values())}
    names = _spelled(table, alteration, sorted(known))
    if not names or _is_copy(state, statement, names):
        return
    _check(table, statement, names, log)
    place = (statement.topic, statement.partition, statement.offset)
    renaming = Renaming(statement.order, names, place, log.after)
    for old, new in names.items():
        if old in known:
            table.taken.rename(state.column(old), old, new)
    state.renamed = tuple(sorted((*state.renamed, renaming), key=lambda one: one.order))
    table.renamings.append(renaming)
    _rename(state, renaming)
    table.taken.stated = state.stated


def check_full_rows(table: TablePlan, log: NamesInLog) -> None:
    """See to it that full rows are not read with names of another time.

    Raises:
        SchemaChangeError: it cannot be told what their columns are.
    """
    state = table.state
    came = table.survey.rows and table.survey.lowest.startswith(FULL_ROW)
    new = bool(table.renamings) or len(state.columns) > len(table.before.columns)
    freed = {old for one in state.renamed for old in one.names}
    if not freed.intersection(state.names) or not (came or new):
        return
    for schema in log.full_rows_outside(table.taken.table, state.renamed):
        if is_unclear(schema.names, state.renamed, state.names):
            both = ", ".join(sorted(freed.intersection(schema.names)))
            raise renaming_error(
                f"full rows of {table.taken.table} have the column {both}, whose name was given to "
                "another column, and do not show whether they were read before that or after",
                "load the table in full again with `as_of` under a new migration name",
            )


def _spelled(table: TablePlan, alteration: Alteration, known: list[str]) -> dict[str, str]:
    """New names by old ones, as rows spell them."""
    names = {}
    for old, new in alteration.renamed:
        fits = fitting(old, known, alteration)
        if len(fits) > 1:
            raise renaming_error(
                f"column {old} of {table.taken.table} was renamed to {new}, and its case does not "
                f"show which of {', '.join(fits)} that is",
                instead(table.taken.table),
            )
        was = fits[0] if fits else old
        others = [name for name in known if name != was]
        shown = fitting(new, others, alteration)
        now = shown[0] if len(shown) == 1 and not alteration.told else new
        if now == new and new not in others and may_differ(new, tuple(known), alteration):
            now = new.upper() if all(name == name.upper() for name in known) else new.lower()
        if was != now:
            names[was] = now
    return names


def _is_copy(state: TableState, statement: Statement, names: dict[str, str]) -> bool:
    """Whether a statement has been taken already, and is delivered once more."""
    if sequence_of(statement.order):
        return any(
            same_id(one.order, statement.order) and one.names == names for one in state.renamed
        )
    # Without a sequence id its place is its order, and only what it says can tell.
    about = [one for one in state.renamed if {*one.names, *one.names.values()} & {*names}]
    again = about[-1:] and about[-1].names == names and not {*names} & {*state.told}
    return bool(again) or any(one.order == statement.order for one in state.renamed)


def _check(
    table: TablePlan,
    statement: Statement,
    names: dict[str, str],
    log: NamesInLog,
) -> None:
    """Stop where rows of other columns would be taken for theirs."""
    state, name = table.state, table.taken.table
    pairs = " and ".join(f"{old} to {new}" for old, new in names.items())
    told = f"{name}: {pairs} was renamed"
    both = {*names, *names.values()}
    for one in state.renamed:
        if one.order > statement.order and both & {*one.names, *one.names.values()}:
            raise renaming_error(
                f"{told} by a statement that came behind a later one about these names",
                instead(name),
            )
    there = {new for new in names.values() if new in state.told and new not in names}
    if there and not {*names} & {*state.told}:
        # No row has come with an old name: then nothing is there to be renamed.
        merged = log.merged(name, statement.order, above=False)
        there = {new for new in there if any(new in schema.names for schema in merged)}
        both = {*names}
    if there or len(set(names.values())) < len(names):
        raise renaming_error(
            f"{told}, and the lake has {' and '.join(sorted(there)) or 'one of them'} already, of "
            "rows that came before the statement or of a column that was dropped",
            instead(name),
        )
    if table.before.columns and table.before.highest > statement.order:
        for schema in log.merged(name, statement.order, above=True):
            if both.intersection(schema.names):
                raise renaming_error(
                    f"{told} by a statement that came late: changes above it, which have one of "
                    "the names, are merged already",
                    instead(name),
                )


def _rename(state: TableState, renaming: Renaming) -> None:
    """Let all that is known of a table have the new names."""
    names = renaming.names
    taken = [column.lake for column in state.columns if column.name not in names]
    columns: list[Column] = []
    for column in state.columns:
        if column.name in names:
            new = names[column.name]
            lake = lake_name(new, taken)
            taken.append(lake)
            column = column._replace(name=new, lake=lake)
        columns.append(column)
    state.columns = tuple(columns)

    def now(name: str, order: str = "") -> str:
        return present(name, [renaming] if order < renaming.order else [])

    state.key = None if state.key is None else tuple(map(now, state.key))
    state.defaults = tuple(Default(d.order, now(d.column, d.order), d.text) for d in state.defaults)
    state.dropped = {now(name, order): order for name, order in state.dropped.items()}
    state.came_up = {now(name): order for name, order in state.came_up.items()}
    state.stated = {now(name): types for name, types in state.stated.items()}


def _rise(state: TableState, statement: Statement) -> None:
    """A renaming of before gets a higher place, by changes that came late in front of it.

    Raises:
        SchemaChangeError: rows in between may have been read with other names.
    """
    place = place_in(statement.order)
    found = []
    for one in state.renamed:
        if place_in(one.order) == place and one.order < statement.order:
            if set(one.names) & set(state.names):
                at = "/".join(map(str, one.place))
                raise renaming_error(
                    f"changes came late that belong before the statement {at}, which renamed "
                    f"{' and '.join(one.names)} and has no sequence id",
                    "continue under a new migration name",
                )
            one = Renaming(statement.order, one.names, one.place, one.after)
        found.append(one)
    state.renamed = tuple(sorted(found, key=lambda one: one.order))
