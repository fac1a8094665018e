"""`waybill convert --mapping`: what the stages of a migration make of the same messages."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_bulk_avro import batch_of
from tests.unit.cli.command_line import PROJECT, waybill
from waybill.batches.decoding import ChangeBatches
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.convert.plan import make_plan
from waybill.inprocess.converter import NOT_IN_TARGET
from waybill.records import Message
from waybill.spec.file import load_migration

SAMPLE = PROJECT / "samples/shop/0002-changes.jsonl"


@pytest.fixture
def example(tmp_path) -> Path:
    """The example of the page on mapping, with a condition."""
    page = (PROJECT / "docs/mapping.md").read_text(encoding="utf-8")
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    text = text.replace('  - tables: "shop.*"\n', '  - tables: "shop.*"\n    where: paid = 1\n', 1)
    text = text.replace('tables: "shop.*"', 'tables: "shop.orders"', 1)
    text = text.replace("map:\n", "select: {exclude: [shop.customers]}\nmap:\n", 1)
    (tmp_path / "m").mkdir()
    file = tmp_path / "m/partners.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def by_stages(file: Path, messages: list[Message]) -> tuple[list[bytes], Counter[str]]:
    """Values and counts as the stages of the migration have them, without a lake."""
    spec = load_migration(file)
    plan = make_plan(spec)
    reading, (writing,) = plan.reading, plan.writings
    work = ChangeBatches(reading.decoder(), "b", None, reading.bulk_reader())
    mapped = MappedDecoding(reading.mapping, reading.rules)
    batches = list(mapped.of(work.convert(iter([batch_of(messages)]))))
    skipped: Counter[str] = Counter()
    taken = []
    for batch in batches:
        rows = batch.to_pylist()
        skipped.update(r["reason_kind"] for r in rows if r["outcome"] == "skipped")
        taken.append(batch.filter([r["outcome"] == "ok" for r in rows]))
    values = []
    for batch in writing.batches("b", mapped._mapped.schemas).convert(iter(taken)):
        for row in batch.to_pylist():
            if row["outcome"] == "ok":
                values.append(row["value"])
            elif row["message"] == 0:
                skipped[row["reason_kind"] or NOT_IN_TARGET] += 1
    return values, skipped


def test_a_file_becomes_what_the_stages_make_of_it(example, tmp_path):
    out, report = tmp_path / "out.jsonl", tmp_path / "report.json"
    words = ("convert", "--from", "oms-default", "--to", "canal", "--mapping", example)
    done = waybill(*words, SAMPLE, out, "--report", report)
    assert done.returncode == 0, done.stderr
    lines = SAMPLE.read_bytes().splitlines()
    topic = SAMPLE.name.partition(".")[0]
    messages = [Message(topic, 0, n, None, None, value) for n, value in enumerate(lines)]
    values, skipped = by_stages(example, messages)
    assert out.read_bytes().splitlines() == values
    document = json.loads(report.read_text())
    assert values
    assert {"not selected", "where is not met"} <= skipped.keys()
    assert {k: document["skipped"][k] for k in skipped} == skipped
    assert b"shop.orders" not in out.read_bytes()


def failing(file: Path, folder: Path, *words: Any) -> str:
    base = ("convert", "--from", "oms-default", "--to", "canal", "--mapping", file)
    done = waybill(*base, SAMPLE, folder / "out.jsonl", *words)
    assert done.returncode in (1, 2)
    assert not (folder / "out.jsonl").exists()
    return done.stderr.decode()


def test_what_cannot_be_applied_to_one_file(example, tmp_path):
    text = example.read_text()
    assert "--processes does not go with --mapping" in failing(
        example, tmp_path, "--processes", "2"
    )
    again = "  - {envelope: canal, name: other, files: {path: ../out/other}}\n"
    example.write_text(text.replace("lake:", f"{again}lake:", 1))
    assert "several targets of canal that map differently" in failing(example, tmp_path)
    join = "    join: {column: shard}\n"
    names = "{database: partners, table: orders}"
    joined = text.replace("{database: partners}", names, 1).replace(
        "    columns:\n      drop", f"{join}    columns:\n      drop", 1
    )
    example.write_text(joined.replace("map:\n", "map:\n  - {tables: shop.nothing}\n", 1))
    said = " ".join(failing(example, tmp_path).split())
    assert f"map[1].join in {example} makes one table of several" in said
    assert f"run the migration instead, `waybill run {example}`" in said


def test_a_refused_message_shows_nothing_where_values_are_masked(example, tmp_path):
    lines = SAMPLE.read_bytes().splitlines()
    good = next(n for n in lines if b'"paid":1' in n and b'"recordType":"INSERT"' in n)
    bad = b'{"secret": "Anna"'
    source, aside = tmp_path / "in.jsonl", tmp_path / "q.jsonl"
    source.write_bytes(good + b"\n" + bad + b"\n")
    words = ("convert", "--from", "oms-default", "--to", "canal", "--mapping", example)
    done = waybill(*words, source, tmp_path / "out.jsonl", "--quarantine", aside)
    assert done.returncode == 0, done.stderr
    document = json.loads(aside.read_bytes())
    assert (document["offset"], document["kind"], document["value"]) == (1, "json", None)
    assert "left out" in document["reason"]
    assert b"Anna" not in done.stderr + aside.read_bytes()


def test_the_demo_masks_names_and_leaves_out_a_table(tmp_path):
    out, report = tmp_path / "out.jsonl", tmp_path / "report.json"
    words = ("convert", "--from", "canal", "--to", "debezium-json")
    given = ("--mapping", PROJECT / "migrations/recorded_reviewed.yaml", "--report", report)
    packed = PROJECT / "samples/canal_mariadb/messages.jsonl.gz"
    done = waybill(*words, packed, out, *given)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_bytes().splitlines()]
    tables = Counter(row["source"]["table"] for row in rows if "source" in row)
    assert tables.keys() == {"orders", "customers"}
    names = {
        row["after"]["name"]
        for row in rows
        if row.get("after") and row["source"]["table"] == "customers"
    }
    assert {len(name) for name in names - {None}} == {64}
    assert not any("latin" in (row.get("after") or {}) for row in rows)
    assert json.loads(report.read_text())["skipped"]["not selected"] > 400
    # Nor does a statement that the recording repeats show any.
    words, same = ("convert", "--from", "canal", "--to", "canal"), tmp_path / "same.jsonl"
    assert waybill(*words, packed, same, *given[:2]).returncode == 0
    assert same.stat().st_size
    assert b"INSERT INTO" not in same.read_bytes()
