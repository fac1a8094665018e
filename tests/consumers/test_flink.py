"""Flink SQL makes the same tables of what is published as the database has."""

from __future__ import annotations

import json

import pytest

from tests.consumers.flink_formats import WRITTEN
from tests.consumers.sources import (
    RECORDED,
    Reader,
    convert,
    differences,
    made,
    recorded_lines,
    recorded_truth,
)
from tests.contract import probes
from waybill.envelopes import registry as envelopes

pytestmark = pytest.mark.consumers


@pytest.fixture(scope="module")
def recorded(publish, registry, tmp_path_factory):
    """The recorded Canal topic in a format, converted and sent once."""
    topics = {}

    def topic(label: str, table: str) -> str:
        written = WRITTEN[label]
        only = table if written.apart else None
        if (label, only) not in topics:
            settings = {
                name: value.format(registry=registry.url) if isinstance(value, str) else value
                for name, value in written.settings.items()
            }
            folder = tmp_path_factory.mktemp("recorded")
            lines = recorded_lines(only, written.statements)
            topics[label, only] = publish(
                convert(Reader("canal"), written.envelope, lines, folder, **settings)
            )
        return topics[label, only]

    return topic


@pytest.mark.parametrize("name", list(RECORDED))
@pytest.mark.parametrize("label", list(WRITTEN))
def test_the_recorded_tables(flink, registry, recorded, label, name):
    written, table = WRITTEN[label], recorded_truth()[name]
    columns = written.columns(table)
    settings = {"table": name, "registry": registry.url}
    options = {option: text.format(**settings) for option, text in written.options.items()}
    declared = flink.table(
        recorded(label, name), written.format, columns, table.key, options, written.metadata
    )
    reading = flink.read(declared, columns, written.mixed.format(table=name))
    assert reading.error is None
    assert reading.strays == []
    assert differences(written.rows(reading, table), table.rows) == []


@pytest.fixture(scope="module")
def from_debezium(publish, tmp_path_factory):
    """The recorded topic as Debezium would have sent it, converted to another format."""
    folder = tmp_path_factory.mktemp("debezium")
    convert(Reader("canal"), "debezium-json", recorded_lines(), folder, schemas=True)
    topics: dict[str, str] = {}

    def topic(label: str) -> str:
        if label not in topics:
            given, target = made(folder, "debezium-json"), WRITTEN[label].envelope
            folder_of = tmp_path_factory.mktemp("from_debezium")
            topics[label] = publish(convert(Reader("debezium-json"), target, given, folder_of))
        return topics[label]

    return topic


@pytest.mark.parametrize("name", ["customers", "notes"])
@pytest.mark.parametrize("label", ["canal-json", "maxwell-json", "ogg-json"])
def test_changes_of_the_key_that_came_from_debezium(flink, from_debezium, label, name):
    written, table = WRITTEN[label], recorded_truth()[name]
    columns = written.columns(table)
    options = {option: text.format(table=name) for option, text in written.options.items()}
    declared = flink.table(
        from_debezium(label), written.format, columns, table.key, options, written.metadata
    )
    reading = flink.read(declared, columns, written.mixed.format(table=name))
    assert reading.error is None
    assert reading.strays == []
    assert written.rows(reading, table).keys() == table.rows.keys()


def one_table(flink, publish, label, messages, columns, metadata=""):
    written = WRITTEN[label]
    return flink.table(publish(messages), written.format, columns, ("id",), {}, metadata)


SMALL = {"id": "BIGINT", "b": "STRING"}


def canal(kind: str, row: dict[str, str], old: dict[str, str] | None = None) -> bytes:
    """A message of Canal about one row of a small table."""
    message = {
        "data": [row],
        "database": "d",
        "es": 1700000000000,
        "id": 1,
        "isDdl": False,
        "mysqlType": {"id": "bigint", "b": "varchar(9)"},
        "old": None if old is None else [old],
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "b": 12},
        "table": "t",
        "ts": 1700000000001,
        "type": kind,
    }
    return json.dumps(message).encode()


def test_an_update_that_changes_nothing(flink, publish, tmp_path):
    lines = [canal("INSERT", {"id": "1", "b": "x"}), canal("UPDATE", {"id": "1", "b": "x"}, {})]
    messages = convert(Reader("canal"), "debezium-json", lines, tmp_path)
    reading = flink.read(one_table(flink, publish, "debezium-json", messages, SMALL), SMALL)
    assert reading.error is None
    assert reading.strays == []
    assert +reading.rows == {("1", "x"): 1}


def test_maxwell_s_time_of_a_row_without_one(flink, publish):
    envelope = envelopes.get("maxwell")
    schema = probes.table({"id": "bigint", "b": "varchar(9)"})
    row = probes.change("insert", after={"id": "1", "b": "x"}, schema=schema, source_time=None)
    (message,) = envelope.encoder(envelope.encode_settings()).encode(row, [])
    time = "`time` TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL"
    table = one_table(flink, publish, "maxwell-json", [(message.key, message.value)], SMALL, time)
    reading = flink.read(table, SMALL, "`time` IS NOT NULL")
    assert reading.error is None
    assert +reading.rows == {("1", "x"): 1}
