"""What Flink's sinks write is read, and merged to the tables that Flink had.

Flink reads the topic that a Canal server recorded, and writes every change of its tables in its
other formats: rows and the kind of change alone, an update as a delete and an insert.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.consumers.flink_formats import TEXTUAL, WRITTEN, Written
from tests.consumers.sources import differences, recorded_lines, recorded_truth
from tests.spark.conftest import INTERPRETED
from waybill.jobs import read_table, run_migration
from waybill.spec.migration import Migration

pytestmark = [pytest.mark.consumers, pytest.mark.spark]

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "canal-json": ("canal", {"values": "json", "table": "{topic}"}),
    "maxwell-json": ("maxwell", {"table": "{topic}"}),
    "ogg-json": ("ogg", {"table": "{topic}", "column_timezone": "UTC"}),
    # Without `source` the topic names the table.
    "debezium-json": ("debezium-json", {}),
}
"""Envelope and settings that read what a format of Flink's writes."""

TYPES = {
    **TEXTUAL,
    **dict.fromkeys(("bit", "enum", "set"), "BIGINT"),
    "timestamp": "TIMESTAMP_LTZ(6)",
}
"""What Flink writes, by kind of value."""

DECLARED = {
    "BIGINT": "bigint",
    "STRING": "string",
    "DOUBLE": "double",
    "FLOAT": "float",
    "DATE": "date",
    "TIMESTAMP(0)": "timestamp(0)",
    "TIMESTAMP(6)": "timestamp(6)",
    "TIMESTAMP_LTZ(6)": "timestamptz",
    "BYTES": "bytes",
}
"""How a migration declares Flink's types; those of decimals have the same names."""

NOTATIONS = {
    "orders": {},
    "customers": {"timestamp-format.standard": "ISO-8601"},
    "notes": {"encode.decimal-as-plain-number": "true"},
}
"""Options of Flink's formats, by the table that is written with them."""

MERGED = Written("", "", TYPES)


@pytest.fixture(scope="module")
def topics(flink, publish, broker) -> dict[str, list[str]]:
    """Topics by format, one a table, named as databases and tables are."""
    raw, canal = publish([(None, line) for line in recorded_lines()]), WRITTEN["canal-json"]
    made: dict[str, list[str]] = {format: [] for format in FORMATS}
    for name, table in recorded_truth().items():
        with_table = {option: text.format(table=name) for option, text in canal.options.items()}
        given = canal.columns(table)
        source = flink.table(raw, canal.format, given, table.key, with_table)
        written = MERGED.columns(table)
        sinks = []
        for format in FORMATS:
            topic = broker.create_topic(f"{format}.shop.{name}")
            options = {f"{format}.{option}": text for option, text in NOTATIONS[name].items()}
            sinks.append(flink.sink(topic, format, written, options))
            made[format].append(topic)
        flink.write(source, {c: as_written(c, kind) for c, kind in table.kinds.items()}, sinks)
    return made


def as_written(column: str, kind: str) -> str:
    """A column of Canal's rows in the type that is written."""
    if kind in ("bytes", "binary"):
        return f"ENCODE(`{column}`, 'ISO-8859-1')"
    return f"CAST(`{column}` AS {TYPES[kind]})" if kind == "timestamp" else f"`{column}`"


def as_canal_has_it(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Flink read it: Canal leaves out the zero bytes at the end of a BINARY."""
    digest = row.get("hash8")
    return row if digest is None else {**row, "hash8": digest.rstrip(b"\0")}


def declared(type_of_flink: str) -> str:
    return DECLARED.get(type_of_flink, type_of_flink.lower())


@pytest.mark.parametrize("format", list(FORMATS))
def test_the_tables_that_flink_wrote(spark, topics, broker, tmp_path, monkeypatch, format):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    envelope, settings = FORMATS[format]
    tables = {
        f"shop.{name}": {
            "key": list(table.key),
            "columns": {c: declared(of) for c, of in MERGED.columns(table).items()},
        }
        for name, table in recorded_truth().items()
    }
    data = {
        "name": "flink",
        "source": {
            "kafka": {"topics": topics[format]},
            "envelope": envelope,
            "settings": settings,
        },
        "tables": tables,
        "lake": {"warehouse": str(tmp_path / "lake")},
        "spark": {**INTERPRETED, "spark.sql.shuffle.partitions": "1"},
    }
    spec = Migration.model_validate(data)
    waybill = run_migration(spec, spark=spark)
    assert waybill.stage("convert").refused == {}
    for name, table in recorded_truth().items():
        found = {}
        for row in read_table(spec, f"shop.{name}", spark=spark):
            values = {c: MERGED.value(kind, row[c]) for c, kind in table.kinds.items()}
            found[tuple(values[column] for column in table.key)] = values
        assert (
            differences(found, {key: as_canal_has_it(row) for key, row in table.rows.items()}) == []
        )
