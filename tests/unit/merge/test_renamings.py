"""Names that columns had and have: what they are read as, and where that cannot be told."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from waybill.errors import SchemaChangeError
from waybill.lake.future_columns import GONE, left_behind, shown_names
from waybill.lake.metadata import Metadata, Snapshot
from waybill.merge.change_facts import changes_of
from waybill.merge.increment_counts import Survey, TableSurvey
from waybill.merge.names_in_log import NamesInLog
from waybill.merge.plan import make_plan
from waybill.merge.renamings import Renaming, above, is_unclear, present, present_schema
from waybill.merge.state import MergeState
from waybill.merge.statements import Statement
from waybill.merge.watermark import Reached
from waybill.order import order_key, placed_after
from waybill.overview.row_changes import key_test
from waybill.records import Column, TableSchema, intern_schema
from waybill.spec.decisions import MAP, NOTHING_DECIDED, ColumnDecision, Decisions
from waybill.tables import TableRules
from waybill.types import parse_type


def at(sequence: int) -> str:
    return order_key((sequence,), 1, 0, sequence, 0)


def renamed(*names: dict[str, str]) -> tuple[Renaming, ...]:
    return tuple(Renaming(at(10 * i), one) for i, one in enumerate(names, start=1))


TO_B, BACK = {"a": "b"}, {"b": "a"}
SWAP = {"a": "b", "b": "a"}


def test_a_change_has_the_names_of_its_place():
    every = renamed(TO_B, {"b": "c"})
    assert [present("a", above(every, at(n))) for n in (5, 15, 25)] == ["c", "a", "a"]
    assert [present("b", above(every, at(n))) for n in (5, 15, 25)] == ["c", "c", "b"]
    assert present("x", every) == "x"


@pytest.mark.parametrize(
    ("names", "every", "columns", "unclear"),
    [
        ("a", renamed(TO_B), "b", False),
        ("b", renamed(TO_B), "b", False),
        # The name was given to a new column: the row may have either.
        ("a", renamed(TO_B), "ab", True),
        ("ab", renamed(TO_B), "ab", False),
        ("ab", renamed(SWAP), "ab", True),
        ("a", renamed(TO_B, BACK), "a", False),
        ("b", renamed(TO_B, BACK), "a", False),
        ("n", renamed(SWAP), "abn", False),
    ],
)
def test_full_rows_that_may_have_been_read_before_or_after(names, every, columns, unclear):
    assert is_unclear(list(names), every, list(columns)) is unclear


def test_a_schema_with_the_names_of_now():
    columns = tuple(Column(name) for name in "an")
    schema = intern_schema("shop", None, "t", columns, ("a",), "mysql")
    now = present_schema(schema, renamed(TO_B))
    assert (now.names, now.key, now.qualified_name) == (("b", "n"), ("b",), "shop.t")
    assert present_schema(schema, renamed({"x": "y"})) is schema
    assert present_schema(schema, renamed({"a": "n"})) is None


@pytest.mark.parametrize(
    ("names", "becomes", "shown"),
    [
        ("kan", {"a": "b"}, {"k": "k", "b": "a", "n": "n"}),
        ("kab", {"a": "b", "b": "a"}, {"k": "k", "b": "a", "a": "b"}),
        # One takes the place of another, which goes.
        ("kanx", {"x": "a"}, {"k": "k", "a": "x", "n": "n"}),
        ("kabn", {"a": "b"}, {"k": "k", "b": "a", "n": "n"}),
        # A new column has the name that becomes free, and one goes that got another type too.
        ("kanx", {"a": "b", "x": "a"}, {"k": "k", "b": "a", "n": "n", "a": "x"}),
        ("kanx", {"a": GONE, "x": "b"}, {"k": "k", "n": "n", "b": "x"}),
        ("kan", {}, {"k": "k", "a": "a", "n": "n"}),
    ],
)
def test_the_columns_of_a_branch_once_it_is_visible(names, becomes, shown):
    """`shown` has the names of before by the new ones."""
    found = shown_names(list(names), becomes)
    assert list(found.items()) == [(old, new) for new, old in shown.items()]
    assert left_behind(list(names), becomes) == set(names) - set(shown.values())


def test_a_row_is_found_by_the_name_that_its_key_has_now():
    every = renamed({"id": "no"}, {"no": "number"})
    accepts = key_test('{"number": 7}', every)
    for name in ("id", "no", "number"):
        assert accepts({"key": f'{{"{name}":"7"}}', "old_key": None})
    assert not accepts({"key": '{"id":"8"}', "old_key": None})
    assert not key_test('{"id": 7}', every)({"key": '{"number":"7"}', "old_key": None})
    # Where names were swapped only the place of a change tells which key it is of.
    accepts = key_test('{"a":"1","b":"2"}', renamed(SWAP))
    found = [
        (values, at(n))
        for values in ('{"a":"1","b":"2"}', '{"a":"2","b":"1"}')
        for n in (5, 15)
        if accepts({"key": values, "old_key": None, "order_key": at(n)})
    ]
    assert found == [('{"a":"1","b":"2"}', at(15)), ('{"a":"2","b":"1"}', at(5))]
    full = order_key(None, 1, 0, 1, 0, full_row=True)
    assert accepts({"key": None, "old_key": '{"a":"2","b":"1"}', "order_key": full})
    place = {"topic": "t", "partition": 0, "offset": 0, "index": 0, "operation": "update"}
    told = {"key": '{"id":"7"}', "old_key": None, "after": '{"id":"7","n":"1"}'}
    rows = [{**place, **told, "order_key": at(5)}]
    (change,) = changes_of(rows, every).values()
    assert (change.key, change.image) == ('{"number":"7"}', {"number": "7", "n": "1"})


# What a batch's statements mean, with a log that is asked.


class Row(NamedTuple):
    """A change of a row of shop.t; `alone` if it has no sequence id."""

    order: str
    table: TableSchema
    place: tuple[str, int]
    alone: bool = False


class Log:
    """Answers for the log, from the changes of the batch and of the ones before."""

    after = 7

    def __init__(self, now: list[Row], earlier: list[Row], full: list[TableSchema]) -> None:
        self.now, self.earlier, self.full = now, earlier, full

    def merged(self, _name, order, above):
        return [row.table for row in self.earlier if (row.order > order) is above]

    def present_schemas(self, _name, _schemas, higher, every):
        rows = [row for row in self.now if row.order > higher]
        found = [present_schema(row.table, above(every, row.order)) for row in rows]
        assert None not in found
        return found

    def full_rows_outside(self, _name, _every):
        return self.full


MAPPED = Decisions(((("*",), ColumnDecision(rename=MAP)),))
BESIDE = Decisions(((("*",), ColumnDecision(rename="beside")),))


def table(names: str) -> TableSchema:
    columns = tuple(Column(name, parse_type("string")) for name in names)
    return intern_schema("shop", None, "t", columns, (names[0],), "mysql")


def row(sequence: int, names: str, partition: int = 0) -> Row:
    return Row(order_key((sequence,), 1, partition, sequence, 0), table(names), ("t", partition))


def placed_row(partition: int, offset: int, names: str) -> Row:
    order = order_key(None, 1, partition, offset, 0)
    return Row(order, table(names), ("t", partition), alone=True)


def statement(order: str, text: str, offset: int, partition: int = 0, **more) -> Statement:
    text = f"ALTER TABLE t {text}"
    more = {"unordered": False, **more}
    return Statement("shop.t", True, order, text, "mysql", "t", partition, offset, **more)


def numbered(sequence: int, text: str) -> Statement:
    return statement(at(sequence), text, sequence)


def behind(sequence: int, offset: int, text: str, **more) -> Statement:
    own = order_key(None, 1, 0, offset, 0)
    return statement(placed_after(own, at(sequence)), text, offset, behind=True, **more)


def positioned(partition: int, offset: int, text: str) -> Statement:
    order = order_key(None, 1, partition, offset, 0)
    return statement(order, text, offset, partition, unordered=True)


class Table:
    """shop.t, batch after batch; one that has to wait leaves it as it was."""

    def __init__(self, decisions: Decisions = MAPPED) -> None:
        self.decisions = decisions
        self.state = MergeState()
        self.came: list[Row] = []
        self.full: list[TableSchema] = []

    def take(self, *batch: Row | Statement, decisions: Decisions | None = None) -> None:
        rows = [entry for entry in batch if isinstance(entry, Row)]
        ddl = [entry for entry in batch if isinstance(entry, Statement)]
        tables = {}
        if rows:
            orders = [entry.order for entry in rows]
            tables["shop.t"] = TableSurvey(
                rows=len(rows),
                keyed=len(rows),
                schema_ids={entry.table.id for entry in rows},
                places={entry.place for entry in rows if entry.alone},
                topics={"t"},
                identities={("shop", "", "t")},
                lowest=min(orders),
                highest=max(orders),
            )
        reached = {entry.place: Reached(entry.order, 1) for entry in rows}
        plan = make_plan(
            Survey(len(batch), tables, Counter(ddl=len(ddl)), reached),
            {entry.table.id: entry.table for entry in rows},
            [],
            sorted(ddl, key=lambda entry: entry.order),
            self.state,
            TableRules({}),
            lambda _, order: {entry.table.id for entry in rows if entry.order > order},
            decisions or self.decisions,
            log=Log(rows, self.came, self.full),
        )
        plan.state.reach(reached)
        self.state = plan.state
        self.came += rows

    def waits(self, *batch: Row | Statement, match: str) -> None:
        with pytest.raises(SchemaChangeError, match=match) as told:
            self.take(*batch)
        assert told.value.table == "shop.t"

    @property
    def names(self) -> str:
        return "".join(self.state.table("shop.t").names)

    @property
    def renamed(self) -> list[dict[str, str]]:
        return [one.names for one in self.state.table("shop.t").renamed]


A_TO_B, SWAPPED = "RENAME COLUMN a TO b", "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
COMES_AGAIN = "no statement in the stream has added it again"
DELIVERED_AGAIN = "may be an earlier one that is delivered again"


def test_changes_of_two_partitions_without_ids_have_no_place_against_a_statement():
    found = Table()
    found.take(placed_row(0, 1, "ka"), placed_row(1, 1, "ka"))
    found.waits(positioned(0, 5, A_TO_B), match=r"are in several \(t/0, t/1\)")
    found = Table()
    found.waits(
        placed_row(0, 1, "ka"),
        placed_row(1, 9, "ka"),
        positioned(0, 5, A_TO_B),
        match="has a place in its own partition only",
    )
    found = Table()
    found.take(placed_row(0, 1, "ka"), positioned(0, 5, A_TO_B), placed_row(0, 6, "kb"))
    assert (found.names, found.renamed) == ("kb", [TO_B])
    found.waits(placed_row(1, 1, "ka"), match=r"several partitions \(t/0, t/1\).* a to b")
    # The statement's own partition counts, too.
    found = Table()
    found.take(positioned(0, 5, A_TO_B))
    found.waits(placed_row(1, 1, "ka"), match=r"several partitions \(t/0, t/1\)")


def test_changes_above_a_statement_that_have_the_old_name_wait():
    found = Table()
    found.take(row(5, "ka"))
    found.take(behind(5, 6, A_TO_B))
    # From another partition, where it may be of before.
    found.waits(row(10, "ka", 1), match=COMES_AGAIN)
    assert found.names == "kb"
    found.take(row(4, "ka", 1), row(11, "kb"))
    assert found.names == "kb"
    found.take(row(10, "ka", 1), decisions=BESIDE)
    assert found.names == "kba"
    found.take(row(12, "kab"))
    first = Table()
    first.waits(row(5, "ka"), behind(5, 6, A_TO_B), row(10, "ka", 1), match=COMES_AGAIN)


@pytest.mark.parametrize("default", ["", " DEFAULT 'd'"])
def test_an_old_name_that_a_statement_gave_to_a_new_column(default):
    add = f"ADD a VARCHAR(9){default}"
    for batches in (
        [[numbered(6, A_TO_B), numbered(8, add), row(9, "kab")]],
        [[numbered(6, A_TO_B), numbered(8, add)], [row(9, "kab")]],
        [[numbered(6, A_TO_B)], [numbered(8, add.replace("a", "A", 1))], [row(9, "kab")]],
        [[numbered(6, f"{A_TO_B}, {add}"), row(9, "kab")]],
    ):
        found = Table()
        found.take(row(1, "ka"))
        for batch in batches:
            found.take(*batch)
        assert found.names == "kba"
    # It is renamed once more: the statement of before adds nothing above that.
    found.take(numbered(12, "RENAME COLUMN a TO c"))
    assert found.names == "kbc"
    found.waits(row(13, "ka"), match=COMES_AGAIN)


def test_a_table_that_was_made_again_has_any_columns():
    found = Table()
    found.take(row(1, "ka"), numbered(6, A_TO_B))
    dropped = numbered(8, "")._replace(text="DROP TABLE t")
    found.take(dropped, row(9, "ka"))
    assert found.names == "kba"


def test_names_of_joined_tables_are_not_mapped():
    found = Table(MAPPED._replace(joined=("shop.*",)))
    found.take(row(1, "ka"))
    found.waits(numbered(6, A_TO_B), match=r"tables that become shop\.t \(map\.join\)")
    found.take(numbered(6, A_TO_B), decisions=BESIDE._replace(joined=("shop.*",)))


def test_a_statement_that_is_delivered_again_renames_once():
    found = Table()
    found.take(row(1, "ka"), numbered(6, A_TO_B))
    found.take(numbered(6, A_TO_B), row(7, "kb"))
    found.take(numbered(6, "RENAME COLUMN A TO B"))
    assert (found.names, found.renamed) == ("kb", [TO_B])
    found = Table()
    found.take(row(5, "ka"), behind(5, 6, A_TO_B))
    # At its place, and at another one behind newer changes.
    found.take(row(8, "kb"), behind(5, 6, A_TO_B), behind(8, 9, A_TO_B))
    found.take(behind(8, 10, "RENAME COLUMN A TO b"))
    assert (found.names, found.renamed) == ("kb", [TO_B])
    found = Table()
    found.take(placed_row(0, 1, "ka"), positioned(0, 5, A_TO_B))
    found.take(positioned(0, 5, A_TO_B), positioned(0, 6, A_TO_B))
    assert (found.names, found.renamed) == ("kb", [TO_B])


@pytest.mark.parametrize("make", [behind, lambda _, offset, text: positioned(0, offset, text)])
def test_a_swap_without_an_id_may_be_a_copy(make):
    first = row(5, "kab") if make is behind else placed_row(0, 5, "kab")
    found = Table()
    found.take(first, make(5, 6, SWAPPED))
    found.take(make(5, 6, SWAPPED))
    assert found.renamed == [SWAP]
    found.waits(make(5, 7, SWAPPED), match=DELIVERED_AGAIN)
    found.waits(make(5, 7, "RENAME COLUMN a TO b, RENAME COLUMN b TO c"), match=DELIVERED_AGAIN)
    at_once = Table()
    at_once.waits(first, make(5, 6, SWAPPED), make(5, 7, SWAPPED), match=DELIVERED_AGAIN)
    # In three steps: what comes again is no last statement about these names.
    steps = [f"RENAME COLUMN {o} TO {n}" for o, n in ("at", "ba", "tb")]
    found = Table()
    found.take(first, *(make(5, 6 + i, text) for i, text in enumerate(steps)))
    assert len(found.renamed) == 3
    found.waits(make(5, 20, steps[0]), match=DELIVERED_AGAIN)
    # With ids swaps are told apart.
    found = Table()
    found.take(row(5, "kab"), numbered(6, SWAPPED), numbered(7, SWAPPED))
    found.take(numbered(7, SWAPPED))
    assert found.renamed == [SWAP, SWAP]


def test_a_swap_without_an_id_has_no_place_in_another_partition():
    found = Table()
    found.take(row(5, "kab"), row(9, "kab", 1))
    found.waits(behind(5, 6, SWAPPED), match=r"are in several \(t/0, t/1\)")
    # Names that differ from those of before show what a change means.
    found.take(behind(5, 6, "RENAME COLUMN n TO m"))


def test_a_renaming_rises_whatever_is_decided_by_now():
    for decisions in (MAPPED, BESIDE, NOTHING_DECIDED):
        found = Table()
        found.take(row(5, "ka"), behind(5, 20, A_TO_B))
        found.take(row(9, "ka"), behind(9, 20, A_TO_B, again=True), decisions=decisions)
        assert found.names == "kb"
        (one,) = found.state.table("shop.t").renamed
        assert one.order == behind(9, 20, A_TO_B).order
    # A statement at the same place of another topic is another one.
    found = Table()
    found.take(row(5, "ka"), behind(5, 20, A_TO_B)._replace(topic="u"))
    with pytest.raises(SchemaChangeError, match=COMES_AGAIN):
        found.take(row(9, "ka"), behind(9, 20, A_TO_B, again=True))


def test_names_that_the_text_of_a_row_cannot_show():
    found = Table()
    found.take(row(1, "k,a"))
    found.waits(numbered(6, "RENAME COLUMN `,` TO b"), match="a comma or a colon")
    found.waits(numbered(6, "RENAME COLUMN a TO `:`"), match="a comma or a colon")


def test_full_rows_are_asked_for_where_names_may_be_unclear():
    found = Table()
    found.take(row(1, "ka"), numbered(6, A_TO_B))
    found.full = [table("ka")]
    found.waits(numbered(8, "ADD a INT"), row(9, "kab"), match=r"full rows of shop\.t")
    found.full = []
    found.take(numbered(8, "ADD a INT"), row(9, "kab"))
    found.full = [table("ka")]
    # They were clear, and another new column does not change that.
    found.take(row(10, "kabn"))


# Which part of the log is asked about full rows.


def metadata(*ids: int) -> SimpleNamespace:
    every = {id_: Snapshot(id_, parent, 0, {}, "") for parent, id_ in pairwise([None, *ids])}
    return SimpleNamespace(ancestors=partial(Metadata.ancestors, SimpleNamespace(snapshots=every)))


@pytest.mark.parametrize(
    ("afters", "names", "since"),
    [
        ((3, 4), (TO_B, {"x": "y"}), 3),
        # A statement with a lower order came later.
        ((4, 3), (TO_B, {"x": "y"}), 3),
        ((None, 4), (TO_B, {"x": "y"}), None),
        # Upkeep has expired it.
        ((1, 4), (TO_B, {"x": "y"}), None),
        # Rows of before look like those of after.
        ((4,), (SWAP,), None),
        ((3, 4, 4), ({"a": "t"}, {"b": "a"}, {"t": "b"}), None),
        ((3, 4), (TO_B, BACK), 3),
    ],
)
def test_the_part_of_the_log_with_full_rows_that_may_be_newer(afters, names, since):
    lake = SimpleNamespace(log=lambda name: name, metadata=lambda _: metadata(2, 3, 4, 5))
    every = tuple(
        Renaming(at(i), one, ("t", 0, i), after)
        for i, (one, after) in enumerate(zip(names, afters, strict=True))
    )
    log = NamesInLog(SimpleNamespace(lake=lake, upto=5))
    assert log.full_rows_since(every) == since
