"""What a batch means for each table, decided before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waybill.errors import ConfigurationError, SchemaChangeError
from waybill.merge.columns import extend
from waybill.merge.ddl import UnreadableStatement, read_alteration
from waybill.merge.increment import TableSurvey
from waybill.merge.state import Default, MergeState, TableState

if TYPE_CHECKING:
    from waybill.merge.increment import Statement, Survey
    from waybill.records import TableSchema
    from waybill.tables import TableRules


@dataclass
class TablePlan:
    """What the batch brings for one table.

    Attributes:
        survey: its changes in numbers.
        before: what was known of the table.
        state: what is known with this batch.
        truncates: orders of the batch's TRUNCATEs.
        defaults: columns that the batch's statements added with a default.
        unkeyed: whether its changes are left out, because the migration says `key: []`.
    """

    survey: TableSurvey
    before: TableState
    state: TableState
    truncates: list[str] = field(default_factory=list)
    defaults: list[Default] = field(default_factory=list)
    unkeyed: bool = False

    @property
    def truncated(self) -> bool:
        """Whether a TRUNCATE of the batch is newer than every one before."""
        return self.state.truncated > self.before.truncated

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
        tables: what it brings, by qualified name.
        warnings: what a person should know.
    """

    state: MergeState
    tables: dict[str, TablePlan] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def make_plan(
    survey: Survey,
    schemas: dict[str, TableSchema],
    truncates: list[Statement],
    ddl: list[Statement],
    before: MergeState,
    rules: TableRules,
) -> Plan:
    """Decide what the batch means for each table.

    Raises:
        ConfigurationError: a table has no key and the migration declares none.
        SchemaChangeError: a table changed in a way that a person has to decide about.
    """
    plan = Plan(MergeState.from_json(before.to_json()))
    for name, found in survey.tables.items():
        plan.tables[name] = TablePlan(found, before.table(name), plan.state.table(name))
    for statement in truncates:
        table = plan.tables[statement.qualified]
        table.truncates.append(statement.order)
        table.state.truncated = max(table.state.truncated, statement.order)
    for statement in ddl:
        _read_ddl(plan, statement, rules, before)
    for name, table in plan.tables.items():
        used = [schemas[i] for i in sorted(table.survey.schema_ids) if i in schemas]
        _describe(name, table, used, rules)
    return plan


def _describe(name: str, table: TablePlan, schemas: list[TableSchema], rules: TableRules) -> None:
    state, survey = table.state, table.survey
    state.places = tuple(sorted({*state.places, *survey.places}))
    if not survey.rows:
        return
    rule = rules.find(None, None, name)
    if schemas and schemas[0].table:
        rule = rules.find(schemas[0].database, schemas[0].schema, schemas[0].table)
    if rule.key == ():
        table.unkeyed = True
        return
    if survey.keyed < survey.rows:
        message = (
            f"{survey.rows - survey.keyed} changes of {name} have no key: declare the key columns "
            f"under tables: {{{name}: {{key: [...]}}}}, or `key: []` to leave the table out of the "
            "merge (its changes stay in the log)"
        )
        raise ConfigurationError(message)
    for schema in schemas:
        key = tuple(schema.key or ())
        if state.key is not None and key != state.key:
            message = (
                f"the key of {name} was ({', '.join(state.key)}) and is now ({', '.join(key)}): "
                f"declare one key for all its changes under tables: {{{name}: {{key: [...]}}}}"
            )
            raise SchemaChangeError(message)
        state.key = key
    in_lake = len(table.before.columns)
    state.columns = extend(state.columns, schemas, rule.columns, name, in_lake)


def _read_ddl(plan: Plan, statement: Statement, rules: TableRules, before: MergeState) -> None:
    try:
        alteration = read_alteration(statement.text or "", statement.dialect)
    except UnreadableStatement:
        shown = " ".join((statement.text or "").split())[:100]
        plan.warnings.append(
            f"a statement about {statement.qualified} could not be read, so defaults of new "
            f"columns in it are unknown: {shown}"
        )
        return
    if alteration is None:
        return
    name = statement.qualified
    if not statement.has_table and alteration.table:
        name = ".".join(alteration.table)
        if len(alteration.table) == 1:
            name = f"{statement.qualified}.{name}"
    state = plan.state.table(name)
    rule = rules.find(None, None, name)
    for old, new in alteration.renamed:
        if new not in rule.columns and old in state.names:
            message = (
                f"column {old} of {name} was renamed to {new}: declare {new} under tables: "
                f"{{{name}: {{columns: ...}}}} to go on with {new} as a new column beside {old}"
            )
            raise SchemaChangeError(message)
    if alteration.unclear:
        plan.warnings.append(
            f"existing rows of {name} hold a value in the new column "
            f"{', '.join(alteration.unclear)} that the statement does not say: it stays null"
        )
    known = {default.column for default in state.defaults}
    added = [
        Default(statement.order, column, text)
        for column, text in alteration.defaults.items()
        if column not in known
    ]
    if added:
        state.defaults = (*state.defaults, *added)
        if name not in plan.tables:
            plan.tables[name] = TablePlan(TableSurvey(), before.table(name), state)
        plan.tables[name].defaults += added
