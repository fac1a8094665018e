"""Targets that are added to a running migration and begin with its merged tables.

Readers who know a format and nothing else apply its messages to an empty database.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.contract.order_readers import ARRIVAL, READERS, table_in_order, table_of
from tests.contract.order_sources import Event, debezium_mysql, debezium_sqlserver, maxwell
from tests.spark.line import Killed, kill
from tests.spark.merge.test_full_loads import oms
from waybill.bootstrap.beginning import begin_targets
from waybill.cli.check import check
from waybill.cli.new_targets import begun_lines, waiting_targets
from waybill.convert.beginning import why_waits
from waybill.convert.encode import Encoding
from waybill.errors import GateError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.protocol import Encoded
from waybill.stage_context import StageContext
from waybill.validate.results import read_result

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark

KEY = {"key": ["id"], "columns": {"id": "bigint", "v": "string"}}
TABLES = {"shop.orders": KEY}
FIRST = {"envelope": "canal", "name": "first"}


def row(number: int, v: str | None) -> dict[str, Any]:
    return {"id": number, "v": v}


def insert(place: int, number: int, v: str | None) -> bytes:
    return oms(place, "INSERT", None, row(number, v))


def update(place: int, was: dict[str, Any], now: dict[str, Any]) -> bytes:
    return oms(place, "UPDATE", was, now)


def delete(place: int, number: int, v: str | None) -> bytes:
    return oms(place, "DELETE", row(number, v), None)


class Place:
    """A migration with a source of files and targets that come and go."""

    def __init__(self, spark: Any, migration: Any, folder: Path, **fields: Any) -> None:
        self.spark, self.migration, self.folder = spark, migration, folder
        self.fields = {"tables": TABLES, "envelope": "oms-default", **fields}
        self.targets: list[dict[str, Any]] = [FIRST]

    @property
    def spec(self) -> Any:
        publish = []
        for target in self.targets:
            name = target.get("name", target["envelope"])
            files = {"path": str(self.folder / "out" / name), "layout": "parquet"}
            publish.append({"files": files, **target})
        return self.migration(**self.fields, publish=publish)

    def run(self, batch: str, *messages: bytes, **options: Any) -> Any:
        (self.folder / "in").mkdir(exist_ok=True)
        if messages:
            lines = b"".join(message + b"\n" for message in messages)
            (self.folder / f"in/{batch}.jsonl").write_bytes(lines)
        return run_migration(self.spec, batch=batch, spark=self.spark, **options)

    def context(self, batch: str) -> StageContext:
        lake = Lake.open(self.spark, self.spec)
        return StageContext(lake.spark, lake, self.spec, batch)

    def add(self, *targets: dict[str, Any]) -> None:
        self.targets += [{"bootstrap": "tables", **target} for target in targets]

    def sent(self, target: str) -> list[Encoded]:
        """The messages of a target, in the order in which they were sent."""
        lake = Lake.open(self.spark, self.spec)
        commits = [*lake.commits(lake.log("outbox"))][::-1]
        batches = [b for c in commits for b in c.cursor.get("batches", [c.batch])]
        found = []
        for batch in dict.fromkeys(batches):
            for file in sorted((self.folder / "out" / target / batch).glob("part-*.parquet")):
                for one in pq.read_table(file).to_pylist():
                    headers = [(h["key"], h["value"]) for h in one.get("headers") or ()]
                    found.append(Encoded(one["key"], one["value"], headers or None))
        return found

    def rows(self, table: str = "shop.orders") -> dict[int, dict[str, Any]]:
        lake = Lake.open(self.spark, self.spec)
        live = lake.read(lake.merged_tables()[table]).where("NOT _waybill_deleted")
        return {r.id: {"id": r.id, "v": r.v} for r in live.collect()}


@pytest.fixture
def place(spark, migration, tmp_path):
    return lambda **fields: Place(spark, migration, tmp_path, **fields)


ENVELOPES = sorted(set(ARRIVAL) - {"ibmcdc-avro", "debezium-avro", "databus-binary"})


def settings_of(envelope: str) -> dict[str, Any]:
    return {"settings": {"sequence_column": "seq"}} if envelope == "dms-s3" else {}


def test_readers_of_every_format_get_the_tables_and_what_follows(place):
    here = place()
    here.run("b1", *(insert(n, n, f"v{n}") for n in range(1, 7)))
    here.run(
        "b2",
        update(11, row(1, "v1"), row(1, "new ü")),
        delete(12, 2, "v2"),
        update(13, row(3, "v3"), row(30, "moved")),
        insert(14, 7, None),
    )
    here.add(*({"envelope": e, **settings_of(e)} for e in ENVELOPES))
    waybill = here.run(
        "b3",
        update(21, row(4, "v4"), row(4, "after")),
        delete(22, 5, "v5"),
        insert(23, 2, "again"),
        update(24, row(30, "moved"), row(3, "back")),
    )
    rows = here.rows()
    assert set(rows) == {1, 2, 3, 4, 6, 7}
    for envelope in ENVELOPES:
        assert table_in_order(envelope, here.sent(envelope)) == rows, envelope
    begun = waybill.stage("convert").details["bootstrap"]
    assert begun["canal"] == {"as_of": "b2", "tables": {"shop.orders": {"rows": 6}}}
    assert begun["oms-default"]["tables"] == {"shop.orders": {"rows": 6, "deleted": 2}}
    # Late changes that are older than what the tables had: readers who go by ids know it.
    here.run("b4", insert(8, 2, "late"), delete(9, 1, "v1"), insert(10, 3, "late"))
    assert here.rows() == rows
    for envelope in READERS:
        if envelope in ENVELOPES:
            assert table_of(envelope, here.sent(envelope)) == rows, envelope


def test_a_target_waits_while_the_gate_holds_a_batch(place, tmp_path, capsys):
    here = place(quality={"max_refused_share": 0.1})
    here.run("b1", insert(1, 1, "a"), insert(2, 2, "b"))
    with pytest.raises(GateError):
        here.run("b2", update(3, row(1, "a"), row(1, "held")), b"{}", b"{}")
    here.add({"envelope": "maxwell"})
    assert why_waits(Lake.open(here.spark, here.spec)) == "batch b2 waits for the gate"
    waybill = here.run("b3", insert(4, 3, "c"), drop_held=True, until="merge")
    assert waybill.stage("convert").details["waits_to_begin"] == ["maxwell"]
    (warning,) = waybill.stage("convert").warnings
    assert "the target maxwell has not begun and gets nothing yet: batch b2 waits" in warning
    assert here.sent("maxwell") == []
    # Here nothing is held, and yet what was converted is not in the tables.
    here.fields["quality"] = {"max_refused_share": 1}
    assert "waits for the gate" in (why_waits(Lake.open(here.spark, here.spec)) or "")
    here.run("b3")
    assert here.sent("maxwell") == []
    assert why_waits(Lake.open(here.spark, here.spec)) is None
    waybill = here.run("b4", delete(5, 2, "b"))
    assert waybill.stage("convert").details["bootstrap"]["maxwell"]["as_of"] == "b3"
    messages = here.sent("maxwell")
    assert table_in_order("maxwell", messages) == here.rows()
    assert [json.loads(m.value)["type"] for m in messages] == [*["bootstrap-insert"] * 3, "delete"]


STRUCK = [
    ("waybill.bootstrap.beginning._TargetBeginning", "_write_messages"),
    ("waybill.convert.stage", "_decode"),
    ("waybill.convert.stage", "_encode"),
    ("waybill.publish.stage", "_account"),
]
"""What a killed run does not come to any more: after the rows are there, after they are written for
the target, after the batch is decoded, and with files that are sent and not recorded."""


@pytest.mark.parametrize("again", ["b2", "b3"])
def test_a_run_that_is_killed_while_a_target_begins(place, monkeypatch, again):
    here = place()
    here.run("b1", insert(1, 1, "a"), insert(2, 2, "b"), delete(3, 2, "b"), insert(4, 3, "c"))
    here.add({"envelope": "oms-default", "name": "late"})
    for module, name in STRUCK:
        with monkeypatch.context() as patch:
            patch.setattr(f"{module}.{name}", kill)
            with pytest.raises(Killed):
                here.run("b2", update(5, row(1, "a"), row(1, "new")))
    here.run(again)
    here.run("b4", insert(6, 2, "again"), insert(2, 3, "older"))
    messages = here.sent("late")
    assert table_of("oms-default", messages) == here.rows()
    assert len({m.value for m in messages}) == len(messages) == 6
    lake = Lake.open(here.spark, here.spec)
    begun = [c for c in lake.commits(lake.log("outbox")) if c.stage == "bootstrap"]
    assert [c.cursor["target"] for c in begun].count("late") == 1


def test_mappings_of_a_target_apply_to_what_it_begins_with(place):
    here = place(tables={"shop.orders": KEY, "shop.audit": KEY})
    audit = insert(9, 1, "x").replace(b"orders", b"audit")
    here.run("b1", *(insert(n, n, f"v{n}") for n in range(1, 5)), delete(5, 1, "v1"), audit)
    mapping = {
        "select": {"exclude": ["*.audit"]},
        "map": [
            {
                "tables": "shop.orders",
                "rename": {"table": "mine"},
                "where": "id > 2",
                "columns": {"mask": {"v": {"text": "hidden"}}},
            }
        ],
    }
    here.add(
        {"envelope": "canal", "name": "mine", **mapping}, {"envelope": "oms-default", **mapping}
    )
    waybill = here.run("b2", insert(10, 5, "v5"), update(11, row(3, "v3"), row(1, "moved")))
    documents = [json.loads(m.value) for m in here.sent("mine")]
    assert {m["table"] for m in documents} == {"mine"}
    assert [(m["type"], m["data"][0]) for m in documents] == [
        ("INSERT", {"id": "3", "v": "hidden"}),
        ("INSERT", {"id": "4", "v": "hidden"}),
        ("INSERT", {"id": "5", "v": "hidden"}),
        ("DELETE", {"id": "3", "v": "hidden"}),
    ]
    rows = {n: {"id": n, "v": "hidden"} for n in (4, 5)}
    assert table_of("oms-default", here.sent("oms-default")) == rows
    assert waybill.stage("convert").details["bootstrap"]["mine"]["tables"].keys() == {"shop.orders"}


def canal(number: int, kind: str, data: dict[str, Any], old: dict[str, Any] | None = None) -> bytes:
    fields = {"data": [data], "database": "shop", "table": "orders", "type": kind, "isDdl": False}
    times = {"es": 1_700_000_000_000 + number, "ts": 1_700_000_000_000 + number, "id": number}
    kinds = {"mysqlType": {"id": "bigint", "v": "varchar(9)"}, "sqlType": {"id": -5, "v": 12}}
    more = {"old": None if old is None else [old], "pkNames": ["id"], "sql": ""}
    return json.dumps({**fields, **times, **kinds, **more}).encode()


@pytest.mark.parametrize("ambiguous", ["partition", "source_time"])
def test_a_source_without_ids(place, ambiguous):
    here = place(envelope="canal", tables={}, order={"ambiguous": ambiguous})
    here.run(
        "b1",
        *(canal(n, "INSERT", {"id": str(n), "v": f"v{n}"}) for n in (1, 2, 3)),
        canal(4, "UPDATE", {"id": "1", "v": "new"}, {"v": "v1"}),
        canal(5, "DELETE", {"id": "2", "v": "v2"}),
    )
    here.add({"envelope": "debezium-json"}, {"envelope": "maxwell"}, {"envelope": "oms-default"})
    here.run(
        "b2",
        canal(6, "UPDATE", {"id": "3", "v": "x"}, {"v": "v3"}),
        canal(7, "INSERT", {"id": "4", "v": None}),
    )
    sent = {}
    for envelope in ("debezium-json", "maxwell", "oms-default"):
        messages = here.sent(envelope)
        assert table_in_order(envelope, messages) == here.rows(), envelope
        sent[envelope] = [json.loads(message.value) for message in messages]
    assert [m["op"] for m in sent["debezium-json"]] == ["r", "r", "u", "c"]
    # Ids are those that the changes themselves would have.
    numbers = [m["allMetaData"]["storeDataSequence"] for m in sent["oms-default"]]
    assert numbers == sorted(numbers)
    assert len(numbers) == 4
    assert table_of("oms-default", reversed(here.sent("oms-default"))) == here.rows()


def test_a_table_without_key_begins_with_each_of_its_rows(place):
    tables = {"shop.orders": {"key": []}}
    here = place(envelope="canal", tables=tables, text_images="needed")
    same = {"id": "1", "v": None}
    here.run("b1", *(canal(n, "INSERT", same) for n in (1, 2, 3)), canal(4, "DELETE", same))
    here.add({"envelope": "maxwell"}, {"envelope": "oms-default"}, {"envelope": "datahub-tuple"})
    here.run("b2", canal(5, "INSERT", {"id": "2", "v": "x"}), canal(6, "DELETE", same))
    documents = [json.loads(m.value) for m in here.sent("maxwell")]
    assert [(m["type"], m["data"]) for m in documents] == [
        ("bootstrap-insert", {"id": 1, "v": None}),
        ("bootstrap-insert", {"id": 1, "v": None}),
        ("insert", {"id": 2, "v": "x"}),
        ("delete", {"id": 1, "v": None}),
    ]
    assert len(here.sent("oms-default")) == len(here.sent("datahub-tuple")) == 4


def test_targets_that_begin_once_again_and_those_that_need_not(place):
    here = place()
    here.targets = [{**FIRST, "bootstrap": "tables"}]
    waybill = here.run("b1", insert(1, 1, "a"), insert(2, 2, "b"))
    assert "bootstrap" not in waybill.stage("convert").details
    assert len(here.sent("first")) == 2
    here.targets = [{"envelope": "maxwell"}]
    here.run("b2", delete(3, 1, "a"))
    assert len(here.sent("maxwell")) == 1
    here.add({**FIRST, "settings": {}})
    here.run("b3")
    assert [json.loads(m.value)["data"][0]["id"] for m in here.sent("first")] == ["1", "2", "2"]
    # One that has begun begins no more, whatever stands there.
    here.targets[0]["bootstrap"] = "tables"
    waybill = here.run("b4", insert(4, 4, "d"))
    assert "bootstrap" not in waybill.stage("convert").details


def test_a_target_waits_for_a_transaction_of_a_batch_before_the_last(place):
    """The last batch lets nothing wait, and the tables lack what others got by then."""
    here = place(envelope="debezium-json", tables={"shop.t": KEY})
    here.targets = [{"envelope": "maxwell", "name": "first"}]

    def put(number: int, transaction: str | None = None) -> bytes:
        (message,) = debezium_mysql(Event(number, "insert", None, row(number, f"v{number}"), 0))
        found = json.loads(message)
        if transaction is not None:
            order = {"total_order": 1, "data_collection_order": 1}
            found["transaction"] = {"id": transaction, **order}
        return json.dumps(found).encode()

    def mark(status: str, count: int | None) -> bytes:
        events = count and [{"data_collection": "shop.t", "event_count": count}]
        event = {"status": status, "id": "x", "ts_ms": 1, "event_count": count}
        return json.dumps({**event, "data_collections": events}).encode()

    first = here.run("b1", put(10), mark("BEGIN", None), put(20, "x")).stage("merge")
    assert (first.rows_out, first.waiting) == (1, 1)
    assert here.run("b2", put(30)).stage("merge").waiting == 0
    here.add({"envelope": "maxwell", "name": "late"})
    for batch, messages in (("b3", [put(40)]), ("b4", [mark("END", 1)])):
        waybill = here.run(batch, *messages)
        assert waybill.stage("convert").details["waits_to_begin"] == ["late"]
        assert "wait for the end of 1 transaction;" in waybill.stage("convert").warnings[0]
    here.run("b5", put(50))
    assert set(here.rows("shop.t")) == {10, 20, 30, 40, 50}
    assert table_in_order("maxwell", here.sent("late")) == here.rows("shop.t")


def test_a_target_begins_with_every_change(place):
    here = place(quality={"max_refused_share": 0.1})
    here.run("b1", insert(1, 1, "a"), insert(2, 2, "b"), update(3, row(1, "a"), row(1, "c")))
    here.run("b2", delete(4, 2, "b"))
    with pytest.raises(GateError):
        here.run("b3", update(5, row(1, "c"), row(1, "held")), b"{}")
    here.add({"envelope": "canal", "name": "history", "bootstrap": "archive"})
    here.add({**FIRST, "name": "tables"})
    here.fields["quality"] = {"max_refused_share": 1}
    waybill = here.run("b4", insert(6, 3, "d"), insert(7, 4, "e"), drop_held=True)
    documents = [json.loads(m.value) for m in here.sent("history")]
    first = [json.loads(m.value) for m in here.sent("first")]
    assert [(m["type"], m["data"], m["old"], m["es"]) for m in documents] == [
        (m["type"], m["data"], m["old"], m["es"]) for m in first
    ]
    assert len(documents) == 7
    details = waybill.stage("convert").details
    assert details["bootstrap"] == {"history": {"as_of": "b3", "changes": 5}}
    assert details["waits_to_begin"] == ["tables"]
    # What a full run brings again is written once, as it came last.
    here.run("b5", mode="full")
    here.add({"envelope": "oms-default", "bootstrap": "archive"})
    here.run("b6", delete(8, 3, "d"))
    assert table_of("oms-default", here.sent("oms-default")) == here.rows()
    assert table_in_order("canal", here.sent("tables")) == here.rows()


def test_the_example_of_the_docs(place, tmp_path):
    page = (PROJECT / "docs/publishing.md").read_text(encoding="utf-8")
    section = page[page.index("## A new target in the middle") :]
    text = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1].replace("/data", str(tmp_path))
    before, added = yaml.safe_load(text)["publish"]
    here = place()
    here.targets = [before]
    here.run("b1", insert(1, 1, "a"), insert(2, 2, "b"))
    here.run("b2", delete(3, 1, "a"))
    here.targets = [before, added]
    found = [f for f in check(here.spec) if f.about == "target maxwell"]
    assert found[-1].text.startswith("begins with 1 table as of batch b2, about ")
    waybill = here.run("b3", insert(4, 3, "c"))
    assert begun_lines(waybill.stage("convert")) == [
        "maxwell begins with 1 row and 1 deleted key of 1 table as of batch b2"
    ]
    lines = [
        json.loads(line)
        for batch in ("b3-bootstrap", "b3")
        for file in sorted((tmp_path / "maxwell" / batch).glob("part-*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    assert [(one["type"], one["data"]["id"]) for one in lines] == [
        ("bootstrap-insert", 2),
        ("delete", 1),
        ("insert", 3),
    ]
    assert waiting_targets(here.spec, Lake.open(here.spark, here.spec)) == []


def test_the_gate_holds_what_a_target_would_begin_with_and_is_not_in_the_tables(place, monkeypatch):
    here = place()
    here.run("b1", insert(1, 1, "right"), insert(2, 2, "b"))
    here.add({"envelope": "canal", "name": "late"})
    write = Encoding._encode

    def damaged(self, *given):
        make = write(self, *given)

        def encode(batches):
            for batch in make(batches):
                rows = batch.to_pylist()
                for row in rows:
                    row["value"] = row["value"].replace(b'"right"', b'"wrong"')
                yield type(batch).from_pylist(rows, batch.schema)

        return encode

    with monkeypatch.context() as patch:
        patch.setattr(Encoding, "_encode", damaged)
        begin_targets(here.spec, here.context("b2"))
    with pytest.raises(GateError):
        here.run("b2", insert(3, 3, "c"))
    (difference,) = read_result(here.spec, "b2")["differences"]
    assert difference["target"] == "late"
    assert difference["change"].startswith("bootstrap:late@b2-bootstrap:shop.orders/")
    assert here.sent("late") == []


@pytest.mark.parametrize("source", [debezium_sqlserver, debezium_mysql, maxwell])
def test_ids_are_those_that_the_changes_of_the_rows_have(place, source):
    envelope = "maxwell" if source is maxwell else "debezium-json"
    here = place(envelope=envelope, tables={"shop.t": KEY, "shop.dbo.t": KEY})
    here.targets = [{"envelope": "oms-default", "name": "first"}]
    history = [
        Event(0, "read", None, row(1, "a"), 0),
        Event(40, "insert", None, row(2, "b"), 0),
        Event(41, "insert", None, row(3, "c"), 0),
        Event(57, "update", row(2, "b"), row(2, "new"), 0),
        Event(58, "delete", row(3, "c"), None, 0),
        Event(59, "insert", None, row(4, "d"), 0),
    ]
    here.run("b1", *(message for event in history for message in source(event)))
    here.add({"envelope": "oms-default", "name": "late"})
    here.run("b2", *source(Event(70, "update", row(1, "a"), row(1, "z"), 0)))

    def ids(target: str) -> dict[int, Any]:
        found = {}
        for message in here.sent(target)[:-1]:
            document = json.loads(message.value)
            key = (document["postStruct"] or document["prevStruct"])["id"]
            found[int(key)] = (
                document["allMetaData"].get("storeDataSequence"),
                bool(document["postStruct"]),
            )
        return found

    assert ids("late") == ids("first")
    assert len(here.sent("late")) == 5
