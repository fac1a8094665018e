"""What a batch means for each table, decided before anything is written."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, SchemaChangeError
from waybill.full_load import TOPIC
from waybill.mapping.sql import UnreadableStatement
from waybill.merge.alterations import (
    Meaning,
    alter,
    altered_table,
    check_renamed,
    read_statement,
    with_present_names,
)
from waybill.merge.column_changes import TakenChanges, extend
from waybill.merge.increment_counts import TableSurvey
from waybill.merge.notations import check_notations, differ
from waybill.merge.rebuilt_columns import ask_again
from waybill.merge.renaming_columns import check_names, note_added, rise, take_renaming
from waybill.merge.renamings import above, instead, present_key, renaming_error
from waybill.merge.state import (
    MergeState,
    TableState,
    by_position,
    only_one,
    place_in,
)
from waybill.merge.table_plans import TablePlan
from waybill.order import sequence_of
from waybill.spec.decisions import MAP, NOTHING_DECIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from waybill.merge.increment_counts import Survey
    from waybill.merge.names_in_log import NamesInLog
    from waybill.merge.statements import Statement
    from waybill.records import TableSchema
    from waybill.spec.decisions import Decisions
    from waybill.tables import TableRule, TableRules


@dataclass
class MergePlan:
    """The batch.

    Attributes:
        state: the merge's memory after it.
        decisions: what the migration has decided about changes of columns.
        tables: what it brings, by qualified name.
        warnings: what a person should know.
        unordered: whether any of its changes or statements has no sequence id.
        rebuilt: what was known of the tables that it rebuilds.
    """

    state: MergeState
    decisions: Decisions = NOTHING_DECIDED
    tables: dict[str, TablePlan] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unordered: bool = False
    rebuilt: dict[str, TableState] = field(default_factory=dict)


def make_plan(
    survey: Survey,
    schemas: dict[str, TableSchema],
    truncates: list[Statement],
    ddl: list[Statement],
    before: MergeState,
    rules: TableRules,
    used_above: Callable[[str, str], set[str]],
    decisions: Decisions = NOTHING_DECIDED,
    batch: str = "",
    takes: Callable[[str], bool] = bool,
    log: NamesInLog | None = None,
    rebuilt: Collection[str] = (),
    elsewhere: Sequence[Statement] = (),
    rebuilt_keys: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> MergePlan:
    """Decide what the batch means for each table.

    Args:
        survey: the batch in numbers.
        schemas: the schemas of its changes, by id.
        truncates: its TRUNCATEs, oldest first.
        ddl: its statements, oldest first.
        before: what was known of the tables.
        rules: what the migration declares.
        used_above: the schemas of a table's rows above an order.
        decisions: what the migration has decided about changes of columns.
        batch: id of the batch.
        takes: whether it is about a table, by its qualified name; nothing is said of the others.
        log: asks the log, for tables with columns whose new names are mapped.
        rebuilt: tables that the batch rebuilds, as a reload brings all of their changes.
        elsewhere: statements of earlier batches, for these tables alone: what messages say of them
            that name another table, or none.
        rebuilt_keys: keys of other tables that it rebuilds, as a reload brings all their changes.

    Raises:
        ConfigurationError: the key of a table is not known and the migration declares none.
        SchemaChangeError: a table changed in a way that a person has to decide about, or two tables
            have one name.
    """
    plan = MergePlan(MergeState.from_json(before.to_json()), decisions)
    before = _begin_rebuild(plan, before, list(filter(takes, rebuilt)))
    for name in filter(takes, survey.tables):
        # A plan may be made once more, without some tables, and counts statements in the survey.
        _plan_table(plan, name, deepcopy(survey.tables[name]), before)
    for statement in truncates:
        if takes(statement.qualified):
            _truncate(plan, statement, before)
    read = _read(plan, sorted([*ddl, *elsewhere], key=lambda statement: statement.order))
    concerns = partial(_concerns, plan, takes)
    for meaning in read:
        for name in filter(partial(concerns, meaning), meaning.emptied):
            _empty(plan, meaning.statement, name, before)
    _rename_columns(plan, read, survey, schemas, before, concerns, log)
    for name, table in plan.tables.items():
        with _about(name):
            used = _schemas_used(name, table, schemas, used_above, log, rules)
            _describe(name, table, used, rules)
            check_names(table, log)
    for state in plan.state.tables.values():
        _forget_void(state)
    # The columns of the batch are known by now, so it does not matter where batches were cut.
    _alter_tables(plan, read, rules, before, concerns)
    for name in filter(takes, rebuilt_keys):
        _begin_key_rebuild(plan, name, rebuilt_keys[name], before)
    for table in plan.tables.values():
        table.keep_changes(batch)
    places = any(table.survey.places for table in plan.tables.values())
    plan.unordered = places or any(statement.unordered for statement in ddl)
    return plan


def _begin_rebuild(plan: MergePlan, before: MergeState, names: list[str]) -> MergeState:
    """Forget what was known of tables that a reload rebuilds; returns what was known of all."""
    plan.rebuilt = {name: before.tables[name] for name in names if name in before.tables}
    if plan.rebuilt:
        before = MergeState.from_json(before.to_json())
    for name in plan.rebuilt:
        before.tables[name], plan.state.tables[name] = TableState(), TableState()
        _plan_table(plan, name, TableSurvey(), before)
    return before


def _begin_key_rebuild(
    plan: MergePlan, name: str, keys: frozenset[str], before: MergeState
) -> None:
    """Rows of some keys are made of what the batch brings, and of nothing else."""
    if name in plan.rebuilt or name not in before.tables:
        return
    table = _table(plan, name, before)
    # No reload takes keys of a table with renamed columns, so all of these came after it.
    renamed = table.state.renamed
    table.keys = frozenset(present_key(key, renamed) for key in keys) if renamed else keys


def _concerns(plan: MergePlan, takes: Callable[[str], bool], meaning: Meaning, name: str) -> bool:
    """Whether a statement is looked at for a table."""
    return takes(name) and (not meaning.statement.elsewhere or name in plan.rebuilt)


def _rename_columns(
    plan: MergePlan,
    read: list[Meaning],
    survey: Survey,
    schemas: dict[str, TableSchema],
    before: MergeState,
    concerns: Callable[[Meaning, str], bool],
    log: NamesInLog | None,
) -> None:
    """Statements gave columns names that are mapped."""
    added = []
    for meaning in read:
        name = altered_table(meaning)
        if name is None or meaning.alteration is None or not concerns(meaning, name):
            continue
        if meaning.alteration.added:
            added.append((name, meaning))
        if not meaning.alteration.renamed:
            continue
        with _about(name):
            if meaning.statement.again:
                # One that was taken keeps its place, whatever the migration decides by now.
                if name in plan.state.tables and plan.state.table(name).renamed:
                    rise(_table(plan, name, before).state, meaning.statement)
            elif log is not None and plan.decisions.find(name).rename == MAP:
                _rename(plan, name, meaning, survey, schemas, before, log)
    for name, meaning in added:
        if name in plan.state.tables:
            note_added(plan.state.table(name), meaning)


def _rename(
    plan: MergePlan,
    name: str,
    meaning: Meaning,
    survey: Survey,
    schemas: dict[str, TableSchema],
    before: MergeState,
    log: NamesInLog,
) -> None:
    if plan.decisions.joins(name):
        raise renaming_error(
            f"a column of one of the tables that become {name} (map.join) was renamed, and their "
            "changes have no order among each other",
            instead(name),
        )
    table = _table(plan, name, before)
    own = [schemas[id_] for id_ in table.survey.schema_ids if id_ in schemas]
    topics = {*table.state.topics, *table.survey.topics}
    reached = {(topic, p) for topic, found in plan.state.reached.items() for p in found}
    partitions = {place for place in {*reached, *survey.reached} if place[0] in topics}
    take_renaming(table, meaning, own, log, partitions)


def _alter_tables(
    plan: MergePlan,
    read: list[Meaning],
    rules: TableRules,
    before: MergeState,
    concerns: Callable[[Meaning, str], bool],
) -> None:
    """Statements changed the columns or the names of tables."""
    for meaning in read:
        if not meaning.statement.again and not meaning.statement.elsewhere:
            _warn_renamed(plan, meaning)
        name = altered_table(meaning)
        if name is not None and concerns(meaning, name):
            with _about(name):
                _alter(plan, meaning, name, rules, before)
            if name in plan.tables:
                plan.tables[name].statements.append(meaning.statement.text or "")


def _table(plan: MergePlan, name: str, before: MergeState) -> TablePlan:
    """The plan of a table that only statements of the batch may concern."""
    if name not in plan.tables:
        _plan_table(plan, name, TableSurvey(), before)
    return plan.tables[name]


def _plan_table(plan: MergePlan, name: str, survey: TableSurvey, before: MergeState) -> None:
    state = plan.state.table(name)
    taken, was = TakenChanges(name, plan.decisions.find(name), state.stated), plan.rebuilt.get(name)
    plan.tables[name] = TablePlan(survey, before.table(name), state, taken=taken, was=was)


def _keep_place(plan: MergePlan, statement: Statement) -> None:
    """Remember where a statement stands that changes in front of it give its number."""
    if statement.unordered or statement.behind:
        plan.state.add_unnumbered(statement.topic, statement.partition, statement.offset)


def _truncate(plan: MergePlan, statement: Statement, before: MergeState) -> None:
    table = _table(plan, statement.qualified, before)
    table.count_unordered(statement)
    _keep_place(plan, statement)
    if statement.again:
        _rise(plan, table, statement)
    else:
        table.truncates.append(statement.order)
    if statement.topic.startswith(TOPIC):
        table.reloads.append(statement.order)
    table.state.truncated = max(table.state.truncated, statement.order)


def _rise(plan: MergePlan, table: TablePlan, statement: Statement) -> None:
    """A TRUNCATE or DROP of before takes more rows away."""
    table.risen.append(statement.order)
    if statement.order > table.state.truncated:
        place = f"{statement.topic}/{statement.partition}/{statement.offset}"
        plan.warnings.append(
            f"changes of {statement.qualified} came late that belong before the TRUNCATE or DROP "
            f"{place}, which has no sequence id: it deletes all rows with ids up to theirs"
        )


def _schemas_used(
    name: str,
    table: TablePlan,
    schemas: dict[str, TableSchema],
    used_above: Callable[[str, str], set[str]],
    log: NamesInLog | None,
    rules: TableRules,
) -> list[TableSchema]:
    """The schemas that say what the table is, with the names of now."""
    state, ids, higher = table.state, table.survey.schema_ids, ""
    if state.truncated > table.before.highest:
        # Nothing is left of what was written before.
        state.written = {}
    if table.dropped:
        # The table that came after is another one, and may have another key.
        state.key = None
        higher = table.dropped
    elif table.survey.lowest < state.truncated:
        found = [schemas[i] for i in ids if i in schemas]
        keys = {schema.key or () for schema in found}
        rule = _rule(name, found, rules)
        if (state.key is not None and keys - {state.key}) or differ(
            state.written, found, rule.columns, _is_bag(rule, found)
        ):
            # What the table was before it was emptied may come late.
            higher = state.truncated
    renamed = above(state.renamed, table.survey.lowest) if table.survey.rows else ()
    if log is not None and renamed:
        return log.present_schemas(name, schemas, higher, renamed)
    if higher:
        ids = used_above(name, higher)
    return [schemas[i] for i in sorted(ids) if i in schemas]


def _forget_void(state: TableState) -> None:
    """Forget what statements said about rows that a newer TRUNCATE or DROP took away."""
    state.defaults = tuple(d for d in state.defaults if d.order > state.truncated)
    state.dropped = {n: order for n, order in state.dropped.items() if order > state.truncated}
    below = state.dropped_below.items()
    state.dropped_below = {n: order for n, order in below if order > state.truncated}


def _describe(name: str, table: TablePlan, schemas: list[TableSchema], rules: TableRules) -> None:
    state, survey = table.state, table.survey
    if survey.places and by_position(table.before.truncated):
        # What is new has to be ordered against it, perhaps from another partition.
        survey.unordered_truncates += 1
    state.places = tuple(sorted({*state.places, *survey.places}))
    state.topics = tuple(sorted({*state.topics, *survey.topics}))
    if not survey.rows:
        return
    state.identity = only_one(name, state.identity, survey.identities)
    if not schemas and survey.lowest < state.truncated and survey.schema_ids:
        # All of them are of a table that was dropped since.
        table.bag = state.key == ()
        return
    rule = _rule(name, schemas, rules)
    if _is_bag(rule, schemas):
        table.bag = True
    elif survey.keyed < survey.rows:
        keyless = survey.rows - survey.keyed
        changes = counted(keyless, f"change of {name} has", f"changes of {name} have")
        message = (
            f"{changes} no key: declare the key columns under tables: {{{name}: {{key: [...]}}}}, "
            "or `key: []` if the table has none"
        )
        raise ConfigurationError(message, code=Code.KEY_MISSING)
    for schema in schemas:
        key = tuple(schema.key or ())
        if state.key is not None and key != state.key:
            was = ", ".join(state.key)
            message = (
                f"the key of {name} was ({was}) and is now ({', '.join(key)}), and earlier changes "
                f"keep theirs: declare `key: [{was}]` for {name} under tables and load it in "
                "full again, or continue under a new migration name"
            )
            raise SchemaChangeError(message, code=Code.KEY_CHANGED)
        state.key = key
    check_notations(name, state, schemas, rule.columns, table.bag)
    if table.bag:
        # States of before this was remembered have those that are gone still.
        state.dropped_below = {**state.dropped, **state.dropped_below}
    in_lake = len(table.before.columns)
    names = {} if table.was is None else {c.name: c.lake for c in table.was.columns}
    state.columns = extend(state.columns, schemas, rule.columns, name, in_lake, table.taken, names)
    ask_again(name, table.was, state, schemas, rule.columns, table.taken.decision)
    if in_lake:
        state.came_up.update(dict.fromkeys(state.names[in_lake:], table.before.highest))
    state.highest = max(state.highest, survey.highest)


def _rule(name: str, schemas: Sequence[TableSchema], rules: TableRules) -> TableRule:
    """What the migration declares of a table."""
    if schemas and schemas[0].table:
        return rules.find(schemas[0].database, schemas[0].schema, schemas[0].table)
    return rules.find(None, None, name)


def _is_bag(rule: TableRule, schemas: Sequence[TableSchema]) -> bool:
    """Whether a table has no key."""
    return rule.key == () or (bool(schemas) and all(schema.key == () for schema in schemas))


def _read(plan: MergePlan, statements: list[Statement]) -> list[Meaning]:
    """What statements say; the report tells which could not be read."""
    found = []
    for statement in statements:
        try:
            found.append(read_statement(statement))
        except UnreadableStatement:
            if statement.again or statement.elsewhere:
                continue
            shown = " ".join((statement.text or "").split())[:100]
            plan.warnings.append(
                f"a statement about {statement.qualified} could not be read, so what it did to "
                f"existing rows (defaults of new columns, rows that are gone) is unknown: {shown}"
            )
    return found


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Say which table a person has to decide about."""
    try:
        yield
    except SchemaChangeError as error:
        if error.code != Code.TABLE_NAMES:
            error.table = name
        raise


def _warn_renamed(plan: MergePlan, meaning: Meaning) -> None:
    """Warn of tables with new names, if the lake has one of them."""
    there = plan.state.tables
    if any(name in there and there[name].columns for name in meaning.names):
        plan.warnings += meaning.warnings


def _alter(
    plan: MergePlan, meaning: Meaning, name: str, rules: TableRules, before: MergeState
) -> None:
    """A statement changed the columns of a table.

    Raises:
        SchemaChangeError: a person has to decide about the change.
    """
    statement, alteration = meaning.statement, meaning.alteration
    assert alteration is not None
    _keep_place(plan, statement)
    state = plan.state.table(name)
    there = plan.tables.get(name)
    taken = there.taken if there else TakenChanges(name, plan.decisions.find(name), state.stated)
    if statement.again:
        place = place_in(statement.order)
        state.defaults = tuple(d for d in state.defaults if place_in(d.order) != place)
    elif taken.decision.rename != MAP:
        check_renamed(state, alteration, rules.find(None, None, name).columns, taken)
    alteration = with_present_names(alteration, above(state.renamed, statement.order))
    if statement.order < state.truncated:
        # Every row that it concerned is gone.
        return
    added, warnings = alter(state, statement, alteration, taken)
    recounts = state.key == () and state.dropped_below != before.table(name).dropped_below
    if there is None and (taken.changes or recounts):
        _table(plan, name, before).taken = taken
    plan.warnings += [] if statement.again else warnings
    if added:
        state.defaults = tuple(sorted((*state.defaults, *added), key=lambda d: d.order))
        # Rows above it may lack the column: its default shows through their images.
        state.open_rows = state.open_rows or before.table(name).highest > statement.order
        _table(plan, name, before).defaults += added


def _empty(plan: MergePlan, statement: Statement, name: str, before: MergeState) -> None:
    """A statement took the rows of a table away."""
    table = _table(plan, name, before)
    state = table.state
    table.count_unordered(statement)
    _keep_place(plan, statement)
    order = statement.order
    if sequence_of(order) and not statement.behind:
        # A snapshot says DROP and then reads rows, all at one position of the source; the position
        # in a topic cannot tell them apart, because statements have a topic of their own.
        order = "/".join([*order.split("/")[:2], ""])
    if statement.again:
        _rise(plan, table, statement)
    else:
        table.dropped = max(table.dropped, order)
    state.truncated = max(state.truncated, order)
