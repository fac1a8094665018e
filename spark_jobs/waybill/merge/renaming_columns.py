"""Takes statements that rename columns, where the migration says `rename: map`.

A statement has to come no later than the rows that have its new names: what the lake has got of
these under another reading cannot be distinguished any more. Then, and where names do not show
which columns are meant, the table waits for a person, with all that it had.

A statement without a sequence id has a place among the changes of its own partition only. Changes
of others may be older and stand above it, with the old name: it comes up as a new column then,
which no statement has added. Where names are exchanged nothing would show that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake_columns import lake_name
from waybill.merge.alterations import fitting, may_differ, same_id
from waybill.merge.renamings import (
    Renaming,
    above,
    free_names,
    instead,
    is_unclear,
    present,
    renaming_error,
)
from waybill.merge.state import Default, by_position
from waybill.order import FULL_ROW, sequence_of
from waybill.spec.decisions import MAP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from waybill.merge.alterations import Meaning
    from waybill.merge.columns import MergedColumn
    from waybill.merge.ddl import Alteration
    from waybill.merge.names_in_log import NamesInLog
    from waybill.merge.state import TableState
    from waybill.merge.statements import Statement
    from waybill.merge.table_plans import TablePlan
    from waybill.records import TableSchema

UNSAFE_NAMES = frozenset({",", ":"})
"""Names of columns with which a text image cannot be taken for its members by its signs alone."""


def take_renaming(
    table: TablePlan,
    meaning: Meaning,
    schemas: Iterable[TableSchema],
    log: NamesInLog,
    partitions: Collection[tuple[str, int]] = (),
) -> None:
    """Let a statement's columns go on under their new names.

    Args:
        table: what the batch means for the table, before its changes are looked at.
        meaning: what the statement says.
        schemas: how the changes of the batch describe the table.
        log: asks the log.
        partitions: topics and partitions that may have changes of the table.

    Raises:
        SchemaChangeError: a person has to decide.
    """
    statement, alteration, state = meaning.statement, meaning.alteration, table.state
    assert alteration is not None
    stated = {name for schema in schemas for name in schema.names}
    known = {*state.known_names, *stated, *(n for one in state.renamed for n in one.names.values())}
    names = _spelled(table, alteration, sorted(known))
    if not names or _is_copy(table, statement, names, alteration):
        return
    _check_place(table, statement, names, partitions)
    _check(table, statement, names, log)
    place = _place(statement)
    renaming = Renaming(statement.order, names, place, log.after)
    for old, new in names.items():
        if old in known:
            table.taken.rename(state.column(old), old, new)
    state.renamed = tuple(sorted((*state.renamed, renaming), key=lambda one: one.order))
    table.renamings.append(renaming)
    _rename(state, renaming)
    table.taken.stated = state.stated


def rise(state: TableState, statement: Statement) -> None:
    """A renaming of before gets a higher place, by changes that came late in front of it.

    Raises:
        SchemaChangeError: rows in between may have been read with other names.
    """
    found = []
    for one in state.renamed:
        if one.place == _place(statement) and one.order < statement.order:
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


def check_names(table: TablePlan, log: NamesInLog | None) -> None:
    """See to it that the batch's changes are read with the names that they have.

    Args:
        table: what the batch means for the table, with all of its columns.
        log: asks the log.

    Raises:
        SchemaChangeError: that cannot be decided.
    """
    if table.state.renamed:
        _check_new_columns(table)
        if log is not None:
            _check_full_rows(table, log)


def _check_full_rows(table: TablePlan, log: NamesInLog) -> None:
    """See to it that full rows are not read with names of another time.

    Raises:
        SchemaChangeError: what their columns are cannot be decided.
    """
    state = table.state
    came = table.survey.rows and table.survey.lowest.startswith(FULL_ROW)
    freed = {old for one in state.renamed for old in one.names}
    # Another new column makes no row unclear that is there: none of them has it.
    new = bool(table.renamings) or not freed.isdisjoint(state.names[len(table.before.columns) :])
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


def note_added(state: TableState, meaning: Meaning) -> None:
    """Remember that a statement added a column with a name that a renamed one had."""
    assert meaning.alteration is not None
    free = free_names(state.renamed)
    for column in meaning.alteration.added:
        for name in fitting(column, free, meaning.alteration):
            order = max(state.added.get(name, ""), meaning.statement.order)
            state.added = {**state.added, name: order}


def _check_new_columns(table: TablePlan) -> None:
    """See to it that no change above a renaming still has the name of before.

    Raises:
        SchemaChangeError: one may, and its values would be those of a new column.
    """
    state = table.state
    # What was emptied since may have been made again with any columns.
    renamed = above(state.renamed, state.truncated)
    for one in renamed if table.survey.places else ():
        places = {*state.places, one.place[:2]}
        if by_position(one.order) and len(places) > 1:
            raise renaming_error(
                f"changes of {table.taken.table} without a sequence id are in several partitions "
                f"({_listed(places)}), and a statement that renamed {_pairs(one.names)} has no "
                "place among those of another",
                "continue under a new migration name",
            )
    if table.taken.decision.rename != MAP:
        return
    free = free_names(renamed)
    given = {d.column: d.order for d in state.defaults}
    for name in state.names[len(table.before.columns) :]:
        order = max(state.added.get(name, ""), given.get(name, ""))
        if name in free and order < free[name]:
            raise renaming_error(
                f"changes of {table.taken.table} above a statement that renamed {name} have the "
                f"column {name}, and no statement in the stream has added it again: they may be "
                "older than the statement",
                f"if {name} is a new column set `rename: beside` for {table.taken.table} under "
                "schema_changes, or run again with a changed file once the statement has arrived; "
                "else continue under a new migration name",
            )


def _place(statement: Statement) -> tuple[str, int, int]:
    return statement.topic, statement.partition, statement.offset


def _pairs(names: Mapping[str, str]) -> str:
    return " and ".join(f"{old} to {new}" for old, new in names.items())


def _listed(places: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}/{partition}" for topic, partition in sorted(places))


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
        now = shown[0] if len(shown) == 1 and not alteration.dialect_known else new
        if now == new and new not in others and may_differ(new, tuple(known), alteration):
            now = new.upper() if all(name == name.upper() for name in known) else new.lower()
        if was != now:
            names[was] = now
    return names


def _is_numbered(statement: Statement) -> bool:
    """Whether a statement has an order of its own beside its position."""
    return bool(sequence_of(statement.order)) and not statement.behind


def _is_copy(
    table: TablePlan, statement: Statement, names: dict[str, str], alteration: Alteration
) -> bool:
    """Whether a statement has been taken already, and is delivered once more.

    Raises:
        SchemaChangeError: it may have been.
    """
    state, name = table.state, table.taken.table
    if _is_numbered(statement):
        return any(
            same_id(one.order, statement.order) and _say_the_same(one.names, names, alteration)
            for one in state.renamed
        )
    # Without a sequence id of its own only its place and what it says can tell.
    about = [one for one in state.renamed if _both(one.names) & _both(names)]
    same = [one for one in about if _say_the_same(one.names, names, alteration)]
    if any(one.place == _place(statement) for one in same):
        return True
    taken = {*names} & {*names.values(), *state.known_names}
    if same and same[-1] is about[-1] and not taken:
        return True
    if same or (about and {*names} & {*names.values()}):
        raise renaming_error(
            f"the statement {'/'.join(map(str, _place(statement)))}, which renamed "
            f"{_pairs(names)}, has no sequence id, and may be an earlier one that is delivered "
            "again",
            f"if it is, set `rename: beside` for {name} under schema_changes until that batch is "
            "merged, which passes over it, else continue under a new migration name",
        )
    return False


def _both(names: Mapping[str, str]) -> set[str]:
    return {*names, *names.values()}


def _say_the_same(one: Mapping[str, str], other: Mapping[str, str], alteration: Alteration) -> bool:
    """Whether two statements say the same, where case may not count."""

    def folded(names: Mapping[str, str]) -> dict[str, str]:
        return {old.casefold(): new.casefold() for old, new in names.items()}

    return one == other or (not alteration.exact and folded(one) == folded(other))


def _check_place(
    table: TablePlan,
    statement: Statement,
    names: dict[str, str],
    partitions: Collection[tuple[str, int]],
) -> None:
    """Stop where a statement has no place among the changes of the table, or names no signs.

    Raises:
        SchemaChangeError: it has none.
    """
    name, own = table.taken.table, (statement.topic, statement.partition)
    sentence = f"{name}: {_pairs(names)} was renamed"
    if _both(names) & UNSAFE_NAMES:
        raise renaming_error(
            f"{sentence}, and a comma or a colon cannot be a name in texts of rows", instead(name)
        )
    if _is_numbered(statement):
        return
    places = {own}
    if by_position(statement.order):
        places |= {*table.state.places, *table.survey.places}
    if {*names} & {*names.values()}:
        # Rows of before and of after look the same.
        places |= {*partitions}
    if len(places) > 1:
        raise renaming_error(
            f"{sentence} by a statement without a sequence id, which has a place in its own "
            f"partition only, and changes of the table are in several ({_listed(places)})",
            instead(name),
        )


def _check(
    table: TablePlan,
    statement: Statement,
    names: dict[str, str],
    log: NamesInLog,
) -> None:
    """Stop where rows of other columns would be taken for theirs."""
    state, name = table.state, table.taken.table
    sentence = f"{name}: {_pairs(names)} was renamed"
    both = _both(names)
    for one in state.renamed:
        if one.order > statement.order and both & _both(one.names):
            raise renaming_error(
                f"{sentence} by a statement that came after a later one about these names",
                instead(name),
            )
    there = {new for new in names.values() if new in state.known_names and new not in names}
    if there and not {*names} & {*state.known_names}:
        # No row has come with an old name: then nothing is there to be renamed.
        merged = log.merged(name, statement.order, above=False)
        there = {new for new in there if any(new in schema.names for schema in merged)}
        both = {*names}
    if there or len(set(names.values())) < len(names):
        raise renaming_error(
            f"{sentence}, and the lake has {' and '.join(sorted(there)) or 'one of them'} already, "
            "of rows that came before the statement or of a column that was dropped",
            instead(name),
        )
    if table.before.columns and table.before.highest > statement.order:
        for schema in log.merged(name, statement.order, above=True):
            if both.intersection(schema.names):
                raise renaming_error(
                    f"{sentence} by a statement that came late: changes above it, which have one "
                    "of the names, are merged already",
                    instead(name),
                )


def _rename(state: TableState, renaming: Renaming) -> None:
    """Let all that is known of a table have the new names."""
    names = renaming.names
    taken = [column.lake for column in state.columns if column.name not in names]
    columns: list[MergedColumn] = []
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
    state.dropped_below = {now(n, order): order for n, order in state.dropped_below.items()}
    state.came_up = {now(name): order for name, order in state.came_up.items()}
    state.stated = {now(name): types for name, types in state.stated.items()}
    state.written = {now(name): type_ for name, type_ in state.written.items()}
