"""A recorded stream of PostgreSQL, converted, behind ExtractNewRecordState and in Flink SQL.

Its tables have REPLICA IDENTITY DEFAULT, so updates tell no row before, and large values that did
not change are not sent: their placeholder stands where the connector wrote it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.captures import CAPTURES, COMMON
from tests.consumers.captured import given, truth
from tests.consumers.flink_formats import DEBEZIUM, WRITTEN, Written
from tests.consumers.kafka_connect import Connect
from tests.consumers.sources import Reader, convert, differences, without_signs_of_zero

if TYPE_CHECKING:
    from pathlib import Path

    from tests.consumers.flink_sql import Reading
    from tests.consumers.sources import Published, TruthTable

FOLDER = "debezium-postgres-default"

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.captures,
    pytest.mark.skipif(
        not (CAPTURES / FOLDER).is_dir(), reason="the recorded streams are not here"
    ),
]

READER = Written("", "", DEBEZIUM)
UNSENT = "__debezium_unavailable_value"
INFINITE = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}
"""Microseconds that the connector writes for timestamps without end."""


def value(kind: str, written: Any) -> Any:
    """What Connect's value says, in the terms of the truth."""
    if written is None or kind == "array":
        return written
    if kind == "bool":
        return str(written).lower()
    if kind == "time3":
        return int(written) * 1000
    if kind == "interval":
        return Fraction(int(written))
    if kind == "timetz":
        return COMMON[kind](written)
    found = READER.value(kind, written)
    return INFINITE.get(found, found) if kind == "datetime6" else found


def tables_rows(connect: Connect, messages: Published, table: TruthTable) -> dict[tuple, dict]:
    """Rows by key, where a sink leaves alone what was not sent."""
    rows: dict[tuple, dict] = {}
    for key, row in connect.rows("shop", messages):
        place = tuple(value(table.kinds[column], key[column]) for column in table.key)
        if row is None:
            rows.pop(place, None)
            continue
        values = {column: value(kind, row[column]) for column, kind in table.kinds.items()}
        was = rows.get(place, {})
        rows[place] = {c: was.get(c, v) if unsent(v) else v for c, v in values.items()}
    return rows


def unsent(value: Any) -> bool:
    return value in (UNSENT, UNSENT.encode())


@pytest.mark.parametrize("envelope", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
def test_the_recorded_stream_of_postgresql(connect_java, registry, tmp_path, name, envelope):
    table, avro = truth(FOLDER, name), envelope == "debezium-avro"
    settings = {"registry": registry.url} if avro else {"schemas": True}
    came = given(FOLDER, tmp_path, name)
    messages = convert(Reader("debezium-json"), envelope, came, tmp_path, **settings)
    connect = (
        Connect.of_avro(connect_java, registry.own_url) if avro else Connect.of_json(connect_java)
    )
    found = tables_rows(connect, messages, table)
    true = table.rows if avro else as_json_converter_reads(table.rows)
    # A row that took another key has its large values under the old one alone.
    lost = {(key, c) for key, row in found.items() for c, v in row.items() if unsent(v)}
    assert bool(lost) == (name == "notes")
    for key, column in lost:
        found[key][column] = true[key][column]
    assert differences(found, true) == []


ENDLESS = tuple(COMMON["double"](text) for text in ("nan", "inf", "-inf"))


def as_json_converter_reads(rows: dict[tuple, dict[str, Any]]) -> dict[tuple, dict[str, Any]]:
    """Rows as Kafka Connect's own converter reads them: it makes 0.0 of NaN and infinities."""
    zero = COMMON["double"]("0")
    return without_signs_of_zero(
        {
            key: {column: zero if v in ENDLESS else v for column, v in row.items()}
            for key, row in rows.items()
        }
    )


def read_by_flink(
    flink: Any, publish: Any, folder: Path, label: str, name: str, registry: str = ""
) -> Reading:
    """What Flink makes of a table's changes."""
    written, table = WRITTEN[label], truth(FOLDER, name)
    settings: dict[str, Any] = {"full_rows": "insert"} if label == "maxwell-json" else {}
    options: dict[str, str] = {}
    if written.apart:
        settings |= {"registry": registry, "decimals": "precise"}
        options[f"{written.format}.url"] = registry
    came = given(FOLDER, folder, name)
    messages = convert(Reader("debezium-json"), written.envelope, came, folder, **settings)
    columns = written.columns(table)
    declared = flink.table(publish(messages), written.format, columns, table.key, options)
    return flink.read(declared, columns)


@pytest.mark.parametrize("name", ["customers", "notes"])
@pytest.mark.parametrize("label", ["canal-json", "maxwell-json"])
def test_flink_reads_updates_without_the_row_before(flink, publish, tmp_path, label, name):
    table = truth(FOLDER, name)
    reading = read_by_flink(flink, publish, tmp_path, label, name)
    assert reading.error is None
    found = WRITTEN[label].rows_by_key(reading, table)
    # A column that was not sent is left out, and Flink has no other word for that than null.
    nulls = {
        (key, column)
        for key, row in found.items()
        for column, value in row.items()
        if value is None and table.rows[key][column] is not None
    }
    assert {column for _, column in nulls} == ({"body", "bin"} if name == "notes" else set())
    for key, column in nulls:
        found[key][column] = table.rows[key][column]
    assert differences(found, table.rows) == []


@pytest.mark.parametrize("label", ["ogg-json", "debezium-json", "debezium-avro-confluent"])
def test_flink_ends_at_an_update_without_the_row_before(flink, publish, registry, tmp_path, label):
    error = read_by_flink(flink, publish, tmp_path, label, "customers", registry.url).error
    assert error is not None
    assert "check the Postgres table has been set REPLICA IDENTITY to FULL" in error
