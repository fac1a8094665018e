"""What a batch means for its tables, and that this does not rest on where batches were cut."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pytest

from waybill.errors import ConfigurationError, SchemaChangeError
from waybill.merge.ambiguity import refuse_unordered_truncates
from waybill.merge.increment_counts import Survey, TableSurvey
from waybill.merge.plan import MergePlan, make_plan
from waybill.merge.rules import Change, Table
from waybill.merge.state import Default, MergeState
from waybill.merge.statements import Statement
from waybill.order import order_key
from waybill.records import Column, TableSchema, intern_schema
from waybill.spec.decisions import STOP, ColumnDecision, Decisions
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type


class Row(NamedTuple):
    """A change of a row of shop.t, as it shows in the survey."""

    order: str
    table: TableSchema
    place: tuple[str, int] | None = None


def at(sequence: int) -> str:
    return order_key((sequence,), 1, 0, sequence, 0)


def table(*columns: str, dialect: str = "mysql") -> TableSchema:
    found = tuple(Column(name, parse_type("string")) for name in columns)
    return intern_schema("shop", None, "t", found, columns[:1], dialect)


def row(sequence: int, *columns: str, dialect: str = "mysql") -> Row:
    return Row(at(sequence), table(*columns, dialect=dialect))


def positioned(partition: int, offset: int) -> Row:
    return Row(order_key(None, 1, partition, offset, 0), table("id"), ("t", partition))


def ddl(sequence: int, text: str, dialect: str = "mysql") -> Statement:
    return Statement("shop.t", True, at(sequence), text, dialect, "t", 0, sequence, False)


def positioned_ddl(partition: int, offset: int, text: str, topic: str = "t") -> Statement:
    order = order_key(None, 1, partition, offset, 0)
    return Statement("shop.t", True, order, text, "mysql", topic, partition, offset, True)


def plan(
    batch: list[Row | Statement], before: MergeState, rules: TableRules | None = None, **given: Any
) -> MergePlan:
    rows = [entry for entry in batch if isinstance(entry, Row)]
    ddl = [entry for entry in batch if isinstance(entry, Statement)]
    tables = {}
    if rows:
        orders = [entry.order for entry in rows]
        tables["shop.t"] = TableSurvey(
            rows=len(rows),
            keyed=len(rows),
            schema_ids={entry.table.id for entry in rows},
            places={entry.place for entry in rows if entry.place is not None},
            topics={"t"},
            identities={("shop", "", "t")},
            lowest=min(orders),
            highest=max(orders),
        )
    return make_plan(
        Survey(len(batch), tables, Counter(ddl=len(ddl)), {}),
        {entry.table.id: entry.table for entry in rows},
        [],
        sorted(ddl, key=lambda statement: statement.order),
        before,
        rules or TableRules({}),
        lambda name, order: {entry.table.id for entry in rows if entry.order > order},
        **given,
    )


def run(*batches: list[Row | Statement], **given: Any) -> MergePlan:
    found = MergePlan(MergeState())
    for batch in batches:
        warnings = found.warnings
        found = plan(batch, found.state, **given)
        found.warnings = [*warnings, *found.warnings]
    return found


def cuts(entries):
    """The entries in batches, cut at every set of points."""
    inner = range(1, len(entries))
    for number in range(len(entries)):
        for points in combinations(inner, number):
            ends = [0, *points, len(entries)]
            yield [entries[a:b] for a, b in pairwise(ends)]


def defaults(found: MergePlan) -> list[tuple[str, str]]:
    return [(d.column, d.text) for d in found.state.table("shop.t").defaults]


# Statements without a sequence id.

THREE = [positioned(0, 1), positioned(1, 1), positioned(2, 1)]
DROPPED = positioned_ddl(1, 50, "DROP TABLE t")
NO_ORDER = "a TRUNCATE or DROP that has no order"


@pytest.mark.parametrize("rows", [[], [positioned(0, 60)]], ids=["alone", "with-rows"])
def test_a_drop_without_a_sequence_has_no_order_against_other_partitions(rows):
    found = run(THREE, [DROPPED, *rows])
    with pytest.raises(ConfigurationError, match=NO_ORDER):
        refuse_unordered_truncates("shop.t", found.tables["shop.t"])


def test_in_one_partition_a_drop_needs_none():
    for batches in ([[positioned(1, 1)], [DROPPED]], [[DROPPED], [positioned(1, 60)]]):
        refuse_unordered_truncates("shop.t", run(*batches).tables["shop.t"])
    ordered = run([row(1, "id")], [ddl(5, "DROP TABLE t")])
    refuse_unordered_truncates("shop.t", ordered.tables["shop.t"])


@pytest.mark.parametrize(
    "drop", [DROPPED, positioned_ddl(1, 50, "DROP TABLE t", topic="statements")]
)
def test_a_partition_that_comes_later_has_no_order_against_it_either(drop):
    """Rows of partition 0 would be void, however long after the DROP they were written."""
    partition = 0 if drop.topic == "t" else 1
    found = run([drop], [positioned(partition, 9999)])
    with pytest.raises(ConfigurationError, match=NO_ORDER):
        refuse_unordered_truncates("shop.t", found.tables["shop.t"])


def test_whether_anything_had_no_sequence_is_reported():
    assert run(THREE).unordered
    assert run([DROPPED]).unordered
    assert not run([row(1, "id"), ddl(2, "DROP TABLE t")]).unordered


# Statements without a sequence id that rise, because what was before them comes late.


def behind(sequence: int, offset: int, text: str, again: bool = False) -> Statement:
    """A statement behind a change with a sequence id; risen if it was merged before."""
    order = f"{at(sequence).rsplit('/', 1)[0]}/{positioned(0, offset).order.rsplit('/', 1)[1]}"
    return Statement("shop.t", True, order, text, "mysql", "t", 0, offset, False, True, again)


@pytest.mark.parametrize("text", ["DROP TABLE t", "TRUNCATE TABLE t"])
def test_a_statement_that_rises_takes_more_and_is_reported(text):
    first = run([row(7, "id"), behind(7, 50, text), row(30, "id")])
    assert first.state.unnumbered == {"t": {0: 50}}
    assert first.warnings == []
    before = first.state.table("shop.t")
    found = plan([row(9, "id"), behind(9, 50, text, again=True)], first.state)
    table = found.tables["shop.t"]
    assert table.truncated
    assert not table.counted_truncate
    assert table.state.truncated == table.reached == behind(9, 50, text).order
    # It is the table of before, so its key stays.
    assert (table.dropped, table.state.key) == ("", before.key)
    (warning,) = found.warnings
    assert "came late that belong before the TRUNCATE or DROP t/0/50" in warning


def test_what_was_before_a_drop_says_nothing_of_the_table_after_it():
    after = TableSchema("shop", None, "t", table("id", "n").columns, ("n",), "mysql")
    first = run([row(7, "id"), behind(7, 50, "DROP TABLE t"), Row(at(30), after)])
    late = plan([row(6, "id", "gone")], first.state)
    assert late.state.table("shop.t").key == ("n",)
    assert late.state.table("shop.t").names == ("id", "n")
    with pytest.raises(SchemaChangeError, match=r"the key of shop\.t was"):
        plan([row(40, "id")], first.state)


def test_a_default_rises_with_its_statement():
    first = run([row(7, "id"), behind(7, 50, BASIC)])
    for statement in (behind(9, 50, BASIC, again=True), behind(12, 50, BASIC, again=True)):
        found = plan([row(8, "id"), statement], first.state)
        (default,) = found.state.table("shop.t").defaults
        assert (default.order, default.text) == (statement.order, "basic")
        assert found.tables["shop.t"].defaults == [default]
        assert found.warnings == []


# Defaults.

BASIC = "ALTER TABLE t ADD tier VARCHAR(9) NOT NULL DEFAULT 'basic'"
GOLD = "ALTER TABLE t ADD tier VARCHAR(9) NOT NULL DEFAULT 'gold'"
AGAIN = "column tier of shop.t is added once more"


def test_a_column_of_a_table_that_was_made_again_has_its_new_default():
    entries = [
        row(1, "id"),
        ddl(2, BASIC),
        ddl(3, "DROP TABLE t"),
        row(4, "id"),
        ddl(5, GOLD),
    ]
    for batches in cuts(entries):
        found = run(*batches)
        assert defaults(found) == [("tier", "gold")]
        assert found.warnings == []
        assert found.tables["shop.t"].defaults == list(found.state.table("shop.t").defaults)
    rules = Table(("id", "tier"))
    rules.apply(
        [
            Change(at(1), "insert", "1", {"id": "1"}),
            Change(at(2), "column", image={"tier": "basic"}),
            Change(at(3), "truncate"),
            Change(at(4), "insert", "1", {"id": "1"}),
            Change(at(5), "column", image={"tier": "gold"}),
        ]
    )
    assert rules.live() == {"1": {"id": "1", "tier": "gold"}}


def test_a_statement_from_before_the_newest_drop_says_nothing():
    found = run([row(1, "id"), ddl(5, "DROP TABLE t")], [ddl(3, BASIC)])
    assert defaults(found) == []
    assert "shop.t" not in found.tables


def test_a_state_of_before_may_still_have_a_default_that_is_void():
    before = run([row(1, "id"), ddl(2, BASIC)]).state
    before.table("shop.t").truncated = at(3)
    found = plan([ddl(5, GOLD)], before)
    assert defaults(found) == [("tier", "gold")]
    assert found.warnings == []


def test_a_column_that_was_dropped_and_is_added_again_is_reported():
    entries = [row(1, "id"), ddl(2, BASIC), ddl(3, "ALTER TABLE t DROP COLUMN Tier"), ddl(5, GOLD)]
    for batches in cuts(entries):
        found = run(*batches)
        assert defaults(found) == [("tier", "basic"), ("tier", "gold")]
        (warning,) = found.warnings
        assert AGAIN in warning
        assert found.state.table("shop.t").dropped == {}


def test_a_dropped_column_that_comes_back_without_a_default_is_reported():
    drop = ddl(3, "ALTER TABLE t DROP COLUMN n")
    add = ddl(5, "ALTER TABLE t ADD COLUMN n INT")
    for batches in cuts([row(1, "id", "n"), drop, add]):
        assert "column n of shop.t is added once more" in run(*batches).warnings[0]
    made_again = [row(1, "id", "n"), drop, ddl(4, "DROP TABLE t"), add]
    assert run(made_again).warnings == []


def test_a_statement_that_comes_twice_counts_once():
    first, second = [row(1, "id"), ddl(2, BASIC)], ddl(2, BASIC)
    again = second._replace(order=order_key((2,), 1, 0, 99, 0))
    drop = ddl(3, "ALTER TABLE t DROP COLUMN tier")
    assert (defaults(run(first, [again])), run(first, [again]).warnings) == (
        [("tier", "basic")],
        [],
    )
    whole = run([*first, drop, ddl(5, GOLD)], [again, drop, ddl(5, GOLD)])
    assert defaults(whole) == [("tier", "basic"), ("tier", "gold")]
    assert len(whole.warnings) == 1
    by_position = [positioned_ddl(0, 5, BASIC), positioned_ddl(0, 9, BASIC)]
    assert defaults(run(by_position[:1], by_position[1:])) == [("tier", "basic")]


# Names in another case.

LOWER = "alter table t add tier varchar(9) default 'basic' not null"


def test_a_default_goes_to_the_column_that_rows_show():
    old, new = row(1, "ID", dialect="connect"), row(6, "ID", "TIER", dialect="connect")
    for batches in ([[old, new], [ddl(5, LOWER, "")]], [[old], [new, ddl(5, LOWER, "")]]):
        found = run(*batches)
        assert defaults(found) == [("TIER", "basic")]
        assert found.warnings == []


@pytest.mark.parametrize(
    ("columns", "dialect", "given", "warned"),
    [
        (("id", "TIER", "Tier"), "", [], "its case does not show which column that is beside TIER"),
        (("ID",), "", [("tier", "basic")], "beside ID: make a full reload"),
        (("id",), "", [("tier", "basic")], ""),
        (("ID",), "mysql", [("tier", "basic")], ""),
        (("ID",), "oracle", [("TIER", "basic")], ""),
    ],
)
def test_a_default_whose_column_cannot_be_known_from_its_case(columns, dialect, given, warned):
    found = run([row(1, *columns)], [ddl(5, LOWER, dialect)])
    assert defaults(found) == given
    assert len(found.warnings) == bool(warned)
    assert all(warned in warning for warning in found.warnings)


# Renames.


@pytest.mark.parametrize("name", ["amount", "AMOUNT"])
def test_a_rename_stops_wherever_batches_are_cut(name):
    rename = ddl(5, f"ALTER TABLE t RENAME COLUMN {name} TO total")
    for batches in cuts([row(1, "id", "amount"), rename, row(6, "id", "total")]):
        with pytest.raises(SchemaChangeError, match=r"column amount of shop\.t was renamed to"):
            run(*batches)
    # Rows of before are not in the stream: there is nothing to decide about.
    for batches in cuts([rename, row(6, "id", "total")]):
        assert run(*batches).state.table("shop.t").names == ("id", "total")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("RENAME TABLE t TO u", "t to u"),
        ("-- by hand\nALTER TABLE shop.t RENAME TO u", "shop.t to u"),
        ("RENAME TABLE `shop`.`v` TO shop.w, w TO t", "shop.v to shop.w, w to t"),
    ],
)
def test_a_table_with_another_name_is_reported(text, warned):
    spoken = ddl(5, text)
    for statement in (spoken, spoken._replace(qualified="shop", has_table=False)):
        (warning,) = run([row(1, "id")], [statement]).warnings
        assert f"the source renamed {warned}: " in warning
        assert run([row(1, "id"), statement]).warnings == [warning]


def test_tables_that_are_not_in_the_lake_may_be_renamed():
    spoken = ddl(5, "RENAME TABLE shop.v TO shop.w")._replace(qualified="shop", has_table=False)
    assert run([row(1, "id")], [spoken]).warnings == []


def test_defaults_are_kept_oldest_first():
    found = run([row(1, "id")], [ddl(7, GOLD)], [ddl(5, "ALTER TABLE t ADD n INT DEFAULT 1")])
    assert found.state.table("shop.t").defaults == (
        Default(at(5), "n", "1"),
        Default(at(7), "tier", "gold"),
    )


# Tables that a reload makes anew.


def anew(
    batch: list[Row | Statement], before: MergeState, elsewhere: tuple[Statement, ...] = (), **given
) -> MergePlan:
    """The plan of a batch that brings all changes of shop.t once more."""
    return plan(
        batch, before, **{"rebuilt": ["shop.t", "shop.unknown"], **given}, elsewhere=elsewhere
    )


OLD = [row(1, "id", "name"), row(5, "id"), ddl(6, "DROP TABLE t"), row(7, "id", "note")]


def test_a_table_begins_anew_with_what_the_reload_brings():
    before = run(OLD).state
    text = before.to_json()
    found = anew([row(1, "id", "mail"), row(5, "id", "mail")], before)
    fresh = run([row(1, "id", "mail"), row(5, "id", "mail")])
    assert found.state.table("shop.t") == fresh.state.table("shop.t")
    assert found.tables["shop.t"].was == before.table("shop.t")
    assert found.tables["shop.t"].rebuilt_columns == ["note is gone", "mail is new"]
    assert before.to_json() == text, "what was known before the batch is not changed"
    assert [*found.tables] == ["shop.t"]


def test_a_table_of_which_a_reload_brings_nothing_is_made_anew_all_the_same():
    before = run(OLD).state
    found = anew([], before)
    assert found.state.table("shop.t").columns == ()
    assert found.tables["shop.t"].was is not None


def test_a_table_that_waits_is_not_made_anew():
    before = run(OLD).state
    found = anew([row(9, "id", "mail")], before, takes=lambda name: False)
    assert found.state.table("shop.t") == before.table("shop.t")
    assert not found.tables


def typed(sequence: int, **types: str) -> Row:
    found = tuple(Column(name, parse_type(text)) for name, text in types.items())
    return Row(at(sequence), intern_schema("shop", None, "t", found, ("id",), "mysql"))


def decided(**decision: str) -> Decisions:
    return Decisions(((("shop.t",), ColumnDecision(**decision)),))


NEVER = decided(add=STOP, widen=STOP, narrow=STOP, retype=STOP)


@pytest.mark.parametrize(
    ("came", "sentence"),
    [
        (typed(5, id="string", n="int32", note="string"), "has a new column note"),
        (typed(5, id="string", n="int64"), "n of shop.t is int in the lake and now is bigint"),
        (typed(5, id="string", n="decimal(5,1)"), "n of shop.t is int in the lake and now comes"),
    ],
    ids=["add", "widen", "retype"],
)
def test_what_the_source_changed_is_asked_of_a_reload_too(came, sentence):
    before = run([typed(1, id="string", n="int32")]).state
    rows = [typed(1, id="string", n="int32"), came]
    with pytest.raises(SchemaChangeError, match=sentence) as stopped:
        anew(rows, before, decisions=NEVER)
    assert stopped.value.table == "shop.t"
    taken = anew(rows, before, decisions=decided(retype="rewrite"))
    assert taken.state == run(rows, decisions=decided(retype="rewrite")).state
    # As a batch that brings only what is new asks.
    with pytest.raises(SchemaChangeError, match=sentence):
        plan([came], before, decisions=NEVER)


def test_a_narrower_type_that_was_taken_is_not_asked_about_again():
    wide, narrow = typed(1, id="string", n="int64"), typed(5, id="string", n="int32")
    before = run([wide]).state
    with pytest.raises(SchemaChangeError, match="is bigint in the lake and now is int"):
        anew([wide, narrow], before, decisions=NEVER)
    taken = plan([narrow], before).state
    assert anew([wide, narrow], taken, decisions=NEVER).state.table("shop.t").columns


def test_what_only_the_mapping_changed_is_not_asked_about():
    """It is in all messages: a masked number, another name, a column that is shown again."""
    before = run([typed(1, id="string", n="int32", old="string"), typed(5, id="string")]).state
    masked = typed(1, id="string", n="string", new="string", shown="int32")
    found = anew([masked], before, decisions=NEVER)
    assert found.state.table("shop.t").names == ("id", "n", "new", "shown")
    declared = TableRules({"shop.t": TableRule(columns={"n": parse_type("string")})})
    rows = [typed(1, id="string", n="int32"), typed(2, id="string", n="string")]
    assert anew(rows, before, rules=declared, decisions=NEVER).state.table("shop.t").column("n")


def test_a_key_may_be_another_one():
    before = run([row(1, "id", "name")]).state
    with pytest.raises(SchemaChangeError, match=r"the key of shop\.t was"):
        plan([row(2, "name", "id")], before)
    assert anew([row(1, "name", "id")], before).state.table("shop.t").key == ("name",)


def test_columns_keep_their_names_in_the_lake():
    """A column of another case beside those whose rows go would be the same one to Spark."""
    before = run([row(1, "id", "Name")]).state
    other = anew([row(1, "id", "name")], before)
    assert other.state.table("shop.t").columns[1].lake.startswith("name_")
    same = anew([row(1, "id", "Name")], before)
    assert [c.lake for c in same.state.table("shop.t").columns] == ["id", "Name"]


def test_statements_of_before_count_whose_messages_name_another_table():
    drop = ddl(4, "DROP TABLE s, t")._replace(qualified="shop.s", elsewhere=True)
    rows = [row(1, "id"), row(5, "id")]
    before = run([row(1, "id")], [row(5, "id")]).state
    assert anew(rows, before, (drop,)).state.table("shop.t").truncated
    assert not anew(rows, before).state.table("shop.t").truncated
    # Of tables that go on as they are nothing is said once more.
    assert not plan(rows, before, elsewhere=(drop,)).state.table("shop.t").truncated
