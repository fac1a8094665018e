"""The recorded streams as consumers are given them, and their tables as the databases have them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.captures import as_said, capture_of, from_dump, is_mariadb, known_losses, lines
from tests.consumers.sources import TruthTable
from waybill.lake_columns import ARCHIVE

STATE = "s2-before-alter"
"""The point up to which streams are read: Flink's tables do not follow an ALTER."""


def point(folder: str) -> dict:
    return next(p for p in capture_of(folder)["points"] if p["state"] == STATE)


def truth(folder: str, name: str) -> TruthTable:
    """A table as the database dumped it, with what the messages are known to say otherwise."""
    capture, known = capture_of(folder)["tables"][name], known_losses(folder)[STATE]
    kinds = {c: k for c, k in capture["columns"].items() if c not in capture.get("added", {})}
    table = TruthTable(tuple(capture["key"]), kinds, capture["scale"], {})
    for line in lines(folder, f"{point(folder)['folder']}/{name}.jsonl"):
        row = json.loads(line)
        values = {c: from_dump(kind, row[c], is_mariadb(folder)) for c, kind in kinds.items()}
        key = tuple(values[column] for column in table.key)
        for column in kinds:
            if (name, key, column) in known:
                values[column] = as_said(kinds[column], known[name, key, column])
        table.rows[key] = values
    return table


def given(folder: str, place: Path, name: str | None = None) -> list[bytes] | Path:
    """The messages of a capture: values, or what Kafka keeps beside them too.

    Args:
        folder: the capture.
        place: where a file may be written.
        name: only messages of this table, where each has a topic.
    """
    part = lines(folder, "messages.jsonl")[: point(folder)["messages"]]
    if not folder.startswith("debezium"):
        return part
    found = [json.loads(line) for line in part]
    found = [message for message in found if name in (None, message["topic"].split(".")[-1])]
    for message in found:
        for name in ("key", "value"):
            message[name] = None if message[name] is None else message[name].encode()
        message["headers"] = [
            {"key": h["key"], "value": None if h["value"] is None else h["value"].encode()}
            for h in message["headers"]
        ]
    names = ("topic", "partition", "offset", "key", "value", "headers")
    schema = pa.schema([ARCHIVE.field(name).with_nullable(True) for name in names])
    pq.write_table(pa.Table.from_pylist(found, schema), place / "capture.parquet")
    return place / "capture.parquet"
