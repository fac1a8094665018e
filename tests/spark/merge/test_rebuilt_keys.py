"""Keys that a reload makes anew: what the merge makes of their changes as they are mapped now."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.property.merge_histories import history, misfit
from tests.spark.merge.merge_lake import change_row, merge, put, rows_of, schema
from tests.spark.merge.test_merge_histories import deal
from tests.spark.merge.test_merge_stage import TABLE, images, row
from tests.spark.merge.test_rebuilt_tables import marks, step
from tests.spark.merge.test_statements_without_ids import TIER, statement
from tests.spark.seeds import SEEDS
from tests.unit.verify.test_canonical import column
from waybill.convert.linked_keys import groups
from waybill.lake_columns import REBUILT_KEYS
from waybill.merge.leftovers import drop_held
from waybill.merge.position import REFUSED
from waybill.merge.rules import STATEMENTS, Change, Table, effects
from waybill.order import order_key
from waybill.verify.canonical import MYSQL
from waybill.verify.changed_keys import changed_keys
from waybill.verify.database import SourceTable
from waybill.verify.plan import Compared

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

MANY, OWN = "shop.many", "shop.own"
TYPES = {"id": "int64", "n": "int32", "t": "string"}


def mapped(change: Change) -> Change:
    """The change as the mapping of now makes it, which masks `t`."""
    image = change.image
    if change.operation in STATEMENTS or image is None or image.get("t") is None:
        return change
    return change._replace(image={**image, "t": f"#{image['t']}"})


def rows(name: str, changes: list[Change], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for change in changes:
        shown = change.image or change.before or {}
        added = "tier" in shown and change.operation != "column"
        table = schema(name, {**TYPES, **({"tier": "string"} if added else {})}, ("id",))
        schemas[table.id] = table
        found.append(change_row(change, table))
    return found


class Log:
    """The log of a lake: what batches brought of each table, and what counts of it."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.came: dict[str, list[Change]] = {MANY: [], OWN: []}
        self.batches: dict[str, list[str]] = {MANY: [], OWN: []}
        self.anew: dict[str, set[str]] = {MANY: set(), OWN: set()}
        self.reloaded: dict[str, str] = {}

    def put(self, batch: str, brought: dict[str, list[Change]]) -> None:
        """Put a batch into it, in which changes of keys that were made anew are mapped."""
        schemas: dict[str, Any] = {}
        found: list[dict[str, Any]] = []
        for name, changes in brought.items():
            self.came[name] += changes
            self.batches[name].append(batch)
            found += rows(name, [self._now(name, change) for change in changes], schemas)
        self._put(batch, found, schemas)

    def reload(self, batch: str, choose: Any) -> None:
        """Bring the changes of some groups of keys once more."""
        schemas: dict[str, Any] = {}
        found: list[dict[str, Any]] = []
        for name, changes in self.came.items():
            moves = [(c.key, c.old_key) for c in changes if c.old_key is not None]
            touched = {key for c in changes if c.operation not in STATEMENTS for key in effects(c)}
            some = frozenset().union(*(g for g in groups(touched, moves) if choose(3)))
            self.anew[name] |= some
            again = [c for c in changes if c.operation not in STATEMENTS and c.key in some]
            found += rows(name, [self._now(name, change) for change in again], schemas)
            for mark in marks(name, (*self.batches[name], batch), batch):
                found += [{**mark, "key": key} for key in sorted(some)]
            self.batches[name].append(batch)
            self.reloaded[name] = batch
        self._put(batch, found, schemas)

    def _now(self, name: str, change: Change) -> Change:
        return mapped(change) if change.key in self.anew[name] else change

    def _put(self, batch: str, found: list[dict[str, Any]], schemas: dict[str, Any]) -> None:
        put(self.lake, batch, found, [*schemas.values()], {REBUILT_KEYS: self.reloaded})

    def check(self, when: str) -> None:
        """See that the tables are what the rules make of what counts."""
        for name, changes in self.came.items():
            table = Table(("id", "n", "t", *(["tier"] if name == OWN else [])), misfit)
            table.apply(self._now(name, change) for change in changes)
            wanted = {
                key: (row.order, dict(row.image or {}) if row.live else None)
                for key, row in table.rows.items()
            }
            assert rows_of(self.lake, name, dead=True) == wanted, f"{name} {when}"


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_some_keys_are_what_their_changes_make_of_them(lake, migration, seed) -> None:
    """Before and behind the reload changes come in any order and twice, with statements among them.

    One batch was decoded and not merged when the reload came, and a merge of it was dropped. Rows
    of these keys that another program has spoilt are right again.
    """
    choose = random.Random(seed).randrange
    parts = {
        MANY: deal(choose, [history(choose, 20, statements=False) for _ in range(12)]),
        OWN: deal(choose, [history(choose, 40, keys=7)]),
    }
    spec, log = migration(), Log(lake)

    def brought(number: int) -> dict[str, list[Change]]:
        return {name: batches[number] for name, batches in parts.items()}

    log.put("b0", brought(0))
    step(lake, spec, "b0")
    log.check(f"before the reload, seed {seed}")
    log.put("b1", brought(1))
    log.reload("b2", choose)
    spoilt = sorted(log.anew[MANY] & rows_of(lake, MANY).keys())
    table = lake.merged_tables()[MANY]
    for key in spoilt[:3]:
        lake.spark.sql(f"UPDATE {table} SET _waybill_image = '{{}}' WHERE _waybill_key = '{key}'")
    merge(lake, spec, "b2")
    drop_held(lake)
    report = step(lake, spec, "b2")
    log.check(f"after the reload, seed {seed}")
    assert report.details[MANY]["rows that were rebuilt"] >= len(spoilt[:3]) > 0
    assert report.skipped["reloaded"] > 0
    merges = lake.read(lake.log("merges"))
    places = merges.where(merges.kind == REFUSED).select("topic", "partition", "offset", "index")
    assert places.count() == places.distinct().count(), "what was refused again counts once"
    log.put("b3", brought(2))
    step(lake, spec, "b3")
    log.check(f"after a late batch, seed {seed}")


def test_a_row_that_no_change_made_goes_and_verification_looks_at_it_again(lake, migration) -> None:
    """Another program has put it there; all others keep every byte."""
    table = schema(MANY, {"id": "int64"}, ("id",))

    def insert(number: int) -> dict[str, Any]:
        order, key = order_key((number,), 1, 0, number, 0), f'{{"id":"{number}"}}'
        place = ("t", 0, number, 0)
        return change_row(Change(order, "insert", key, {"id": str(number)}, None, place), table)

    spec = migration()
    put(lake, "b0", [insert(1), insert(2)], [table])
    step(lake, spec, "b0")
    after, full = lake.head(lake.log("changes")), lake.merged_tables()[MANY]
    lake.spark.sql(
        f'INSERT INTO {full} SELECT \'{{"id":"9"}}\', * EXCEPT (_waybill_key) FROM {full} '
        "WHERE id = 1"
    )
    assert len(rows_of(lake, MANY)) == 3
    was = {row._waybill_key: row for row in lake.read(full).collect()}
    (mark,) = marks(MANY, ("b1",), "b1")
    put(lake, "b1", [{**mark, "key": '{"id":"9"}'}], [], {REBUILT_KEYS: {MANY: "b1"}})
    report = step(lake, spec, "b1")
    assert report.details[MANY]["rows that were rebuilt"] == 1
    now = {row._waybill_key: row for row in lake.read(full).collect()}
    assert now == {key: row for key, row in was.items() if key != '{"id":"9"}'}
    columns = (column("bigint", MYSQL)._replace(name="id"),)
    source = SourceTable(("shop", "many"), columns)
    facts = (MANY, "", source, columns, True, columns, ())
    compared = Compared(*facts, ("id",), read=columns, masks=(None,))
    upto = lake.head(lake.log("changes"))
    assert changed_keys(lake, compared, ("shop", "", "many"), after, upto) == {'["9"]'}


@pytest.mark.parametrize("late", [False, True])
def test_a_statement_without_an_id_stays_where_it_is(lake, migration, late: bool) -> None:
    """The change in front of it that gives it its number comes again. It is not late, unless one
    with a higher number comes as well; else rows of other keys keep every byte."""
    spec, name = migration(), "shop.t"
    in_front = row(8, 2, place=(0, 2), n="1")
    first = [row(7, 1, place=(0, 1), n="1"), in_front, statement(TIER)]
    put(lake, "b0", [*first, row(20, 3, place=(1, 1), n="1")], [TABLE])
    step(lake, spec, "b0")
    full = lake.merged_tables()[name]
    was = {row._waybill_key: row for row in lake.read(full).collect()}
    anew = [{**mark, "key": '{"id":"2"}'} for mark in marks(name, ("b0", "b1"), "b1")]
    behind = [row(30, 4, place=(0, 3), n="1")] if late else []
    put(lake, "b1", [in_front, *behind, *anew], [TABLE], {REBUILT_KEYS: {name: "b1"}})
    report = step(lake, spec, "b1")
    assert report.details[name]["rows that were rebuilt"] == 1
    now = {row._waybill_key: row for row in lake.read(full).collect()}
    assert now['{"id":"1"}'] == was['{"id":"1"}']
    assert (now['{"id":"3"}'] == was['{"id":"3"}']) is not late
    tiers = {image["id"]: image.get("tier") for image in images(lake)}
    assert tiers.pop("4", "basic") == tiers["1"] == tiers["2"] == "basic"
    assert tiers["3"] == ("basic" if late else None)
