"""What the statements of a batch mean for what is known of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, SchemaChangeError
from waybill.mapping.shadows import swapped
from waybill.merge.ddl import Alteration, emptied_tables, read_alteration, renamed_tables
from waybill.merge.renamings import present
from waybill.merge.state import Default
from waybill.order import sequence_of
from waybill.spec.decisions import RENAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.merge.column_changes import TakenChanges
    from waybill.merge.renamings import Renamings
    from waybill.merge.state import TableState
    from waybill.merge.statements import Statement


class Meaning(NamedTuple):
    """What a statement says.

    Attributes:
        statement: the statement.
        emptied: qualified names of the tables whose rows it took away.
        alteration: what it did to the columns of a table, None if it altered none.
        names: qualified names of the tables that it gave another name, old and new ones.
        warnings: what a person should know if the lake has one of these.
    """

    statement: Statement
    emptied: tuple[str, ...]
    alteration: Alteration | None
    names: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def read_statement(statement: Statement) -> Meaning:
    """What a statement says.

    Raises:
        UnreadableStatement: it concerns existing rows and cannot be read.
    """
    identity = (statement.text or "", statement.dialect)
    emptied = emptied_tables(*identity)
    tables = tuple(named(statement, parts, len(emptied)) for parts in emptied)
    meaning = Meaning(statement, tables, read_alteration(*identity))
    renamed = renamed_tables(*identity)
    if not renamed:
        return meaning
    names = {named(statement, parts, 2) for pair in renamed for parts in pair}
    if statement.has_table:
        names.add(statement.qualified)
    pairs = ", ".join(f"{'.'.join(old)} to {'.'.join(new)}" for old, new in renamed)
    ended = swapped(renamed)
    if 2 * len(ended) == len(renamed):
        altered = {named(statement, parts, 2) for parts in ended}
        warning = (
            f"an online schema change of {', '.join(sorted(altered))} has ended ({pairs}): the "
            "rows stay, and each gets new columns and types with its next change; a full reload "
            "brings what all rows got by it, such as the default of a new column"
        )
        return meaning._replace(names=frozenset(altered), warnings=(warning,))
    warning = (
        f"the source renamed {pairs}: the lake keeps its rows under the old names and writes only "
        "new changes under the new ones; a full reload of these tables fixes this"
    )
    return meaning._replace(names=frozenset(names), warnings=(warning,))


def named(statement: Statement, parts: tuple[str, ...], tables: int = 1) -> str:
    """Qualified name of a table that a statement names.

    Args:
        statement: the statement; its message may name the table too.
        parts: name parts, as the statement spells them.
        tables: how many tables it names; the message's is meant only if it is the one.
    """
    if (statement.has_table and tables == 1) or not parts:
        return statement.qualified
    if len(parts) > 1:
        return ".".join(parts)
    space = statement.qualified
    if statement.has_table:
        space = space.rpartition(".")[0]
    return f"{space}.{parts[0]}" if space else parts[0]


def altered_table(meaning: Meaning) -> str | None:
    """The table whose columns or name a statement changed, None if it changed none."""
    if meaning.alteration is None:
        return None
    return named(meaning.statement, meaning.alteration.table)


def check_renamed(
    state: TableState, alteration: Alteration, declared: Iterable[str], taken: TakenChanges
) -> None:
    """Stop at a column with a new name about which the migration says nothing.

    Args:
        state: what is known of the table, this batch included.
        alteration: what a statement does to it.
        declared: columns that the migration declares.
        taken: what is decided about the table, and where it is remembered what was taken.

    Raises:
        SchemaChangeError: names both and says what to declare.
    """
    for old, new in alteration.renamed:
        known = fitting(old, state.names, alteration)
        if not known:
            continue
        if taken.decision.stops(RENAME) and not fitting(new, declared, alteration):
            message = (
                f"column {known[0]} of {taken.table} was renamed to {new}: set `rename: map` for "
                f"{taken.table} under schema_changes, and rows keep its values under the new "
                "name; or set `rename: beside`, or declare the new name under tables: "
                f"{{{taken.table}: {{columns: ...}}}}, to continue with {new} as a new column "
                f"beside {known[0]}"
            )
            raise SchemaChangeError(message, code=Code.COLUMN_RENAMED)
        taken.rename(state.column(known[0]), known[0], new)


def with_present_names(alteration: Alteration, renamed: Renamings) -> Alteration:
    """What a statement says, with the names that later renamings gave to columns."""
    if not renamed:
        return alteration

    def now(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(present(name, renamed) for name in names)

    return alteration._replace(
        added=now(alteration.added),
        defaults={present(name, renamed): text for name, text in alteration.defaults.items()},
        unclear=now(alteration.unclear),
        dropped=now(alteration.dropped),
    )


def alter(
    state: TableState, statement: Statement, alteration: Alteration, taken: TakenChanges
) -> tuple[list[Default], list[str]]:
    """What an alteration does to existing rows; what it dropped is remembered.

    Args:
        state: what is known of the table, this batch included.
        statement: the statement.
        alteration: what it says.
        taken: what is decided about the table, and where it is remembered what was taken.

    Returns:
        The defaults of new columns, and what a person should know.

    Raises:
        SchemaChangeError: a person decides about such a change.
    """
    table, warnings = taken.table, []
    if alteration.unclear:
        warnings.append(
            f"existing rows of {table} hold a value in the new column "
            f"{', '.join(alteration.unclear)} that the statement does not say: it stays null"
        )
    for column in alteration.dropped:
        newer = {default.column for default in state.defaults if default.order > statement.order}
        gone = set(fitting(column, state.known_names, alteration)) - newer
        for name in sorted(gone - state.dropped.keys()):
            taken.drop(state.column(name), name)
        state.dropped.update(dict.fromkeys(gone, statement.order))
        # Rows with the column may come late.
        for name in fitting(column, state.known_names, alteration) or [column]:
            older = state.dropped_below.get(name, "")
            state.dropped_below[name] = max(older, statement.order)
    added = []
    for column in alteration.added:
        if state.columns and not fitting(column, state.known_names, alteration):
            taken.check_add(column)
        default, outcome = _add(table, state, statement, alteration, column)
        added += [] if default is None else [default]
        warnings += outcome
    return added, warnings


def _add(
    table: str, state: TableState, statement: Statement, alteration: Alteration, column: str
) -> tuple[Default | None, list[str]]:
    """The default of a new column, if it has one, and what a person should know."""
    text = alteration.defaults.get(column)
    fits = fitting(column, state.known_names, alteration)
    known = [default for default in state.defaults if default.column in fits]
    gone = [there for there in fits if state.dropped.pop(there, None)]
    if any(_is_copy(default, statement, text, bool(gone)) for default in known):
        return None, []
    warnings = []
    if known or gone:
        warnings.append(
            f"column {column} of {table} is added once more: rows that had a value in it keep it, "
            "where the source may have another one now; a full reload puts it right"
        )
    if text is None:
        return None, warnings
    if len(fits) > 1 or (not fits and may_differ(column, state.names, alteration)):
        warnings.append(
            f"the new column {column} of {table} has a default, and its case does not show which "
            f"column that is beside {', '.join(fits or state.names)}: make a full reload if "
            "existing rows are without it"
        )
    if len(fits) > 1:
        return None, warnings
    return Default(statement.order, fits[0] if fits else column, text), warnings


def fitting(name: str, known: Iterable[str], alteration: Alteration) -> list[str]:
    """The known columns that a statement's name can mean: itself, else those of another case."""
    names = tuple(known)
    if name in names:
        return [name]
    if alteration.exact:
        return []
    return [other for other in names if other.casefold() == name.casefold()]


def may_differ(name: str, known: tuple[str, ...], alteration: Alteration) -> bool:
    """Whether rows may show a new column in another case: in the one that all known ones have."""
    if alteration.dialect_known or not known:
        return False
    return any(
        all(other == fold(other) for other in known) and name != fold(name)
        for fold in (str.upper, str.lower)
    )


def _is_copy(default: Default, statement: Statement, text: str | None, dropped: bool) -> bool:
    """Whether a default is of this statement, which has been delivered more than once."""
    if sequence_of(statement.order):
        return same_id(default.order, statement.order)
    # Without a sequence id only what it says can tell.
    return default.text == text and not dropped


def same_id(one: str, other: str) -> bool:
    """Whether two orders are of one sequence id, wherever they came from."""
    return one.split("/")[:3] == other.split("/")[:3]
