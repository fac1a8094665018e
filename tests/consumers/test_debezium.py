"""Kafka Connect's converters and Debezium's own transformation read what is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.consumers.flink_formats import DEBEZIUM, Written
from tests.consumers.java_machine import java_machine
from tests.consumers.sources import (
    Published,
    Reader,
    convert,
    differences,
    recorded_lines,
    recorded_truth,
)

pytestmark = pytest.mark.consumers

WRITTEN = Written("", "debezium-json", {**DEBEZIUM, "uint64": "DECIMAL(20, 0)"})


class Connect:
    """What a sink connector of Kafka Connect sees behind ExtractNewRecordState.

    Args:
        gateway: a Java machine with Debezium's jars.
    """

    def __init__(self, gateway: Any) -> None:
        jvm = gateway.jvm
        self._record = jvm.org.apache.kafka.connect.sink.SinkRecord
        self._keys = jvm.org.apache.kafka.connect.json.JsonConverter()
        self._keys.configure({"schemas.enable": "true", "decimal.format": "NUMERIC"}, True)
        self._values = jvm.org.apache.kafka.connect.json.JsonConverter()
        self._values.configure({"schemas.enable": "true"}, False)
        self._shown = jvm.org.apache.kafka.connect.json.JsonConverter()
        self._shown.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, False)
        self._newest = jvm.io.debezium.transforms.ExtractNewRecordState()
        self._newest.configure({"add.fields": "op,source.table"})

    def rows(self, topic: str, messages: Published) -> Iterator[tuple[Any, Any]]:
        """Key and row of each message, the row None where it is to be deleted."""
        for offset, (key, value) in enumerate(messages):
            keyed = self._keys.toConnectData(topic, key)
            valued = self._values.toConnectData(topic, value)
            record = self._record(
                topic, 0, keyed.schema(), keyed.value(), valued.schema(), valued.value(), offset
            )
            newest = self._newest.apply(record)
            if newest is not None:
                yield (
                    self._json(topic, newest.keySchema(), newest.key()),
                    self._json(topic, newest.valueSchema(), newest.value()),
                )

    def _json(self, topic: str, schema: Any, value: Any) -> Any:
        """A value of Connect, its numbers as their texts."""
        made = self._shown.fromConnectData(topic, schema, value)
        return None if made is None else json.loads(made, parse_float=str, parse_int=str)


@pytest.fixture(scope="module")
def connect() -> Iterator[Connect]:
    with java_machine("debezium") as gateway:
        yield Connect(gateway)


@pytest.mark.parametrize("decimals", ["string", "precise"])
@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
def test_the_recorded_tables(connect, tmp_path, name, decimals):
    table = recorded_truth()[name]
    messages = convert(
        Reader("canal"),
        "debezium-json",
        recorded_lines(name),
        tmp_path,
        schemas=True,
        decimals=decimals,
    )
    rows: dict[tuple, dict] = {}
    for key, row in connect.rows("shop", messages):
        place = tuple(key[column] for column in table.key)
        if row is None:
            rows.pop(place, None)
        else:
            rows[place] = row
    found = {}
    for row in rows.values():
        values = {c: WRITTEN.value(kind, row[c]) for c, kind in table.kinds.items()}
        found[tuple(values[column] for column in table.key)] = values
    assert differences(found, table.rows) == []
