"""Tables that a reload makes anew: what the merge makes of all changes as they are mapped now."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.property.bag_histories import Heap, dealt
from tests.property.merge_histories import history
from tests.spark.merge.merge_lake import (
    change_row,
    let_pass,
    merge,
    put,
    refused_by_gate,
    rows_of,
    schema,
)
from tests.spark.merge.test_merge_bags import stored
from tests.spark.merge.test_merge_histories import deal
from tests.spark.merge.test_merge_stage import TABLE, images, row
from tests.spark.merge.test_merge_transactions import event, inside
from tests.spark.seeds import SEEDS
from tests.unit.verify.test_canonical import column
from waybill.lake.rebuilt_rows import ADDED_TO
from waybill.lake_columns import CHANGES, REBUILT
from waybill.merge.leftovers import drop_held
from waybill.merge.position import REFUSED
from waybill.merge.rules import STATEMENTS, Change, Table, bag
from waybill.order import order_key
from waybill.verify.canonical import MYSQL
from waybill.verify.changed_keys import changed_keys
from waybill.verify.database import SourceTable
from waybill.verify.plan import Compared

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

KEYED, ALTERED, HEAP = "shop.many", "shop.own", "shop.heap"
TABLES = (KEYED, ALTERED, HEAP)
BEFORE = {"id": "int64", "n": "int32", "t": "string"}
NOW = {"id": "int64", "n": "string"}
"""The mapping of now masks `n`, of which every text is one then, and leaves `t` out."""


def mapped(change: Change) -> Change:
    """The change as the mapping of now makes it."""

    def image(row):
        if row is None or change.operation in STATEMENTS:
            return row
        masked = {"n": row["n"] and f"#{len(row['n'])}"} if "n" in row else {}
        return {name: text for name, text in {**row, **masked}.items() if name not in ("t", "b")}

    stated = None if change.columns is None else change.columns - {"b"}
    return change._replace(image=image(change.image), before=image(change.before), columns=stated)


class Log:
    """The log of a lake: what batches brought of each table, before it was mapped."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.batches: list[str] = []
        self.rebuilt: dict[str, str] = {}
        self.came: dict[str, list[Change]] = {name: [] for name in TABLES}

    def put(self, batch: str, brought: dict[str, list[Change]], now: bool) -> None:
        """Put a batch into it."""
        rows, schemas = [], {}
        for name, changes in brought.items():
            self.came[name] += changes
            self._decode(name, changes, now, rows, schemas)
        self._put(batch, rows, schemas)

    def reload(self, batch: str) -> None:
        """Bring all that came once more, as it is mapped now."""
        rows, schemas = [], {}
        for name, changes in self.came.items():
            self._decode(name, changes, True, rows, schemas)
            rows += marks(name, tuple(self.batches), batch)
        self.rebuilt = dict.fromkeys(TABLES, batch)
        self._put(batch, rows, schemas)

    def _put(self, batch: str, rows: list[dict[str, Any]], schemas: dict[str, Any]) -> None:
        details = {REBUILT: self.rebuilt} if self.rebuilt else {}
        put(self.lake, batch, rows, [*schemas.values()], details)
        self.batches.append(batch)

    @staticmethod
    def _decode(name, changes, now, rows, schemas) -> None:
        types, key = (NOW, ("id",)) if now else (BEFORE, ("id",))
        if name == HEAP:
            types, key = ({"a": "int32"} if now else {"a": "int32", "b": "string"}), ()
        for change in changes:
            shown = change.columns or change.image or change.before or {}
            with_tier = "tier" in shown and change.operation not in STATEMENTS
            table = schema(name, {**types, **({"tier": "string"} if with_tier else {})}, key)
            schemas[table.id] = table
            rows.append(change_row(mapped(change) if now else change, table))


def check(lake: Lake, log: Log, when: str) -> dict[str, Any]:
    """See that the tables are what the rules make of all changes, mapped as they are now."""
    counts = {}
    for name in (KEYED, ALTERED):
        table = Table(("id", "n") if name == KEYED else ("id", "n", "tier"))
        counts[name] = table.apply(map(mapped, log.came[name]))
        wanted = {
            key: (row.order, dict(row.image or {}) if row.live else None)
            for key, row in table.rows.items()
        }
        assert rows_of(lake, name, dead=True) == wanted, f"{name} {when}"
    wanted_rows = bag(map(mapped, log.came[HEAP]))
    assert stored(lake, HEAP, wanted_rows) == wanted_rows, f"{HEAP} {when}"
    return counts


def step(lake: Lake, spec: Any, batch: str, **options: Any) -> Any:
    report = merge(lake, spec, batch, **options)
    assert refused_by_gate(lake, batch) == []
    let_pass(lake, batch)
    report.reconcile()
    return report


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rebuilt_table_is_what_all_changes_make_of_it(lake, migration, seed) -> None:
    """Before and behind the reload changes come in any order and twice.

    One batch was decoded and not merged when it came, a merge of it was dropped, and it comes again
    at last.
    """
    choose = random.Random(seed).randrange
    heap = Heap(choose)
    heap.run(16)
    parts = {
        KEYED: deal(choose, [history(choose, 20, statements=False) for _ in range(12)]),
        ALTERED: deal(choose, [history(choose, 40)]),
        HEAP: dealt(choose, heap, 3),
    }
    spec, log = migration(), Log(lake)

    def brought(number: int) -> dict[str, list[Change]]:
        return {name: batches[number] for name, batches in parts.items()}

    log.put("b0", brought(0), now=False)
    before = step(lake, spec, "b0")
    old = {name: rows_of(lake, name, dead=True) for name in TABLES}
    log.put("b1", brought(1), now=False)
    log.reload("b2")
    merge(lake, spec, "b2")
    drop_held(lake)
    assert {name: rows_of(lake, name, dead=True) for name in TABLES} == old
    report = step(lake, spec, "b2")
    counts = check(lake, log, f"after the reload, seed {seed}")
    assert report.skipped["reloaded"] == sum(map(len, brought(1).values()))
    for name, count in counts.items():
        assert report.details[name]["out"] == count.out
    merges = lake.read(lake.log("merges"))
    assert before.refused, f"seed {seed} refuses nothing"
    assert merges.where(merges.kind == REFUSED).isEmpty()
    for name, columns in ((KEYED, ["id", "n"]), (HEAP, ["a"])):
        shown = lake.read(lake.merged_tables()[name]).columns
        assert [c for c in shown if not c.startswith("_waybill") and c != "tier"] == columns
    log.put("b3", brought(2), now=True)
    step(lake, spec, "b3")
    check(lake, log, f"after a late batch, seed {seed}")
    log.reload("b4")
    step(lake, spec, "b4")
    check(lake, log, f"after another reload, seed {seed}")


def marks(name: str, batches: tuple[str, ...], reload: str) -> list[dict[str, Any]]:
    """What a reload says of the batches that it replaces."""
    database, table = name.split(".")
    names = {"database": database, "table": table, "reason": reload, "outcome": REBUILT}
    return [{**dict.fromkeys(CHANGES.names), **names, "batch": batch} for batch in batches]


def test_a_table_that_waits_is_made_anew_when_it_goes_on(lake, migration, tmp_path) -> None:
    """Its key changed, and all changes come once more, at last with one that they share."""
    # It was tried with this file, so only the reload can help it.
    spec = migration().read_from(tmp_path / "shop.yaml", "name: demo")
    types, first, other = {"id": "int64", "n": "int32"}, ("id",), ("n",)

    def keyed(number: int, key: tuple[str, ...]) -> dict[str, Any]:
        image = {"id": str(number), "n": str(number + 10)}
        text = "{" + ",".join(f'"{name}":"{image[name]}"' for name in key) + "}"
        order, place = order_key((number,), 1, 0, number, 0), ("t", 0, number, 0)
        change = Change(order, "insert", text, image, None, place)
        return change_row(change, schema(KEYED, types, key))

    put(lake, "b0", [keyed(1, first)], [schema(KEYED, types, first)])
    step(lake, spec, "b0")
    put(lake, "b1", [keyed(2, other)], [schema(KEYED, types, other)])
    assert step(lake, spec, "b1").waiting == 1
    both = [schema(KEYED, types, first), schema(KEYED, types, other)]
    again = [keyed(1, first), keyed(2, other), *marks(KEYED, ("b0", "b1"), "b2")]
    put(lake, "b2", again, both, {REBUILT: {KEYED: "b2"}})
    report = step(lake, spec, "b2")
    assert report.waiting == 2
    assert f"{KEYED} waits since batch b1 with 2 changes" in "".join(report.warnings)
    again = [keyed(1, other), keyed(2, other), *marks(KEYED, ("b2",), "b3")]
    put(lake, "b3", again, both[1:], {REBUILT: {KEYED: "b3"}})
    report = step(lake, spec, "b3")
    assert set(rows_of(lake, KEYED, dead=True)) == {'{"n":"11"}', '{"n":"12"}'}
    assert (report.waiting, report.rows_out) == (0, 2)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_rows_of_an_open_transaction_wait_as_they_came_again(lake, migration, ending) -> None:
    spec, rebuilt = migration(), {REBUILT: {"shop.t": "b1"}}

    def brought(n: int) -> list[dict[str, Any]]:
        return [row(1, 1, n=f"1{n}"), inside("x", row(3, 3, n=f"3{n}"))]

    put(lake, "b0", [*brought(0), event("begin", "x", 2)], [TABLE])
    step(lake, spec, "b0")
    put(lake, "b1", [*brought(5), *marks("shop.t", ("b0",), "b1")], [TABLE], rebuilt)
    step(lake, spec, "b1")
    assert [image["n"] for image in images(lake)] == ["15"]
    put(lake, "b2", [event(ending, "x", 4)], [TABLE], rebuilt)
    report = step(lake, spec, "b2")
    shown = ["15", "35"] if ending == "commit" else ["15"]
    assert [image["n"] for image in images(lake)] == shown
    assert report.rows_out == len(shown) - 1


def test_a_message_of_a_bag_counts_once_however_it_was_mapped(lake, migration) -> None:
    """A reload brought changes beside those of before; a new default counts the table anew."""
    heap = schema(HEAP, {"a": "int32", "b": "string"}, ())
    taller = schema(HEAP, {"a": "int32", "b": "string", "tier": "string"}, ())

    def line(number: int, b: str, place: int | None = None, **image: str) -> dict[str, Any]:
        offset = number if place is None else place
        change = Change(
            order_key((number,), 1, 0, offset, 0),
            *("insert", "", {"a": str(number), "b": b, **image}, None, ("t", 0, offset, 0)),
        )
        return change_row(change, taller if image else heap)

    spec, added = migration(), {ADDED_TO: [HEAP]}
    put(lake, "b0", [line(1, "clear")], [heap])
    step(lake, spec, "b0")
    put(lake, "b1", [line(2, "clear")], [heap])
    # The reload, in one merge with changes that it brings again.
    put(lake, "b2", [line(1, "#5"), line(2, "#5")], [heap], added)
    step(lake, spec, "b2")
    kept = {frozenset({"a": str(n), "b": "clear"}.items()): 1 for n in (1, 2)}
    assert stored_images(lake) == kept
    # A message comes once more, at another place and as it is mapped now.
    put(lake, "b3", [line(1, "#5", place=9)], [heap], added)
    step(lake, spec, "b3")
    assert stored_images(lake) == kept
    tier = Change(order_key((3,), 1, 0, 3, 0), "column", "", {"tier": "x"}, None, ("t", 0, 3, 0))
    rows = [change_row(tier, taller), line(4, "#5", tier="y")]
    put(lake, "b4", rows, [taller], added)
    step(lake, spec, "b4")
    assert stored_images(lake) == {
        **{frozenset({*image, ("tier", "x")}): n for image, n in kept.items()},
        frozenset({"a": "4", "b": "#5", "tier": "y"}.items()): 1,
    }


def stored_images(lake: Lake) -> dict[frozenset[tuple[str, str]], int]:
    return {frozenset(row): n for row, n in stored(lake, HEAP).items()}


def test_verification_compares_the_whole_table_that_a_reload_made_anew(lake) -> None:
    """A row that is gone has no change that names it."""
    table = schema(KEYED, {"id": "int64"}, ("id",))
    one = Change(order_key((1,), 1, 0, 1, 0), "insert", '{"id":"1"}', {"id": "1"})
    put(lake, "b0", [change_row(one._replace(place=("t", 0, 1, 0)), table)], [table])
    after = lake.head(lake.log("changes"))
    columns = (column("bigint", MYSQL)._replace(name="id"),)
    source = SourceTable(("shop", "many"), columns)
    facts = (KEYED, "", source, columns, True, columns, ())
    compared = Compared(*facts, ("id",), read=columns, masks=(None,))

    def changed() -> frozenset[str] | None:
        upto = lake.head(lake.log("changes"))
        return changed_keys(lake, compared, ("shop", "", "many"), after, upto)

    put(lake, "b1", [], [table])
    assert changed() == frozenset()
    put(lake, "b2", marks("shop.other", ("b0",), "b2"), [])
    assert changed() == frozenset()
    put(lake, "b3", marks(KEYED, ("b0",), "b3"), [])
    assert changed() is None
