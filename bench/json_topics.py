"""The changes of `topics` in further JSON envelopes, written as their own producers write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from bench.topics import COLUMNS, EPOCH_MS, sequence

if TYPE_CHECKING:
    from bench.topics import Row


def _typed(row: Row | None) -> dict[str, Any] | None:
    """A row with numbers as JSON numbers of all their digits."""
    if row is None:
        return None
    return {
        "id": row.id,
        "name": row.name,
        "comment": row.comment,
        "amount": None if row.amount is None else orjson.Fragment(row.amount),
        "placed_at": row.placed_at,
        "flag": row.flag,
    }


def maxwell(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """Maxwell's message of a change, with position and commit info."""
    row: Row = after or before  # type: ignore[assignment]
    data = _typed(row)
    document = {
        "database": "bench",
        "table": "orders",
        "type": "delete" if after is None else "insert" if before is None else "update",
        "ts": (EPOCH_MS + number) // 1000,
        "xid": 1_000 + number,
        "commit": True,
        "position": f"mysql-bin.000008:{4 + number * 97}",
        "data": data,
    }
    if before and after:
        was = _typed(before) or {}
        changed = [name for name in COLUMNS if getattr(before, name) != getattr(after, name)]
        document["old"] = {name: was[name] for name in changed}
    return [orjson.dumps(document)]


def ogg(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """GoldenGate's JSON operation of a change."""
    row: Row = after or before  # type: ignore[assignment]
    document: dict[str, Any] = {
        "table": "bench.orders",
        "op_type": "D" if after is None else "I" if before is None else "U",
        "op_ts": row.placed_at,
        "current_ts": row.placed_at.replace(" ", "T"),
        "pos": f"{8:010}{4 + number * 97:010}",
        "primary_keys": ["id"],
    }
    if before is not None:
        document["before"] = _typed(before)
    if after is not None:
        document["after"] = _typed(after)
    return [orjson.dumps(document)]


def dms(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The record of AWS DMS for Kafka, with before images and transaction details."""
    row: Row = after or before  # type: ignore[assignment]
    time = row.placed_at.replace(" ", "T") + "Z"
    document: dict[str, Any] = {"data": _typed(row)}
    if before and after:
        document["before-image"] = _typed(before)
    document["metadata"] = {
        "timestamp": time,
        "record-type": "data",
        "operation": "delete" if after is None else "insert" if before is None else "update",
        "partition-key-type": "schema-table",
        "schema-name": "bench",
        "table-name": "orders",
        "transaction-id": 1_000 + number,
        "transaction-record-id": 1,
        "commit-timestamp": time,
        "stream-position": f"mysql-bin.000008:{4 + number * 97}:0:{4 + number * 97}:0",
    }
    return [orjson.dumps(document)]


def dms_s3(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """A row of a file of AWS DMS."""
    row: Row = after or before  # type: ignore[assignment]
    letter = "D" if after is None else "I" if before is None else "U"
    return [orjson.dumps({"Op": letter, **(_typed(row) or {})})]


TUPLE_FIELDS = {
    "_sequence_id_": "STRING",
    "_operation_type_": "STRING",
    "_excute_time_": "STRING",
    "_source_table_": "STRING",
    "_before_image_": "STRING",
    "_after_image_": "STRING",
    "id": "BIGINT",
    "name": "STRING",
    "comment": "STRING",
    "amount": "DECIMAL",
    "placed_at": "STRING",
    "flag": "TINYINT",
}
"""The schema of the TUPLE topic, in order."""


def datahub_tuple(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The records of a TUPLE topic as the service gives them: two for an update."""
    kind = "D" if after is None else "I" if before is None else "U"
    head = [str(sequence(number)), kind, str(EPOCH_MS + number), "bench.orders"]

    def record(row: Row, flags: tuple[str, str]) -> bytes:
        values = [str(row.id), row.name, row.comment, row.amount, row.placed_at, str(row.flag)]
        return orjson.dumps({"Data": [*head, *flags, *values], "Attributes": {}})

    records = [] if before is None else [record(before, ("Y", "N"))]
    return records if after is None else [*records, record(after, ("N", "Y"))]


WRITERS = {
    "datahub-tuple": datahub_tuple,
    "maxwell": maxwell,
    "ogg": ogg,
    "dms": dms,
    "dms-s3": dms_s3,
}
"""Envelopes whose messages nothing but JSON is needed for."""
