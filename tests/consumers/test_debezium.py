"""Kafka Connect's converters and Debezium's own transformation read what is published."""

from __future__ import annotations

from typing import Any

import pytest

from tests.consumers.flink_formats import DEBEZIUM, Written
from tests.consumers.kafka_connect import Connect
from tests.consumers.sources import (
    SHOP,
    Published,
    Reader,
    TruthTable,
    convert,
    differences,
    recorded_lines,
    recorded_truth,
    shop_changes,
    shop_truth,
    without_signs_of_zero,
)

pytestmark = pytest.mark.consumers

WRITTEN = Written("", "debezium-json", {**DEBEZIUM, "uint64": "DECIMAL(20, 0)"})


def newest_rows(
    connect: Connect, messages: Published, table: TruthTable, written: Written = WRITTEN
) -> dict[tuple, dict[str, Any]]:
    """The rows that a sink connector leaves in its table, which it writes by the key."""
    rows: dict[tuple, dict] = {}
    for key, row in connect.rows("shop", messages):
        place = tuple(key[column] for column in table.key)
        if row is None:
            rows.pop(place, None)
        else:
            rows[place] = row
    found = {}
    for row in rows.values():
        values = {c: written.value(kind, row[c]) for c, kind in table.kinds.items()}
        found[tuple(values[column] for column in table.key)] = values
    return found


@pytest.mark.parametrize("decimals", ["string", "precise"])
@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
def test_the_recorded_tables(connect_java, tmp_path, name, decimals):
    table = recorded_truth()[name]
    settings = {"schemas": True, "decimals": decimals}
    messages = convert(Reader("canal"), "debezium-json", recorded_lines(name), tmp_path, **settings)
    connect = Connect.of_json(connect_java)
    assert differences(newest_rows(connect, messages, table), table.rows) == []


@pytest.mark.parametrize("decimals", ["string", "precise"])
@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
def test_the_recorded_tables_in_avro(connect_java, registry, tmp_path, name, decimals):
    table = recorded_truth()[name]
    settings = {"registry": registry.url, "decimals": decimals}
    messages = convert(Reader("canal"), "debezium-avro", recorded_lines(name), tmp_path, **settings)
    connect = Connect.of_avro(connect_java, registry.own_url)
    assert differences(newest_rows(connect, messages, table), table.rows) == []


@pytest.mark.parametrize("envelope", ["debezium-json", "debezium-avro"])
def test_the_words_of_enum_and_set(connect_java, registry, tmp_path, envelope):
    avro = envelope == "debezium-avro"
    settings = {"registry": registry.url} if avro else {"schemas": True}
    ((_, value), *_) = convert(
        Reader("canal"), envelope, recorded_lines("orders"), tmp_path, **settings
    )
    connect = (
        Connect.of_avro(connect_java, registry.own_url) if avro else Connect.of_json(connect_java)
    )
    assert connect.allowed(value, "status") == "new,paid,shipped,it's,完成"
    assert connect.allowed(value, "tags") == "a,b,c,d e"


@pytest.mark.parametrize("envelope", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("name", list(shop_truth()))
def test_the_shop_s_changes_in_order_and_some_twice(
    connect_java, registry, tmp_path, name, envelope
):
    table = shop_truth()[name]
    avro = envelope == "debezium-avro"
    settings = {"registry": registry.url} if avro else {"schemas": True}
    messages = convert(SHOP, envelope, shop_changes(name), tmp_path, **settings)
    connect = (
        Connect.of_avro(connect_java, registry.own_url) if avro else Connect.of_json(connect_java)
    )
    rows = table.rows if avro else without_signs_of_zero(table.rows)
    assert differences(newest_rows(connect, messages, table), rows) == []
