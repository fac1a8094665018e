"""Halves of updates that met in no task, settled group by group."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.convert.halves import SPENT, group_of, settle
from waybill.lake_columns import CHANGES
from waybill.order import order_key
from waybill.records import Column, TableSchema, intern_schema

SCHEMAS = {
    id_: intern_schema("shop", None, "t", tuple(map(Column, names)), ("id",))
    for id_, names in {"s1": ("id", "v"), "s2": ("id",)}.items()
}


def row(which: str, seq: int, offset: int, key: str = "1", **more) -> dict:
    image = json.dumps({"id": key, "v": which}, separators=(",", ":"))
    blank = dict.fromkeys(CHANGES.names)
    return {
        **blank,
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "index": 0,
        "batch": "old",
        "operation": "update",
        "database": "shop",
        "table": "t",
        "key": json.dumps({"id": key}),
        "before" if which == "before" else "after": image,
        "order_key": order_key((seq,), 0 if which == "before" else 1, 0, offset, 0),
        "schema_id": "s1",
        "half": which,
        "outcome": "waiting",
        "raw": b"bytes",
        **more,
    }


def settled(rows: list[dict], sizes: int = 2) -> list[dict]:
    ordered = sorted(rows, key=lambda r: (group_of(r), r["order_key"]))
    parts = [ordered[i : i + sizes] for i in range(0, len(ordered), sizes)]
    batches = [pa.RecordBatch.from_pylist(part, CHANGES) for part in parts]
    return [r for b in settle(batches, "new", SCHEMAS.__getitem__) for r in b.to_pylist()]


def test_a_pair_becomes_one_update() -> None:
    spent, update = settled([row("after", 7, 1), row("before", 7, 9)])
    assert spent["outcome"] == SPENT
    assert (update["outcome"], update["batch"], update["half"]) == ("ok", "new", None)
    assert (update["offset"], update["raw"], update["old_key"]) == (1, None, None)
    assert json.loads(update["before"])["v"] == "before"
    assert json.loads(update["after"])["v"] == "after"


WITHOUT_V = {"schema_id": "s2", "after": '{"id":"3"}'}


def test_another_key_before_is_kept_and_so_is_a_column_that_was_dropped_meanwhile() -> None:
    """The update has a schema that tells the columns of both halves, and brings it along."""
    _, joined, update = settled([row("before", 7, 1, "2"), row("after", 7, 2, "3", **WITHOUT_V)])
    assert update["old_key"] == '{"id": "2"}'
    assert json.loads(update["before"]) == {"id": "2", "v": "before"}
    assert json.loads(update["after"]) == {"id": "3"}
    assert (joined["outcome"], joined["batch"], joined["schema_id"]) == (
        "schema",
        "new",
        update["schema_id"],
    )
    schema = TableSchema.from_json(joined["extra"])
    assert (schema.id, schema.names) == (update["schema_id"], ("id", "v"))
    twice = [row(which, 8, offset) for which, offset in (("before", 3), ("after", 4))]
    twice[1] |= WITHOUT_V
    pairs = [row("before", 7, 1, "2"), row("after", 7, 2, "3", **WITHOUT_V), *twice]
    assert [r["outcome"] for r in settled(pairs)].count("schema") == 1


@pytest.mark.parametrize(
    "other", [{"table": "u"}, {"database": None}, {"schema": ""}, {"database": "shop2"}]
)
def test_halves_of_different_tables_do_not_meet(other: dict) -> None:
    outcomes = sorted(
        r["outcome"] for r in settled([row("before", 7, 1), row("after", 7, 2, **other)])
    )
    assert outcomes == ["waiting", "waiting"]


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_lone_half_waits_untouched(which: str) -> None:
    lone = row(which, 7, 1)
    assert settled([lone]) == [lone]


@pytest.mark.parametrize("which", ["before", "after"])
def test_of_equal_halves_one_waits(which: str) -> None:
    first, second = settled([row(which, 7, 1), row(which, 7, 2)])
    assert (first["outcome"], first["offset"]) == ("waiting", 1)
    assert (second["outcome"], second["reason_kind"]) == ("skipped", "duplicate half")


def joined_before() -> dict:
    """An update whose halves met in a task or in an earlier batch."""
    *_, update = settled([row("before", 7, 1, "1"), row("after", 7, 2, "2")])
    return update


@pytest.mark.parametrize(("which", "key"), [("before", "1"), ("after", "2")])
def test_a_half_of_an_update_that_was_joined_before_is_a_duplicate(which: str, key: str) -> None:
    (copy,) = settled([joined_before(), row(which, 7, 9, key)])
    assert (copy["offset"], copy["outcome"], copy["half"]) == (9, "skipped", None)
    assert copy["reason_kind"] == "duplicate half"


def test_a_half_that_contradicts_an_update_that_was_joined_before() -> None:
    halves = [row("before", 7, 8, "5"), row("after", 7, 9, "6")]
    before, after = settled([joined_before(), *halves])
    assert (before["outcome"], before["reason_kind"], before["raw"]) == (
        "refused",
        "pair",
        b"bytes",
    )
    assert (after["outcome"], after["before"], after["batch"]) == ("ok", None, "new")


def test_two_updates_under_one_id_are_not_mixed() -> None:
    """The first of both has its row before; the row before of the other is refused with bytes."""
    rows = [row("before", 7, 1), row("before", 7, 2, "2"), row("after", 7, 3)]
    out = {r["offset"]: r for r in settled([*rows, row("after", 7, 4, "2")])}
    assert out[1]["outcome"] == SPENT
    assert (out[2]["outcome"], out[2]["reason_kind"], out[2]["half"]) == ("refused", "pair", None)
    assert (out[2]["raw"], out[2]["batch"]) == (b"bytes", "new")
    assert "no two updates of a table may share an id" in out[2]["reason"]
    assert (json.loads(out[3]["before"])["id"], out[3]["old_key"]) == ("1", None)
    assert (out[4]["outcome"], out[4]["before"], out[4]["old_key"]) == ("ok", None, None)


HALVES = st.lists(st.tuples(st.sampled_from(["before", "after"]), st.integers(0, 3)), max_size=14)


@given(HALVES, st.integers(1, 5))
def test_every_half_is_accounted_for(halves: list[tuple[str, int]], sizes: int) -> None:
    rows = [row(which, seq, offset) for offset, (which, seq) in enumerate(halves)]
    out = settled(rows, sizes)
    assert sorted(r["offset"] for r in out) == sorted(r["offset"] for r in rows)
    for seq in range(4):
        befores = [o for o, half in enumerate(halves) if half == ("before", seq)]
        afters = [o for o, half in enumerate(halves) if half == ("after", seq)]
        got = {r["offset"]: r["outcome"] for r in out}
        for mine, others, joined in ((befores, afters, SPENT), (afters, befores, "ok")):
            outcomes = [got[offset] for offset in mine]
            assert outcomes[:1] == [joined if others else "waiting"][: len(mine)]
            assert set(outcomes[1:]) <= {"skipped"}
