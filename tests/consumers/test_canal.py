"""Canal's client parses what is published, and its adapter's statements lead to the same tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.consumers.flink_formats import CANAL, Written
from tests.consumers.java_machine import java_machine
from tests.consumers.sources import Reader, convert, differences, recorded_lines, recorded_truth

pytestmark = pytest.mark.consumers


class Adapter:
    """Canal's adapter for relational databases, its parsing in Java and its statements here.

    What a statement does follows RdbSyncService.java of alibaba/canal (client-adapter/rdb), which
    is not published as a jar of its own. A statement that finds no row, or an INSERT that finds
    one, is an error here: the adapter goes on, and the tables differ from then on.
    """

    def __init__(self, gateway: Any) -> None:
        jvm = gateway.jvm
        self._json = jvm.com.alibaba.fastjson2.JSON
        self._flat = jvm.java.lang.Class.forName("com.alibaba.otter.canal.protocol.FlatMessage")
        self._common = jvm.java.lang.Class.forName(
            "com.alibaba.otter.canal.connector.core.consumer.CommonMessage"
        )
        self._to_dml = (
            jvm.com.alibaba.otter.canal.client.adapter.support.MessageUtil.flatMessage2Dml
        )
        feature = jvm.com.alibaba.fastjson2.JSONWriter.Feature
        self._shown = gateway.new_array(feature, 1)
        self._shown[0] = feature.WriteNulls

    def parsed(self, value: bytes) -> dict[str, Any]:
        """A message as the client's FlatMessage class holds it."""
        message = self._json.parseObject(value.decode(), self._flat)
        return json.loads(self._json.toJSONString(message, self._shown))

    def dml(self, value: bytes) -> dict[str, Any]:
        """A message as the adapter holds it."""
        message = self._json.parseObject(value.decode(), self._common)
        made = self._to_dml("example", "g1", message)
        return json.loads(self._json.toJSONString(made, self._shown))

    def apply(
        self, tables: dict[str, dict[tuple, dict]], keys: dict[str, tuple], value: bytes
    ) -> None:
        """Run the statements of a message."""
        dml = self.dml(value)
        if dml["isDdl"] or dml["table"] not in tables:
            return
        rows, key = tables[dml["table"]], keys[dml["table"]]
        if dml["type"] == "TRUNCATE":
            rows.clear()
        olds = dml["old"] or [None] * len(dml["data"] or [])
        for row, old in zip(dml["data"] or [], olds, strict=True):
            # Where the key changed, the condition is over its old values.
            place = tuple({**row, **(old or {})}[column] for column in key)
            if dml["type"] == "INSERT":
                assert place not in rows, dml
                rows[place] = dict(row)
            elif dml["type"] == "DELETE":
                assert rows.pop(place, None) is not None, dml
            elif dml["type"] == "UPDATE" and old:
                assert place in rows, dml
                found = {**rows.pop(place), **{column: row[column] for column in old}}
                rows[tuple(found[column] for column in key)] = found


@pytest.fixture(scope="module")
def adapter() -> Iterator[Adapter]:
    with java_machine("canal") as gateway:
        yield Adapter(gateway)


def test_the_recorded_tables(adapter, tmp_path):
    truth = recorded_truth()
    tables: dict[str, dict[tuple, dict]] = {name: {} for name in truth}
    keys = {name: table.key for name, table in truth.items()}
    for _, value in convert(Reader("canal"), "canal", recorded_lines(), tmp_path):
        assert value is not None
        # The client's class loses nothing of a message.
        assert adapter.parsed(value).items() >= json.loads(value).items()
        adapter.apply(tables, keys, value)
    written = Written("", "canal", CANAL)
    for name, table in truth.items():
        found = {}
        for row in tables[name].values():
            values = {c: written.value(kind, row[c]) for c, kind in table.kinds.items()}
            found[tuple(values[column] for column in table.key)] = values
        assert differences(found, table.rows) == []
