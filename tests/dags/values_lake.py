"""A migration with refused messages and changes of rows, in a lake that PyIceberg writes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.dags.showcase import HOSTILE, STEERING, Showcase
from tests.lake_by_hand import catalog_in, commit
from waybill.lake_columns import ARCHIVE, CHANGES, VERIFICATIONS
from waybill.order import order_key

TORN = b'{"database":"shop","table":"orders","type":"INSERT","data":[{"id":"1"'
FOREIGN = b'{"id": \xff\xfe}'
GOOD = json.dumps(
    {
        "database": "shop",
        "table": "orders",
        "type": "INSERT",
        "data": [{"id": "7"}],
        "mysqlType": {"id": "int"},
        "pkNames": ["id"],
        "old": None,
        "es": 1,
        "ts": 2,
        "isDdl": False,
        "sql": "",
        "id": 1,
        "sqlType": {"id": 4},
    }
).encode()
MESSAGES = {0: TORN, 1: FOREIGN, 2: GOOD, 3: None, 4: HOSTILE.encode(), 5: STEERING.encode()}
TABLES = {4: HOSTILE, 5: STEERING}


def refusal(batch: str, offset: int, kind: str, reason: str) -> dict:
    why = {"outcome": "refused", "reason_kind": kind, "reason": reason}
    names = {"database": "shop", "table": TABLES.get(offset, "orders")}
    place = {"topic": "shop/eu", "partition": 0, "offset": offset, "index": 0}
    return {"batch": batch, **place, **why, **names}


def refuse_and_change(showcase: Showcase) -> None:
    """Add the migration `orders`.

    It has refused five messages in its first batch, one of which was taken later, and has changed
    rows of a table that no merge has seen yet. It was verified twice; the second time three rows
    differed.
    """
    showcase.file("orders")
    catalog = catalog_in(showcase.folder / "lake")
    archive = [
        {"batch": "b-1", "topic": "shop/eu", "partition": 0, "offset": offset, "value": value}
        for offset, value in MESSAGES.items()
    ]
    commit(catalog, "orders_log.archive", ARCHIVE, archive, ("b-1", "snapshot", {}, {}))
    first = [
        refusal("b-1", 0, "json", "unexpected end of data: line 1 column 70 (char 69)"),
        refusal("b-1", 1, "json", "the message is not UTF-8"),
        {**refusal("b-1", 2, "value", "column id cannot hold 7"), "outcome": "replayed"},
        refusal("b-1", 4, "shape", f"no field of {HOSTILE}"),
        refusal("b-1", 5, "shape", f"no field of {STEERING}"),
    ]
    cursor = {"archive": {"after": None, "upto": 1}}
    commit(catalog, "orders_log.changes", CHANGES, first, ("b-1", "convert", cursor, {}))
    again = [
        refusal("b-2", 0, "json", "unexpected end of data: line 1 column 70 (char 69)"),
        {**refusal("b-2", 2, "", ""), "outcome": "ok", "reason_kind": None, "reason": None},
    ]
    commit(catalog, "orders_log.changes", CHANGES, again, ("b-2", "convert", cursor, {}))
    rows = [
        change("insert", 1, {"id": "1", "note": "a", "x": None}, None, 5),
        change("update", 2, {"id": "1", "note": HOSTILE}, {"id": "1", "note": "a"}, 6),
        change("update", 3, {"id": "1", "note": "late", "x": None}, None, 4),
        change("delete", 4, None, {"id": "2", "note": "b"}, 7, '{"id":"2"}'),
    ]
    commit(catalog, "orders_log.changes", CHANGES, rows, ("b-3", "convert", cursor, {}))
    for number in (1, 2):
        id_ = f"verify-{number}"
        figures = verification(id_, datetime(2026, 1, number, tzinfo=UTC), number == 2)
        commit(catalog, "orders_log.verifications", VERIFICATIONS, figures, (id_, "verify", {}, {}))


def verification(id_: str, time: datetime, differs: bool) -> list[dict]:
    """What a verification kept: nothing that differs, or three rows of one of two joined tables."""
    figures = {
        "table": "shop.parcels",
        "method": "full",
        "in_database": 12_345,
        "in_lake": 12_344,
        "differing": 3 if differs else 0,
        "undecided": 1,
        "batch": "b-3",
        "position": "0/16B3748",
        "read_at": "2026-01-02T03:04:05Z",
        "complete_up_to": None,
        "sentence": "1 row not decided",
    }
    shard = {**figures, "shard": "shop.parcels_1"}
    of_shard = "shop.parcels of shop.parcels_1"
    other = {**figures, "table": "shop.people", "differing": 0, "sentence": ""}
    common = {"verification": id_, "time": time}
    rows = [
        {**common, "kind": "table", "table": table, "what": "full", "body": json.dumps(body)}
        for table, body in ((of_shard, shard), ("shop.people", other))
    ]
    columns = {
        "note": {"database": HOSTILE, "lake": None},
        "x": {"database": "1.10", "lake": "1.1"},
    }
    for at, what in enumerate(["differs", "missing in the lake", "missing in the database"]):
        key = {"id": "1" if at == 0 else HOSTILE if at == 1 else "7", "shard": "shop.parcels_1"}
        body = {"key": key, "what": what, "columns": columns if at == 0 else {}}
        row = {"kind": "difference", "table": of_shard, "key": str(at), "what": what}
        if differs:
            rows.append({**common, **row, "body": json.dumps(body)})
    return rows


def change(
    operation: str,
    offset: int,
    after: dict | None,
    before: dict | None,
    sequence: int,
    key: str = '{"id":"1"}',
) -> dict:
    """A change in batch b-3 of a table that no merge has seen yet."""
    place = {"topic": "shop/eu", "partition": 1, "offset": offset, "index": 0}
    return {
        "batch": "b-3",
        **place,
        "operation": operation,
        "database": "shop",
        "table": "parcels",
        "key": key,
        "before": None if before is None else json.dumps(before),
        "after": None if after is None else json.dumps(after),
        "order_key": order_key((sequence,), 1, 1, offset, 0),
        "source_time": datetime(2026, 1, 2, 3, 4, sequence, tzinfo=UTC),
        "outcome": "ok",
    }
