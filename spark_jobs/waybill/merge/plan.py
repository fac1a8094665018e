"""What a batch means for each table, decided before anything is written."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, SchemaChangeError
from waybill.full_load import TOPIC
from waybill.merge.alterations import Meaning, alter, check_renamed, named, read_statement
from waybill.merge.column_changes import Taken, extend, of_batch
from waybill.merge.ddl import UnreadableStatement
from waybill.merge.increment_counts import TableSurvey
from waybill.merge.state import Default, MergeState, TableState, by_position, place_in
from waybill.order import sequence_of
from waybill.schema_changes import NOTHING_DECIDED, RETYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from waybill.merge.columns import Column
    from waybill.merge.increment_counts import Survey
    from waybill.merge.statements import Statement
    from waybill.records import TableSchema
    from waybill.schema_changes import Decisions
    from waybill.tables import TableRules


class Reload(NamedTuple):
    """A full reload, as what it does to the rows that are there.

    Attributes:
        order: the place of its TRUNCATE; rows below it are replaced.
        above: order of a statement of the same batch that emptied the table before, if any did.
    """

    order: str
    above: str


@dataclass
class TablePlan:
    """What the batch brings for one table.

    Attributes:
        survey: its changes in numbers.
        before: what was known of the table.
        state: what is known with this batch.
        truncates: orders of the batch's TRUNCATEs.
        reloads: those that full reloads begin with.
        risen: orders of TRUNCATEs and DROPs of before that stand higher with this batch.
        dropped: order of the newest statement of the batch that dropped the table, if any did.
        defaults: columns that the batch's statements added with a default.
        bag: whether the table has no key, so that its rows are counted (`waybill.merge.bags`).
        taken: what is decided about changes of its columns, and those that the batch brings.
        statements: texts of those that altered it, oldest first.
    """

    survey: TableSurvey
    before: TableState
    state: TableState
    truncates: list[str] = field(default_factory=list)
    reloads: list[str] = field(default_factory=list)
    risen: list[str] = field(default_factory=list)
    dropped: str = ""
    defaults: list[Default] = field(default_factory=list)
    bag: bool = False
    taken: Taken = field(default_factory=partial(Taken, ""))
    statements: list[str] = field(default_factory=list)

    def count_unordered(self, statement: Statement) -> None:
        """Count a TRUNCATE or DROP among those without order, if it is one."""
        if statement.unordered:
            self.survey.unordered_truncates += 1
            self.survey.places.add((statement.topic, statement.partition))

    def keep_changes(self, batch: str) -> None:
        """Remember what the batch did to the columns, if anything."""
        if self.taken.changes:
            self.state.changes = of_batch(self.taken.changes, self.statements, batch)

    @property
    def retyped(self) -> set[str]:
        """The columns that the batch gives a type to which they cannot be promoted."""
        return {one.column for one in self.taken.changes if one.change == RETYPE}

    @property
    def truncated(self) -> bool:
        """Whether a TRUNCATE or DROP of the batch is newer than every one before."""
        return self.state.truncated > self.before.truncated

    @property
    def reload(self) -> Reload | None:
        """The full reload that decides what is there, None if something else does."""
        order = max(self.reloads, default="")
        if not self.truncated or self.state.truncated != order:
            return None
        others = [other for other in self.truncates if other not in self.reloads]
        return Reload(order, max([self.dropped, *self.risen, *others]))

    @property
    def counted_truncate(self) -> bool:
        """Whether it is a change of its own, not the text of another statement."""
        return self.truncated and self.state.truncated in self.truncates

    @property
    def to_fill(self) -> tuple[Column, ...]:
        """Columns that come into the lake after a statement gave rows a default for them."""
        with_default = {default.column for default in self.before.defaults}
        there = set(self.before.names)
        if not there:
            return ()
        return tuple(
            c for c in self.state.columns if c.name in with_default and c.name not in there
        )

    @property
    def late_columns(self) -> dict[str, str]:
        """Columns that the batch may bring to rows that lack them, as in `TableState.came_up`."""
        lowest = max(self.survey.lowest, self.state.truncated)
        if not self.survey.rows:
            return {}
        return {name: order for name, order in self.state.came_up.items() if lowest < order}

    @property
    def reached(self) -> str | None:
        """Lowest order of the batch's new statements: rows above it may have to be redone."""
        orders = [default.order for default in self.defaults]
        if self.truncated:
            orders.append(self.state.truncated)
        return min(orders, default=None)


@dataclass
class Plan:
    """The batch.

    Attributes:
        state: the merge's memory after it.
        decisions: what the migration has decided about changes of columns.
        tables: what it brings, by qualified name.
        warnings: what a person should know.
        unordered: whether any of its changes or statements has no sequence id.
    """

    state: MergeState
    decisions: Decisions = NOTHING_DECIDED
    tables: dict[str, TablePlan] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unordered: bool = False


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
) -> Plan:
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

    Raises:
        ConfigurationError: the key of a table cannot be told and the migration declares none.
        SchemaChangeError: a table changed in a way that a person has to decide about, or two tables
            have one name.
    """
    plan = Plan(MergeState.from_json(before.to_json()), decisions)
    for name in filter(takes, survey.tables):
        # A plan may be made once more, without some tables, and counts statements in the survey.
        _plan_table(plan, name, deepcopy(survey.tables[name]), before)
    for statement in truncates:
        if takes(statement.qualified):
            _truncate(plan, statement, before)
    read = _read(plan, ddl)
    for meaning in read:
        for name in filter(takes, meaning.emptied):
            _empty(plan, meaning.statement, name, before)
    for name, table in plan.tables.items():
        with _about(name):
            _describe(name, table, _schemas_used(name, table, schemas, used_above), rules)
    for state in plan.state.tables.values():
        _forget_void(state)
    # The columns of the batch are known by now, so it does not matter where batches were cut.
    _alter_tables(plan, read, rules, before, takes)
    for table in plan.tables.values():
        table.keep_changes(batch)
    places = any(table.survey.places for table in plan.tables.values())
    plan.unordered = places or any(statement.unordered for statement in ddl)
    return plan


def _alter_tables(
    plan: Plan,
    read: list[Meaning],
    rules: TableRules,
    before: MergeState,
    takes: Callable[[str], bool],
) -> None:
    """Statements changed the columns or the names of tables."""
    for meaning in read:
        if not meaning.statement.again:
            _warn_renamed(plan, meaning)
        name = _altered(meaning)
        if name is not None and takes(name):
            with _about(name):
                _alter(plan, meaning, name, rules, before)
            if name in plan.tables:
                plan.tables[name].statements.append(meaning.statement.text or "")


def _table(plan: Plan, name: str, before: MergeState) -> TablePlan:
    """The plan of a table that only statements of the batch may concern."""
    if name not in plan.tables:
        _plan_table(plan, name, TableSurvey(), before)
    return plan.tables[name]


def _plan_table(plan: Plan, name: str, survey: TableSurvey, before: MergeState) -> None:
    state = plan.state.table(name)
    taken = Taken(name, plan.decisions.find(name), state.stated)
    plan.tables[name] = TablePlan(survey, before.table(name), state, taken=taken)


def _keep_place(plan: Plan, statement: Statement) -> None:
    """Remember where a statement stands that changes in front of it give its number."""
    if statement.unordered or statement.behind:
        plan.state.add_unnumbered(statement.topic, statement.partition, statement.offset)


def _truncate(plan: Plan, statement: Statement, before: MergeState) -> None:
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


def _rise(plan: Plan, table: TablePlan, statement: Statement) -> None:
    """A TRUNCATE or DROP of before takes more rows away."""
    table.risen.append(statement.order)
    if statement.order > table.state.truncated:
        place = f"{statement.topic}/{statement.partition}/{statement.offset}"
        plan.warnings.append(
            f"changes of {statement.qualified} came late that belong before the TRUNCATE or DROP "
            f"{place}, which has no sequence id: it takes all rows away with ids up to theirs"
        )


def _schemas_used(
    name: str,
    table: TablePlan,
    schemas: dict[str, TableSchema],
    used_above: Callable[[str, str], set[str]],
) -> list[TableSchema]:
    """The schemas that say what the table is."""
    ids = table.survey.schema_ids
    if table.dropped:
        # The table that came after is another one, and may have another key.
        table.state.key = None
        ids = used_above(name, table.dropped)
    elif table.survey.lowest < table.state.truncated:
        keys = {schemas[i].key or () for i in ids if i in schemas}
        if table.state.key is not None and keys - {table.state.key}:
            # What the table was before it was dropped may come late.
            ids = used_above(name, table.state.truncated)
    return [schemas[i] for i in sorted(ids) if i in schemas]


def _forget_void(state: TableState) -> None:
    """Let go of what statements said about rows that a newer TRUNCATE or DROP took away."""
    state.defaults = tuple(d for d in state.defaults if d.order > state.truncated)
    state.dropped = {n: order for n, order in state.dropped.items() if order > state.truncated}


def _describe(name: str, table: TablePlan, schemas: list[TableSchema], rules: TableRules) -> None:
    state, survey = table.state, table.survey
    if survey.places and by_position(table.before.truncated):
        # What is new has to be ordered against it, perhaps from another partition.
        survey.unordered_truncates += 1
    state.places = tuple(sorted({*state.places, *survey.places}))
    state.topics = tuple(sorted({*state.topics, *survey.topics}))
    if not survey.rows:
        return
    state.identity = _only_one(name, state.identity, survey.identities)
    if not schemas and survey.lowest < state.truncated and survey.schema_ids:
        # All of them are of a table that was dropped since.
        table.bag = state.key == ()
        return
    rule = rules.find(None, None, name)
    if schemas and schemas[0].table:
        rule = rules.find(schemas[0].database, schemas[0].schema, schemas[0].table)
    if rule.key == () or (schemas and all(schema.key == () for schema in schemas)):
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
                f"the key of {name} was ({was}) and is now ({', '.join(key)}), and changes that "
                f"came keep theirs: declare `key: [{was}]` for {name} under tables and load it in "
                "full again, or continue under a new migration name"
            )
            raise SchemaChangeError(message, code=Code.KEY_CHANGED)
        state.key = key
    in_lake = len(table.before.columns)
    state.columns = extend(state.columns, schemas, rule.columns, name, in_lake, table.taken)
    if in_lake:
        state.came_up.update(dict.fromkeys(state.names[in_lake:], table.before.highest))
    state.highest = max(state.highest, survey.highest)


def _only_one(
    name: str, known: tuple[str, str, str] | None, found: set[tuple[str, str, str]]
) -> tuple[str, str, str] | None:
    """The one source table that a qualified name stands for.

    Raises:
        SchemaChangeError: it stands for several, whose rows would become one table's.
    """
    every = sorted({*found, *([] if known is None else [known])})
    if len(every) > 1:
        first, second = (
            " of ".join(repr(part) for part in reversed(parts) if part) for parts in every[:2]
        )
        message = (
            f"two tables of the source are both called {name}: {first}, and {second}; rename one "
            "of them at the source, or give each a topic and a migration of its own"
        )
        raise SchemaChangeError(message, code=Code.TABLE_NAMES)
    return every[0] if every else None


def _read(plan: Plan, statements: list[Statement]) -> list[Meaning]:
    """What statements say; the report tells which could not be read."""
    found = []
    for statement in statements:
        try:
            found.append(read_statement(statement))
        except UnreadableStatement:
            if statement.again:
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


def _altered(meaning: Meaning) -> str | None:
    """The table whose columns or name a statement changed, None if it changed none."""
    if meaning.alteration is None:
        return None
    return named(meaning.statement, meaning.alteration.table)


def _warn_renamed(plan: Plan, meaning: Meaning) -> None:
    """Warn of tables with new names, if the lake has one of them."""
    there = plan.state.tables
    if any(name in there and there[name].columns for name in meaning.names):
        plan.warnings += meaning.warnings


def _alter(plan: Plan, meaning: Meaning, name: str, rules: TableRules, before: MergeState) -> None:
    """A statement changed the columns of a table.

    Raises:
        SchemaChangeError: a person has to decide about the change.
    """
    statement, alteration = meaning.statement, meaning.alteration
    assert alteration is not None
    _keep_place(plan, statement)
    state = plan.state.table(name)
    there = plan.tables.get(name)
    taken = there.taken if there else Taken(name, plan.decisions.find(name), state.stated)
    if statement.again:
        place = place_in(statement.order)
        state.defaults = tuple(d for d in state.defaults if place_in(d.order) != place)
    else:
        check_renamed(state, alteration, rules.find(None, None, name).columns, taken)
    if statement.order < state.truncated:
        # Every row that it concerned is gone.
        return
    added, warnings = alter(state, statement, alteration, taken)
    if there is None and taken.changes:
        _table(plan, name, before).taken = taken
    plan.warnings += [] if statement.again else warnings
    if added:
        state.defaults = tuple(sorted((*state.defaults, *added), key=lambda d: d.order))
        # Rows above it may lack the column: its default shows through their images.
        state.open_rows = state.open_rows or before.table(name).highest > statement.order
        _table(plan, name, before).defaults += added


def _empty(plan: Plan, statement: Statement, name: str, before: MergeState) -> None:
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
