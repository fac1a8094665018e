"""Canal's client parses what is published, and its adapter's statements lead to the same tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.consumers.flink_formats import CANAL, Written
from tests.consumers.java_machine import java_machine
from tests.consumers.sources import (
    SHOP,
    Reader,
    TruthTable,
    convert,
    differences,
    recorded_lines,
    recorded_truth,
    shop_changes,
    shop_truth,
)

pytestmark = pytest.mark.consumers

WRITTEN = Written("", "canal", CANAL)


class Adapter:
    """Canal's adapter for relational databases, its parsing in Java and its statements here.

    What a statement does follows RdbSyncService.java of alibaba/canal (client-adapter/rdb), which
    is not published as a jar of its own. A statement that finds no row, or an INSERT that finds
    one, is an error here unless it was asked for.

    Args:
        gateway: a Java machine with Canal's jars.
    """

    def __init__(self, gateway: Any) -> None:
        self.again = False
        """Whether changes may come again. A statement that finds no row does nothing then, and an
        INSERT that finds one is left out (`skipDupException`)."""
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
        olds = dml["old"] or [None] * len(dml["data"] or [])
        for row, old in zip(dml["data"] or [], olds, strict=True):
            # Where the key changed, the condition is over its old values.
            place = tuple({**row, **(old or {})}[column] for column in key)
            if dml["type"] == "INSERT":
                assert place not in rows or self.again, dml
                rows.setdefault(place, dict(row))
            elif place not in rows:
                assert self.again, dml
            elif dml["type"] == "DELETE":
                del rows[place]
            elif dml["type"] == "UPDATE" and old:
                found = {**rows[place], **{column: row[column] for column in old}}
                del rows[place]
                goal = tuple(found[column] for column in key)
                assert goal not in rows, dml
                rows[goal] = found


@pytest.fixture(scope="module")
def canal_java() -> Iterator[Any]:
    with java_machine("canal") as gateway:
        yield gateway


@pytest.fixture
def adapter(canal_java) -> Adapter:
    return Adapter(canal_java)


def test_the_recorded_tables(adapter, tmp_path):
    truth = recorded_truth()
    tables: dict[str, dict[tuple, dict]] = {name: {} for name in truth}
    keys = {name: table.key for name, table in truth.items()}
    for _, value in convert(Reader("canal"), "canal", recorded_lines(), tmp_path):
        assert value is not None
        # The client's class loses nothing of a message.
        assert adapter.parsed(value).items() >= json.loads(value).items()
        adapter.apply(tables, keys, value)
    for name, table in truth.items():
        assert differences(found_rows(tables[name], table), table.rows) == []


def found_rows(rows: dict[tuple, dict], table: TruthTable) -> dict[tuple, dict[str, Any]]:
    """The adapter's rows in the terms of the truth."""
    found = {}
    for row in rows.values():
        values = {c: WRITTEN.value(kind, row[c]) for c, kind in table.kinds.items()}
        found[tuple(values[column] for column in table.key)] = values
    return found


def test_the_shop_s_changes_in_order_and_some_twice(adapter, tmp_path):
    adapter.again = True
    truth = shop_truth()
    tables: dict[str, dict[tuple, dict]] = {name: {} for name in truth}
    keys = {name: table.key for name, table in truth.items()}
    for _, value in convert(SHOP, "canal", shop_changes(), tmp_path):
        assert value is not None
        assert adapter.parsed(value).items() >= json.loads(value).items()
        adapter.apply(tables, keys, value)
    for name, table in truth.items():
        assert differences(found_rows(tables[name], table), table.rows) == []


def event(kind: str, **fields: Any) -> bytes:
    """A message of Canal's, of a row where nothing else is said."""
    message = {
        "data": None,
        "database": "d",
        "es": 1700000000000,
        "gtid": "",
        "id": 1,
        "isDdl": False,
        "mysqlType": None,
        "old": None,
        "pkNames": None,
        "sql": "",
        "sqlType": None,
        "table": "",
        "ts": 1700000000001,
        "type": kind,
        **fields,
    }
    return json.dumps(message).encode()


def inserted(number: int) -> bytes:
    return event(
        "INSERT",
        table="t",
        data=[{"id": str(number)}],
        pkNames=["id"],
        mysqlType={"id": "bigint"},
        sqlType={"id": -5},
        gtid="a-1",
    )


EVENTS = {
    "GTID": event("GTID", gtid="a-1"),
    "XA": event("XACOMMIT", sql="XA COMMIT 'x'"),
    "heartbeat": event("MHEARTBEAT"),
    "CREATE": event("CREATE", table="u", isDdl=True, sql="CREATE TABLE u (id BIGINT)"),
    "ALTER": event("ALTER", table="t", isDdl=True, sql="ALTER TABLE t ADD COLUMN c INT"),
    "TRUNCATE": event("TRUNCATE", table="t", isDdl=True, sql="TRUNCATE TABLE t"),
}
"""The adapter reads over all of them. Of a TRUNCATE it keeps the rows, as of Canal's own."""


@pytest.mark.parametrize("name", list(EVENTS))
def test_no_event_stops_the_client_or_the_adapter(adapter, tmp_path, name):
    lines = [inserted(1), EVENTS[name], inserted(2)]
    messages = convert(Reader("canal"), "canal", lines, tmp_path, control_messages=True)
    assert len(messages) == 3
    tables: dict[str, dict[tuple, dict]] = {"t": {}}
    for _, value in messages:
        assert value is not None
        assert adapter.parsed(value).items() >= json.loads(value).items()
        adapter.apply(tables, {"t": ("id",)}, value)
    assert tables["t"].keys() == {("1",), ("2",)}
