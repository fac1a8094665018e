"""The index of a union's branch may have more bytes than it needs; no refusal is empty."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from waybill.avro.faults import explain
from waybill.avro.reading import Damaged, object_reader
from waybill.avro.schema import parse
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.envelopes import registry
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

UNION = parse(json.dumps(["null", "string"]))
LONG_FORMS = {
    b"\x00": None,
    b"\x80\x00": None,
    b"\x80\x80\x00": None,
    b"\x02\x02a": "a",
    b"\x82\x00\x02a": "a",
    b"\x82\x80\x80\x00\x82\x00a": "a",
}


@pytest.mark.parametrize("data", LONG_FORMS)
def test_the_index_of_a_branch_may_have_more_bytes_than_it_needs(data):
    assert object_reader(UNION)(data, 0, len(data)) == (LONG_FORMS[data], len(data))


@pytest.mark.parametrize("data", [b"\x04", b"\x84\x00", b"\x01", b"\x81\x00"])
def test_an_index_that_the_union_does_not_have_is_refused(data):
    with pytest.raises(Damaged):
        object_reader(UNION)(data, 0, len(data))
    assert "no type number" in explain(UNION, data, 0).sentence


def test_a_refusal_says_something():
    refusal = explain(UNION, b"\x00", 0, Damaged())
    assert refusal.sentence == (
        "the Avro data cannot be read: its bytes are no value of the schema"
    )


def record(name: str, namespace: str = "value.S") -> str:
    fields = [{"name": n, "type": ["null", "string"], "default": None} for n in ("id", "v")]
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def test_many_at_once_are_read_the_same_way():
    envelope = registry.get("ibmcdc-avro")
    assert envelope.decoder is not None
    assert envelope.bulk_reader is not None
    values = []
    for number in range(40):
        index = b"\x82\x00" if number % 5 == 0 else b"\x02"
        values.append(b"\x02\x02%c" % (48 + number % 10) + index + b"\x04ab")
    schemas = {"avro": {"1": {"schema": json.loads(record("T"))}}}
    rows = {}
    for bulk in (False, True):
        decoder = envelope.decoder(envelope.decode_settings(schemas=schemas), TableRules())
        work = ChangeBatches(decoder, "batch")
        size = len(values)
        batch = pa.record_batch(
            {
                "topic": pa.array(["t"] * size),
                "partition": pa.array([0] * size, pa.int32()),
                "offset": pa.array(range(size), pa.int64()),
                "timestamp": pa.array([0] * size, TIMESTAMP),
                "key": pa.array([None] * size, pa.binary()),
                "value": pa.array([b"\x00\x00\x00\x00\x01" + v for v in values], pa.binary()),
                "headers": pa.array([None] * size, HEADERS),
            }
        )
        if bulk:
            made = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1).rows(batch)
        else:
            (made,) = work.convert(iter([batch]))
        found = [row for row in made.to_pylist() if row["outcome"] != "schema"]
        rows[bulk] = sorted((row["offset"], row["outcome"], row["after"]) for row in found)
    assert rows[True] == rows[False]
    assert {outcome for _, outcome, _ in rows[True]} == {"ok"}


@pytest.mark.parametrize(
    ("zone", "text"),
    [(None, "2020-03-01T05:00:00.5"), ("Asia/Shanghai", "2020-02-29T21:00:00.5Z")],
)
def test_a_wall_clock_of_ibm_cdc_is_an_instant_of_the_zone_that_is_set(zone, text):
    envelope = registry.get("ibmcdc-avro")
    assert envelope.decoder is not None
    schemas = {"avro": {"1": {"schema": json.loads(record("T"))}}}
    rules = TableRules({"S.T": TableRule(("id",), {"v": parse_type("timestamptz")})})
    clock = b"2020-03-01 05:00:00.5"
    value = b"\x00\x00\x00\x00\x01\x02\x02a\x02%c%s" % (2 * len(clock), clock)
    settings = envelope.decode_settings(schemas=schemas, column_timezone=zone)
    (change,) = envelope.decoder(settings, rules).decode(Message("t", 0, 0, 0, None, value))
    assert change.after.f1.replace(" ", "T") == text
