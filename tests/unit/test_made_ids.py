"""Sequence ids that had to be made are counted, with whether they order across partitions."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.order_sources import SOURCES, Event
from tests.unit.cli.test_cli import waybill
from waybill.cli.waybill_table import print_waybill
from waybill.inprocess.counts import Account
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file
from waybill.made_ids import ACROSS_PARTITIONS, WITHIN_PARTITION, MadeIds, made_ids_sentence
from waybill.report import StageReport, Waybill
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.validate.page import _stage

RULES = TableRules(
    {"shop.t": TableRule(("id",), {"id": parse_type("int64"), "v": parse_type("string")})}
)
POSITION = {"sequence_from": "position"}


def lines_of(source: str, count: int) -> list[bytes]:
    """Inserts, as a source tells them."""
    rows = ({"id": number, "v": "x"} for number in range(1, count + 1))
    events = (Event(96 + n, "insert", None, row, 0) for n, row in enumerate(rows))
    found = [made for event in events for made in SOURCES[source].messages(event)]
    return [getattr(made, "value", made) for made in found]


def lines(folder: Path, source: str, count: int) -> Path:
    file = folder / "in.jsonl"
    file.write_bytes(b"".join(value + b"\n" for value in lines_of(source, count)))
    return file


def table(folder: Path, source: str, *places: tuple[str, int]) -> Path:
    """A Parquet file whose messages come from these topics and partitions in turn."""
    values, file = lines_of(source, 6), folder / "in.parquet"
    rows = [places[n % len(places)] for n in range(len(values))]
    columns = {"topic": [topic for topic, _ in rows]}
    columns["partition"] = pa.array([partition for _, partition in rows], pa.int32())
    columns["offset"] = list(range(len(values)))
    pq.write_table(pa.table({**columns, "value": pa.array(values, pa.binary())}), file)
    return file


def counted(file: Path, source: str, target: str, processes: int = 1, **settings: object):
    envelope, output = SOURCES[source].envelope, str(file.parent / "out.jsonl")
    reads, writes = dict(SOURCES[source].settings), settings
    job = ConvertJob(envelope, target, str(file), output, reads, writes, RULES)
    account, _ = convert_file(job, None, processes)
    assert not account.refused
    return account.made_ids.counts()


@pytest.mark.parametrize(
    ("source", "target", "settings", "found"),
    [
        ("oms-default", "datahub-tuple", {}, {}),
        ("oms-default", "oms-dataworks", {}, {}),
        ("datahub-blob", "oms-default", {}, {}),
        ("canal", "canal", {}, {}),
        ("debezium-mysql", "debezium-json", {}, {}),
        ("debezium-mysql", "datahub-blob", {}, {"across_partitions": 6}),
        ("maxwell", "ogg", {}, {"across_partitions": 6}),
        ("debezium-mysql", "dms-s3", {"sequence_column": "seq"}, {"across_partitions": 6}),
        ("canal", "datahub-tuple", {}, {"within_partition": 6}),
        ("canal", "databus-json", {}, {"within_partition": 6}),
        ("maxwell", "oms-default", {}, {"within_partition": 6}),
        ("oms-default", "datahub-blob", POSITION, {"within_partition": 6}),
    ],
)
def test_what_is_made_of_the_sources_order_orders_across_partitions(
    source, target, settings, found, tmp_path
):
    file = table(tmp_path, source, ("shop.t", 0), ("shop.t", 1))
    assert counted(file, source, target, **settings) == found


def test_positions_of_a_single_partition_order_the_whole_topic(tmp_path):
    one = table(tmp_path, "canal", ("a", 3), ("b", 0))
    assert counted(one, "canal", "datahub-blob") == {"across_partitions": 6}
    both = table(tmp_path, "canal", ("a", 3), ("b", 0), ("b", 1))
    found = counted(both, "canal", "datahub-blob")
    assert found == {"across_partitions": 2, "within_partition": 4}


@pytest.mark.parametrize("processes", [1, 2])
def test_many_at_once_and_several_processes_count_the_same(tmp_path, processes):
    """More than fit into one block of lines, so that both are used."""
    file = lines(tmp_path, "canal", 9_000)
    assert counted(file, "canal", "datahub-tuple", processes) == {"across_partitions": 9_000}
    file = lines(tmp_path, "debezium-mysql", 9_000)
    assert counted(file, "debezium-mysql", "datahub-blob", processes) == {
        "across_partitions": 9_000
    }


def test_counts_of_workers_add_up():
    first, second = Account(), Account()
    first.tell([WITHIN_PARTITION, "types"], "t", 0, 3)
    second.tell([WITHIN_PARTITION], "t", 1)
    second.tell([ACROSS_PARTITIONS], "t", 1)
    first.add(second)
    assert first.made_ids.counts() == {"across_partitions": 1, "within_partition": 4}
    assert first.losses == {"types": 3}
    alone = Account()
    alone.add(second)
    assert alone.made_ids.counts() == {"across_partitions": 2}
    assert not alone.flawed


def test_partitions_of_earlier_batches_count():
    later = MadeIds({"t": 0, "other": None})
    later.count(WITHIN_PARTITION, "t", 0)
    assert later.counts() == {"across_partitions": 1}
    later.count(WITHIN_PARTITION, "other", 0)
    assert later.counts() == {"across_partitions": 1, "within_partition": 1}
    later.count(WITHIN_PARTITION, "t", 1)
    assert later.counts() == {"within_partition": 3}


def test_the_sentence():
    assert made_ids_sentence({}) == ""
    both = {"across_partitions": 1, "within_partition": 1502}
    assert made_ids_sentence(both) == (
        "made ids: 1, ordered across partitions; 1,502, ordered within each partition only"
    )


def test_convert_reports_them_and_says_what_they_do_not_order(tmp_path):
    report = tmp_path / "report.json"
    file = table(tmp_path, "canal", ("t", 0), ("t", 1))
    words = ("convert", "--from", "canal", "--to", "oms-default", file, tmp_path / "out.jsonl")
    done = waybill(*words, "--report", report)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["made_ids"] == {"within_partition": 6}
    assert b"made ids: 6, ordered within each partition only" in done.stderr


def test_the_waybill_and_the_gates_page_show_them(capsys):
    report = StageReport("convert", "b", made_ids={"ids": {"within_partition": 7}})
    print_waybill(Waybill("m", "b", [report]))
    sentence = "ids: made ids: 7, ordered within each partition only"
    assert sentence in capsys.readouterr().out
    assert StageReport.from_dict(report.to_json_safe()) == report
    assert _stage(report.to_dict())["made_ids"] == {"ids": sentence.removeprefix("ids: ")}
    before = {k: v for k, v in report.to_dict().items() if k != "made_ids"}
    assert _stage(before)["made_ids"] == {}
    assert StageReport.from_dict(before).made_ids == {}
