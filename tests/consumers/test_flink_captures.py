"""Flink SQL makes the databases' own tables of recorded streams, converted."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.captures import (
    CAPTURES,
    DECLARED,
    as_said,
    capture_of,
    declared,
    from_dump,
    known_losses,
    lines,
    rules,
)
from tests.consumers.flink_formats import WRITTEN
from tests.consumers.sources import Reader, TruthTable, convert, differences
from waybill.layout import ARCHIVE
from waybill.spec import Table, table_rules

STATE = "s2-before-alter"
"""Flink's tables do not follow an ALTER."""

CASES = [
    ("debezium-mariadb", "debezium-json"),
    ("debezium-mariadb", "debezium-json with schemas"),
    ("debezium-mariadb", "canal-json"),
    ("debezium-mariadb", "ogg-json"),
    ("maxwell-mariadb", "canal-json"),
    ("maxwell-mariadb", "debezium-json"),
    ("maxwell-mariadb", "ogg-json"),
]

ROWS_ONLY = {"canal": {"statements": False}}
"""Flink ends at the statements of the recorded streams."""

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.captures,
    pytest.mark.skipif(
        not (CAPTURES / "debezium-mariadb").is_dir() or not (CAPTURES / "maxwell-mariadb").is_dir(),
        reason="the recorded streams are not here",
    ),
]


def reader(folder: str) -> Reader:
    """How a capture is read."""
    if folder.startswith("debezium"):
        return Reader("debezium-json", rules(folder, {"uint64"}))
    words = {"orders__status": "enum", "orders__tags": "set"}
    tables = declared(folder, set(DECLARED), **words)
    made = table_rules({name: Table.model_validate(table) for name, table in tables.items()})
    return Reader("maxwell", made, {"json_columns": "text", "doubled_quotes": True})


def point(folder: str) -> dict:
    return next(p for p in capture_of(folder)["points"] if p["state"] == STATE)


def truth(folder: str, name: str) -> TruthTable:
    """A table as the database dumped it, with what the messages are known to say otherwise."""
    told, known = capture_of(folder)["tables"][name], known_losses(folder)[STATE]
    kinds = {c: k for c, k in told["columns"].items() if c not in told.get("added", {})}
    table = TruthTable(tuple(told["key"]), kinds, told["scale"], {})
    for line in lines(folder, f"{point(folder)['folder']}/{name}.jsonl"):
        row = json.loads(line)
        values = {c: from_dump(kind, row[c], True) for c, kind in kinds.items()}
        key = tuple(values[column] for column in table.key)
        for column in kinds:
            if (name, key, column) in known:
                values[column] = as_said(kinds[column], known[name, key, column])
        table.rows[key] = values
    return table


def given(folder: str, place: Path) -> list[bytes] | Path:
    """The messages of a capture: values, or what Kafka keeps beside them too."""
    part = lines(folder, "messages.jsonl")[: point(folder)["messages"]]
    if not folder.startswith("debezium"):
        return part
    found = [json.loads(line) for line in part]
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


@pytest.fixture(scope="module")
def converted(publish, tmp_path_factory):
    """A capture in a format, converted and sent once."""
    topics: dict[tuple[str, str], str] = {}

    def topic(folder: str, label: str) -> str:
        if (folder, label) not in topics:
            written, place = WRITTEN[label], tmp_path_factory.mktemp("capture")
            settings = {**written.settings, **ROWS_ONLY.get(written.envelope, {})}
            messages = convert(
                reader(folder), written.envelope, given(folder, place), place, **settings
            )
            topics[folder, label] = publish(messages)
        return topics[folder, label]

    return topic


@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
@pytest.mark.parametrize(("folder", "label"), CASES)
def test_a_recorded_stream(flink, converted, folder, label, name):
    written, table = WRITTEN[label], truth(folder, name)
    columns = written.columns(table)
    options = {option: text.format(table=name) for option, text in written.options.items()}
    place = flink.table(
        converted(folder, label), written.format, columns, table.key, options, written.metadata
    )
    reading = flink.read(place, columns, written.mixed.format(table=name))
    assert reading.error is None
    found = written.rows_by_key(reading, table)
    if folder.startswith("maxwell") and name == "orders":
        # Maxwell leaves out the zero bytes at the end of BINARY(8).
        for row in found.values():
            row["hash8"] = None if row["hash8"] is None else row["hash8"].ljust(8, b"\0")
    # Debezium's snapshots write FLOAT and TIMESTAMP otherwise than its streams, so a row before may
    # differ in them from the row that stands.
    assert differences(found, table.rows) == []
