"""Recorded streams through all five stages: the merged tables are the database's own.

Batches of a stream, held against the dump after each; then what was published is read again,
target by target, and has to lead to the same tables.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.captures import (
    CAPTURES,
    DECLARED,
    Replay,
    capture_of,
    compare,
    declared,
    from_text,
    is_mariadb,
    known_losses,
    lines,
)
from tests.contract.effort import EFFORT
from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.jobs import read_table, run_migration
from waybill.lake import Lake
from waybill.lake_columns import ARCHIVE
from waybill.records import Message
from waybill.spec.migration import Table, table_rules


class Capture(NamedTuple):
    """A recorded stream.

    Attributes:
        folder: its folder.
        file: the messages.
        kinds: kinds of columns that the messages do not say.
        strings: columns that have to be strings in the lake, as `table__column`.
    """

    folder: str
    file: str
    kinds: frozenset[str]
    strings: tuple[str, ...] = ()

    @property
    def envelope(self) -> str:
        return "canal" if self.folder.startswith("canal") else "debezium-json"


WRAPPED = frozenset({"uint64"})
"""A schema says all but one thing: that the sign of a BIGINT UNSIGNED is none."""

INFINITE = ("orders__created_at", "orders__updated_at", "orders__day")
"""Columns of PostgreSQL with infinite times, and with days beyond every calendar."""

CASES = [
    Capture("canal-mariadb", "messages.jsonl", frozenset()),
    Capture("debezium-mariadb", "messages.jsonl", WRAPPED),
    Capture("debezium-postgres-default", "messages.jsonl", WRAPPED, INFINITE),
]
if EFFORT > 1:
    schemaless = frozenset(DECLARED)
    CASES.append(Capture("debezium-mariadb", "messages-schemaless.jsonl", schemaless))

POINTS = ("s2-before-alter", "final")
if EFFORT > 1:
    POINTS = ("s2-before-alter", "s4-before-truncate", "final")

TARGETS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "canal": ("canal", {}, {}),
    "oms-default": ("oms-default", {}, {}),
    "datahub-blob": ("datahub-blob", {}, {}),
    "debezium": ("debezium-json", {}, {"decimals": "string", "unsigned": "number"}),
    "debezium-with-schemas": ("debezium-json", {"schemas": True}, {}),
}
"""By label: envelope, settings to write, settings to read."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.captures,
    pytest.mark.skipif(
        not all((CAPTURES / case.folder).is_dir() for case in CASES),
        reason="the recorded streams are not here",
    ),
]


def record(capture: Capture, part: list[bytes], path: Path) -> None:
    """Put messages into a file as they would be found: values in lines, or Kafka's columns."""
    if capture.envelope == "canal":
        path.with_suffix(".jsonl").write_bytes(b"".join(line + b"\n" for line in part))
        return

    def raw(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    rows = [
        {
            "topic": line["topic"],
            "partition": line["partition"],
            "offset": line["offset"],
            "key": raw(line["key"]),
            "value": raw(line["value"]),
            "headers": [{"key": h["key"], "value": raw(h["value"])} for h in line["headers"]],
        }
        for line in map(json.loads, part)
    ]
    names = ("topic", "partition", "offset", "key", "value", "headers")
    schema = pa.schema([ARCHIVE.field(name).with_nullable(True) for name in names])
    pq.write_table(pa.Table.from_pylist(rows, schema), path.with_suffix(".parquet"))


def merged(spec, capture: Capture, spark) -> dict:
    """The merged tables by key, in the terms of the dump."""
    database = "shop" if is_mariadb(capture.folder) else "shop_default.public"
    tables: dict = {}
    for name, table in capture_of(capture.folder)["tables"].items():
        kinds, rows = table["columns"], {}
        # PostgreSQL's messages do not tell statements, so nobody knows the default of a new column
        # for rows that were there; the column itself holds no null.
        absent = table.get("added", {}) if not is_mariadb(capture.folder) else {}
        for row in read_table(spec, f"{database}.{name}", spark=spark):
            key = tuple(from_text(kinds[column], row[column]) for column in table["key"])
            assert key not in rows
            rows[key] = {c: v for c, v in row.items() if not (v is None and absent.get(c))}
        tables[name] = rows
    return tables


def refused(spec, capture: Capture, label: str, spark) -> set[tuple[str, tuple]]:
    """Table and key of the rows whose changes a target cannot hold."""
    lake = Lake.open(spark, spec)
    place = ["topic", "partition", "offset", "index"]
    outbox = lake.read(lake.log("outbox")).where(f"target = '{label}' AND outcome = 'refused'")
    changes = lake.read(lake.log("changes")).where("outcome = 'ok'")
    found = set()
    for row in changes.join(outbox.select(*place), place, "left_semi").collect():
        table = capture_of(capture.folder)["tables"][row.table]
        for text in (row.key, row.old_key):
            if text is not None:
                key = json.loads(text)
                kinds = table["columns"]
                found.add((row.table, tuple(from_text(kinds[c], key[c]) for c in table["key"])))
    return found


def published(label: str, folder: Path, capture: Capture) -> list:
    """The changes that the published messages of a target hold, in the total order."""
    name, _, settings = TARGETS[label]
    envelope = registry.get(name)
    tables = {}
    strings = dict.fromkeys(capture.strings, "string")
    for qualified, table in declared(capture.folder, set(DECLARED), **strings).items():
        plain = qualified.rpartition(".")[2]
        key = capture_of(capture.folder)["tables"][plain]["key"]
        # Some targets have no place for the name of a schema.
        for known in (qualified, f"*.{plain}"):
            tables[known] = Table.model_validate({**table, "key": key})
    decoder = envelope.decoder(envelope.decode_settings(**settings), table_rules(tables))
    joiner, changes, offset = PairJoiner(), [], 0
    for part in sorted(folder.glob("*/part-*.parquet")):
        for row in pq.read_table(part).to_pylist():
            headers = [(h["key"], h["value"]) for h in row["headers"] or ()]
            message = Message("t", 0, offset, None, row["key"], row["value"], headers or None)
            offset += 1
            for change in decode_message(decoder, message):
                assert change.outcome != "refused", change.reason
                if change.outcome == "ok" and change.operation != "ddl":
                    changes += [change] if change.half is None else joiner.push(change)
    changes += joiner.rest()
    return sorted(changes, key=lambda change: change.order_key)


@pytest.mark.parametrize("capture", CASES, ids=lambda case: f"{case.folder}-{case.file}")
def test_the_tables_are_the_database_s_own(spark, migration, tmp_path, capture):
    publish = [
        {
            "envelope": name,
            "name": label,
            "settings": written,
            "files": {"path": str(tmp_path / "out" / label), "layout": "parquet"},
        }
        for label, (name, written, _) in TARGETS.items()
    ]
    canal = capture.envelope == "canal"
    strings = dict.fromkeys(capture.strings, "string")
    spec = migration(
        envelope=capture.envelope,
        layout="lines" if canal else "parquet",
        tables=declared(capture.folder, set(capture.kinds), **strings),
        publish=publish,
        # Canal tells no position: later files are newer.
        order={"ambiguous": "partition" if canal else "fail"},
    )
    known, messages, done = known_losses(capture.folder), lines(capture.folder, capture.file), 0
    operations: Counter[str] = Counter()
    for number, state in enumerate(POINTS):
        points = capture_of(capture.folder)["points"]
        point = next(point for point in points if point["state"] == state)
        record(capture, messages[done : point["messages"]], tmp_path / "in" / str(number))
        waybill = run_migration(spec, batch=f"b{number}", spark=spark)
        for report in waybill.stages:
            report.reconcile()
        assert waybill.stage("snapshot").rows_out == point["messages"] - done
        merge = waybill.stage("merge")
        assert merge.refused == {}
        assert waybill.stage("validate").details["outcome"] == "passed"
        for counts in waybill.stage("convert").details["tables"].values():
            operations.update(counts)
        done = point["messages"]
        cells = compare(capture.folder, point["folder"], merged(spec, capture, spark), known[state])
        assert cells > 10_000
    assert operations["truncate"] == 1

    for label in TARGETS:
        holes = refused(spec, capture, label, spark)
        # JSON has no word for NaN and Infinity, and OMS writes numbers as they are.
        assert not holes or (label, capture.folder) == ("oms-default", "debezium-postgres-default")
        replay = Replay(capture.folder, holes)
        for change in published(label, tmp_path / "out" / label, capture):
            replay.apply(change)
        # Large values that PostgreSQL left out of a change of the key stand under the old key only.
        assert not replay.unsent or capture.folder == "debezium-postgres-default"
        final = compare(
            capture.folder, "final", replay.tables, known["final"], frozenset(replay.holes)
        )
        assert final > 10_000, label
