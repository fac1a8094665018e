"""The sample shop in topics, and Flink SQL behind them.

The shop's messages come late and twice. A reader that applies changes needs those of a row in
order, so what it is given was put in order first. A reader that goes by the ids takes the topic as
it came, from several partitions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.consumers.flink_formats import WRITTEN, Written
from tests.consumers.sources import (
    SHOP,
    TruthTable,
    convert,
    differences,
    shop_changes,
    shop_lines,
    shop_moves,
    shop_tables,
    shop_truth,
    without_signs_of_zero,
)
from tests.kafka.producing import send
from tests.spark.conftest import INTERPRETED
from waybill.connections import Connection
from waybill.jobs import read_table, run_migration
from waybill.kafka.client import properties
from waybill.spec.migration import Migration

pytestmark = [pytest.mark.consumers, pytest.mark.spark]

ROWS_AS_INSERTS = {"maxwell": {"full_rows": "insert"}}
"""Flink stops at Maxwell's own word for full rows."""


@pytest.fixture(scope="module")
def in_order(publish, registry, tmp_path_factory):
    """A table's changes in a format, in order, converted and sent once."""
    topics: dict[tuple[str, str], str] = {}

    def topic(label: str, name: str) -> str:
        if (label, name) not in topics:
            written = WRITTEN[label]
            settings = {
                option: value.format(registry=registry.url) if isinstance(value, str) else value
                for option, value in written.settings.items()
            }
            settings |= ROWS_AS_INSERTS.get(written.envelope, {})
            folder = tmp_path_factory.mktemp("shop")
            messages = convert(SHOP, written.envelope, shop_changes(name), folder, **settings)
            topics[label, name] = publish(messages)
        return topics[label, name]

    return topic


@pytest.fixture
def duplicates_known(flink) -> Iterator[None]:
    """Flink keeps the newest row of each key, as it does for topics of at-least-once."""
    flink.set("table.exec.source.cdc-events-duplicate", "true")
    yield
    flink.set("table.exec.source.cdc-events-duplicate", "false")


@pytest.mark.parametrize("name", list(shop_truth()))
@pytest.mark.parametrize("label", list(WRITTEN))
def test_changes_in_order_and_some_twice(flink, registry, in_order, duplicates_known, label, name):
    written, table = WRITTEN[label], shop_truth()[name]
    columns = written.columns(table)
    settings = {"table": name, "registry": registry.url}
    options = {option: text.format(**settings) for option, text in written.options.items()}
    declared = flink.table(in_order(label, name), written.format, columns, table.key, options)
    reading = flink.read(declared, columns)
    assert reading.error is None
    assert reading.strays == []
    found = written.rows(reading, table)
    left_behind = {key for key in found if key not in table.rows}
    if written.envelope in ("canal", "maxwell", "ogg"):
        # One update that moves a row leaves the old one there: docs/consumers.md.
        assert left_behind <= {key for of, key in shop_moves() if of == name}
        assert left_behind or name == "customers"
        found = {key: row for key, row in found.items() if key not in left_behind}
    assert differences(found, as_flink_reads(table.rows, written.envelope)) == []


def as_flink_reads(rows: dict[tuple, dict[str, Any]], envelope: str) -> dict[tuple, dict[str, Any]]:
    """Rows as a format leaves them: those that write numbers in JSON lose the sign of -0.0."""
    signed = envelope in ("canal", "tidb-canal", "debezium-avro")
    return rows if signed else without_signs_of_zero(rows)


def test_rows_of_two_tables_in_one_topic_replace_each_other(
    flink, publish, duplicates_known, tmp_path
):
    """Flink keeps rows by their key before it looks at WHERE: docs/consumers.md warns of it."""
    written, table = WRITTEN["debezium-json"], shop_truth()["customers"]
    columns = written.columns(table)
    topic = publish(convert(SHOP, written.envelope, shop_changes(), tmp_path))
    declared = flink.table(topic, written.format, columns, table.key, {}, written.metadata)
    reading = flink.read(declared, columns, written.mixed.format(table="customers"))
    assert reading.error is None
    assert written.rows(reading, table).keys() < table.rows.keys()


class Published:
    """A migration of the shop from three partitions, as it came, to topics of three.

    Args:
        spark: the session.
        broker: where the topics are.
        folder: for the lake.
    """

    def __init__(self, spark: Any, broker: Any, folder: Path) -> None:
        self._spark = spark
        client = properties(Connection("tests", extra={"bootstrap.servers": broker.servers}))
        came = broker.create_topic("shop.came", 3)
        chance = random.Random(1)
        for line in shop_lines():
            send(client, came, [(None, line)], chance.randrange(3))
        self.ogg = broker.create_topic("shop.ogg", 3)
        self.debezium = broker.create_topic("shop.debezium", 3)
        data = {
            "name": "shop",
            "source": {
                "kafka": {"topics": [came]},
                "envelope": "oms-default",
                "settings": SHOP.settings,
            },
            "tables": shop_tables(),
            "publish": [
                {"envelope": "ogg", "kafka": {"topic": self.ogg}},
                {"envelope": "debezium-json", "kafka": {"topic": self.debezium}},
            ],
            "lake": {"warehouse": str(folder / "lake")},
            "spark": {**INTERPRETED, "spark.sql.shuffle.partitions": "1"},
        }
        self._spec = Migration.model_validate(data)
        waybill = run_migration(self._spec, spark=spark)
        assert sum(waybill.stage("convert").refused.values()) == 3

    def merged(self, name: str, table: TruthTable) -> dict[tuple, dict[str, Any]]:
        """A merged table, in the terms of the truth."""
        found = {}
        for row in read_table(self._spec, f"shop.{name}", spark=self._spark):
            values = {c: MERGED.value(kind, row[c]) for c, kind in table.kinds.items()}
            found[tuple(values[column] for column in table.key)] = values
        return found


MERGED = Written("", "", {**WRITTEN["ogg-json"].types, "timestamp": ""})


@pytest.fixture(scope="module")
def published(spark, broker, tmp_path_factory) -> Iterator[Published]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
        patch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
        yield Published(spark, broker, tmp_path_factory.mktemp("published"))


BY_ID = {
    "ogg": ("`pos` STRING, `table` STRING", "`table` = 'shop.{name}'", "COALESCE(`pos`, '')"),
    "debezium": (
        "`source` ROW<`table` STRING, `sequence` STRING>",
        "`source`.`table` = '{name}'",
        "COALESCE(CAST(JSON_VALUE(`source`.`sequence`, '$[0]') AS DECIMAL(38, 0)), -1)",
    ),
}
"""Columns beside the rows, the condition for a table, and the id, by format."""


@pytest.mark.parametrize("name", list(shop_truth()))
@pytest.mark.parametrize("format", list(BY_ID))
def test_the_ids_order_what_came_late_and_through_several_partitions(
    flink, published, format, name
):
    """Flink's own way to the newest row of each key: numbers its rows from the newest on."""
    table = shop_truth()[name]
    assert differences(published.merged(name, table), table.rows) == []
    written = WRITTEN["ogg-json" if format == "ogg" else "debezium-json"]
    columns = written.columns(table)
    beside, condition, number = BY_ID[format]
    row = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    declared = flink.table(
        getattr(published, format),
        "json",
        {"before": f"ROW<{row}>", "after": f"ROW<{row}>"},
        (),
        {},
        beside,
    )
    query = newest_rows(declared, columns, table.key, condition.format(name=name), number)
    reading = flink.newest(query, columns)
    assert reading.strays == []
    assert differences(written.rows(reading, table), table.rows) == []


def newest_rows(
    table: str, columns: dict[str, str], key: tuple[str, ...], condition: str, number: str
) -> str:
    """A query for the rows that stand; one without an id is older than all that have one."""
    after = ", ".join(f"`after`.`{c}` AS `{c}`" for c in columns)
    before = ", ".join(f"`before`.`{c}` AS `{c}`" for c in columns)
    moved = " OR ".join(f"`before`.`{c}` <> `after`.`{c}`" for c in key)
    names, keys = (", ".join(f"`{c}`" for c in each) for each in (columns, key))
    return (
        f"SELECT {names} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} "
        f"ORDER BY `number` DESC) AS `place` FROM ("
        f"SELECT {after}, {number} AS `number`, TRUE AS `there` FROM {table} "
        f"WHERE `after` IS NOT NULL AND {condition} UNION ALL "
        f"SELECT {before}, {number} AS `number`, FALSE AS `there` FROM {table} "
        f"WHERE `before` IS NOT NULL AND (`after` IS NULL OR {moved}) AND {condition}"
        f")) WHERE `place` = 1 AND `there`"
    )
