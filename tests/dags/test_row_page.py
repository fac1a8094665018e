"""A row as of any batch: what the table had then, and which changes counted until then."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.dags.showcase import HOSTILE, Showcase
from tests.lake_by_hand import catalog_in, commit
from waybill.lake.history import History
from waybill.lake.table_properties import CUT_TABLES, KEPT_SINCE
from waybill.lake_columns import CHANGES, MERGES
from waybill.merge.columns import MergedColumn
from waybill.merge.explain import LEFT
from waybill.merge.state import MergeState, TableState
from waybill.order import order_key
from waybill.overview.schema import PUBLISHED, VERSION, BatchLine, EndpointPlace, Index, TableLine
from waybill_airflow.web import row_view as row_module
from waybill_airflow.web.rendering import page
from waybill_airflow.web.row_view import row_view

pytestmark = pytest.mark.airflow

COLUMNS = ("_waybill_key", "_waybill_order", "_waybill_image", "_waybill_batch")
MERGED = pa.schema(
    [*((name, pa.string()) for name in COLUMNS), pa.field("_waybill_deleted", pa.bool_())]
)
FULL = "orders.shop_parcels"
B1, B2, B3 = "b-1", "b-2", "b-3"


def change(batch: str, operation: str, offset: int, key: str, after: dict | None) -> dict:
    return {
        "batch": batch,
        "topic": "shop",
        "partition": 0,
        "offset": offset,
        "index": 0,
        "operation": operation,
        "database": "shop",
        "table": "parcels",
        "key": json.dumps({"id": key}, separators=(",", ":")),
        "after": None if after is None else json.dumps(after),
        "order_key": order_key((offset,), 1, 0, offset, 0),
        "source_time": datetime(2026, 1, 2, 3, 4, offset, tzinfo=UTC),
        "outcome": "ok",
    }


def kept(batch: str, key: str, image: dict | None) -> dict:
    return {
        "_waybill_key": json.dumps({"id": key}, separators=(",", ":")),
        "_waybill_image": json.dumps(image or {"id": key}),
        "_waybill_batch": batch,
        "_waybill_deleted": image is None,
    }


@pytest.fixture
def place(tmp_path):
    """Three batches that insert, update and delete row 1, and leave row 2 alone."""
    showcase = Showcase(tmp_path)
    showcase.file("orders")
    catalog = catalog_in(tmp_path / "lake")
    catalog.create_namespace_if_not_exists("orders")
    properties = {"waybill.table": "shop.parcels"}
    table = catalog.create_table(FULL, MERGED, properties=properties)
    first = [
        change(B1, "insert", 1, "1", {"id": "1", "note": "first"}),
        change(B1, "insert", 2, "2", {"id": "2", "note": "other"}),
    ]
    second = [change(B2, "update", 3, "1", {"id": "1", "note": HOSTILE})]
    third = [change(B3, "delete", 4, "1", None)]
    states = {
        B1: [kept(B1, "1", {"id": "1", "note": "first"}), kept(B1, "2", {"id": "2", "note": "o"})],
        B2: [kept(B2, "1", {"id": "1", "note": HOSTILE}), kept(B1, "2", {"id": "2", "note": "o"})],
        B3: [kept(B3, "1", None), kept(B1, "2", {"id": "2", "note": "o"})],
    }
    columns = tuple(MergedColumn(name, name, "string") for name in ("id", "note", "late"))
    state = MergeState(tables={"shop.parcels": TableState(columns=columns)})
    after = None
    for batch, rows in zip(states, (first, second, third), strict=True):
        commit(catalog, "orders_log.changes", CHANGES, rows, (batch, "convert", {}, {}))
        changes = catalog.load_table("orders_log.changes").current_snapshot().snapshot_id
        body = {"batch": batch, "kind": "state", "body": state.to_json()}
        cursor = {"after": after, "changes": changes, "branches": {}}
        commit(catalog, "orders_log.merges", MERGES, [body], (batch, "merge", cursor, {}))
        stamp = {"waybill.batch": batch, "waybill.stage": "merge", "waybill.cursor": "{}"}
        filled = [{**dict.fromkeys(MERGED.names), **row} for row in states[batch]]
        data = pa.Table.from_pylist(filled, MERGED)
        table.overwrite(data, snapshot_properties={**stamp, "waybill.report": "{}"})
        after = changes
    return showcase


def index() -> Index:
    lines = [BatchLine(name, "", PUBLISHED, 1, 2) for name in (B3, B2, B1)]
    where = EndpointPlace("x", "x", "x")
    return Index(VERSION, "orders", 1, where, [], lines, tables=[TableLine("shop.parcels")])


def shown(place, as_of: str = "", key: str = "1", table: str = "shop.parcels"):
    return row_view(place.file("orders"), table, key, as_of, index())


def words(view) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page("row", view=view)).split())


@pytest.mark.parametrize(
    ("as_of", "row", "batch"),
    [
        (B1, [("id", "1"), ("note", "first"), ("late", "null")], B1),
        (B2, [("id", "1"), ("note", HOSTILE), ("late", "null")], B2),
        (B3, None, B3),
        ("", None, B3),
    ],
)
def test_the_row_is_what_the_table_had_then(place, as_of, row, batch):
    state = shown(place, as_of).state
    assert state.problem == ""
    assert [None if one is None else sorted(one) for one in state.rows] == [
        None if row is None else sorted(row)
    ]
    assert state.batches == [batch]
    assert state.command.endswith(f"shop.parcels --as-of {as_of}" if as_of else "shop.parcels")


@pytest.mark.parametrize(
    ("as_of", "later"),
    [(B1, [False, True, True]), (B2, [False, False, True]), (B3, [False] * 3), ("", [False] * 3)],
)
def test_changes_that_came_later_do_not_count(place, as_of, later):
    changes = shown(place, as_of).changes
    assert [change.later for change in changes] == later
    counting = [change for change in changes if not change.later]
    assert "won, it is the newest" in counting[-1].outcome
    assert all("superseded" in change.outcome for change in counting[:-1])
    assert all(c.outcome == f"came after batch {as_of}" for c in changes if c.later)


def test_of_too_many_changes_the_newest_are_shown(place, monkeypatch):
    """The one that won is among them; a TRUNCATE that took nothing away takes no place of them."""
    truncate = {**change("b-4", "truncate", 9, "1", None), "key": None}
    written = ("b-4", "convert", {}, {})
    commit(catalog_in(place.folder / "lake"), "orders_log.changes", CHANGES, [truncate], written)
    monkeypatch.setattr(row_module, "MOST", 2)
    view = shown(place)
    assert [one.operation for one in view.changes] == ["update", "delete"]
    assert "won, it is the newest" in view.changes[-1].outcome
    assert view.more
    assert "the newest 2; older ones are not shown" in words(view)
    monkeypatch.setattr(row_module, "MOST", 3)
    assert [one.operation for one in shown(place).changes] == ["insert", "update", "delete"]
    assert not shown(place).more


def test_what_retention_has_deleted_is_said(place):
    log = catalog_in(place.folder / "lake").load_table("orders_log.changes")
    with log.transaction() as change_of:
        change_of.set_properties({KEPT_SINCE: "1763618400000", CUT_TABLES: '{"shop.parcels": "1"}'})
    view = shown(place)
    assert "won, it is the newest" in view.changes[-1].outcome
    said = "Not all are here: retention has deleted changes of batches that ended before 2025-11-20"
    assert said in words(view)
    assert LEFT in shown(place, B2).changes[1].outcome
    assert shown(place, key="7").state is None


def test_the_page_lets_choose_a_batch(place):
    view = shown(place, B2)
    text = page("row", view=view)
    assert re.findall(r"<option( selected)?>(b-\d)</option>", text) == [
        ("", B3),
        (" selected", B2),
        ("", B1),
    ]
    assert "<script>alert" not in text
    assert "Outcomes are as of batch b-2." in words(view)
    assert "It is deleted, by batch b-3" in words(shown(place))
    assert '<section class="change later"' in text


def test_a_batch_that_nobody_knows_is_said_to_be_unknown(place):
    view = shown(place, "b-77")
    assert "there is no batch" in view.state.problem or "b-77" in view.state.problem
    assert view.state.rows == []
    assert len(view.changes) == 3
    assert not any(change.later for change in view.changes)
    said = words(view)
    assert "whose state is no longer known, so they are as of now" in said
    assert "b-77" in re.findall(r"<option selected>([^<]+)<", page("row", view=view))


def test_a_snapshot_that_has_expired_is_said_to_have(place, tmp_path, monkeypatch):
    table = catalog_in(tmp_path / "lake").load_table(FULL)
    keep = table.current_snapshot().snapshot_id
    old = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != keep]
    for snapshot in old:
        table.maintenance.expire_snapshots().by_id(snapshot).commit()
    # PyIceberg, unlike Spark, lets the oldest one that is left forget its parent.
    monkeypatch.setattr(History, "known_since", lambda *_: 1)
    view = shown(place, B1)
    assert "upkeep has expired what" in view.state.problem
    assert view.state.rows == []
    assert [change.later for change in view.changes] == [False, True, True], "still known"
    assert "upkeep has expired" in words(view)
    assert shown(place, B3).state.rows == [None]


def test_a_key_of_several_tables_needs_one_named(place):
    state = shown(place, table="").state
    assert state.table == "shop.parcels", "only one has it"
    assert shown(place, key="99").state is None
    assert shown(place, key="").state is None
