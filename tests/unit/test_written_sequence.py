"""Sequence ids that a target needs and the source did not give."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from msgspec import structs
from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.envelopes.batch import ChangeBatches, MessageBatches
from waybill.envelopes.pairs import PairJoiner
from waybill.layout import ARCHIVE
from waybill.records import Change, Column, Message, TableSchema, intern_schema
from waybill.tables import TableRules
from waybill.types import LogicalType

DATAHUB = ["datahub-blob", "datahub-tuple"]
COUNTERS = {
    **dict.fromkeys([*DATAHUB, "oms-dataworks", "databus-binary", "databus-json"], 9),
    **dict.fromkeys(["oms-default", "oms-extended", "oms-shareplex"], 5),
}
"""Digits after those of the second."""
targets = pytest.mark.parametrize("target", COUNTERS)


def flat(number: int, kind: str = "INSERT", rows: int = 1) -> bytes:
    """A message of Canal, which has no order of its own."""
    row = [{"id": str(number * 10 + i)} for i in range(rows)]
    message = {"database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": kind}
    message |= {"es": 1, "ts": 1, "mysqlType": {"id": "bigint"}, "sqlType": {"id": -5}}
    message |= {"data": row, "old": [{"id": "0"} for _ in row] if kind == "UPDATE" else None}
    return json.dumps(message).encode()


def archive(messages: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    rows = []
    for partition, offset, value in messages:
        row = dict.fromkeys(ARCHIVE.names)
        row.update(topic="t", partition=partition, offset=offset, value=value, batch="b")
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, ARCHIVE)


def written(target: str, messages: list[tuple[int, int, bytes]], split: int, **told) -> list[dict]:
    """The messages of a target; each batch has its own decoder and encoder."""
    found = []
    for start in range(0, len(messages), split):
        canal, envelope = registry.get("canal"), registry.get(target)
        decoder = canal.decoder(canal.decode_settings(), TableRules())
        batches = [archive(messages[start : start + split])]
        changes = pa.Table.from_batches(
            ChangeBatches(decoder, f"batch-{start}").convert(iter(batches))
        )
        schemas = {
            row["schema_id"]: TableSchema.from_json(row["extra"])
            for row in changes.to_pylist()
            if row["outcome"] == "schema"
        }
        accepted = changes.filter(pa.compute.equal(changes["outcome"], "ok"))
        encoder = envelope.encoder(envelope.encode_settings(**told))
        batch = MessageBatches(encoder, target, f"batch-{start}", schemas)
        for out in batch.convert(iter(accepted.combine_chunks().to_batches())):
            found += out.to_pylist()
    return found


def read(target: str, messages: list[dict]) -> list[Change]:
    """The rows that a reader of the target finds."""
    envelope = registry.get(target)
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    joiner, found = PairJoiner(), []
    for offset, row in enumerate(messages):
        headers = [(h["key"], h["value"]) for h in row["headers"] or ()] or None
        message = Message("out", 0, offset, None, row["key"], row["value"], headers)
        for change in decoder.decode(message):
            found += [change] if change.half is None else joiner.push(change)
    found = [*found, *joiner.rest()]
    return [c for c in found if c.operation in ("insert", "update", "upsert")]


def ids(target: str, messages: list[tuple[int, int, bytes]], split: int, **told) -> list[str]:
    """The ids that a reader finds."""
    changes = read(target, written(target, messages, split, **told))
    return [str(change.sequence[0]) for change in changes]


@targets
class TestMadeIds:
    def test_they_grow_strictly_and_go_on_over_batches(self, target):
        """However the messages are split into batches and tasks, and on every rerun."""
        messages = [(0, n, flat(n, rows=3)) for n in range(9_997, 10_003)]
        messages += [(0, n, flat(n)) for n in (123_456_789, 4_000_000_000)]
        whole = ids(target, messages, split=100)
        assert len(whole) == 20
        assert whole == ids(target, messages, split=100)
        assert whole == ids(target, messages, split=1)
        assert whole == ids(target, messages, split=3)
        numbers = [int(number) for number in whole]
        assert numbers == sorted(set(numbers))
        assert all(re.fullmatch(f"[1-9][0-9]{{{9 + COUNTERS[target]}}}", n) for n in whole)
        assert whole == sorted(whole), "as text too, for consumers that compare so"

    def test_they_are_others_in_each_partition(self, target):
        messages = [(p, n, flat(n, rows=2)) for p in (0, 1, 5000) for n in (0, 9_999_999_999)]
        numbers = [int(number) for number in ids(target, messages, split=100)]
        assert numbers == sorted(set(numbers))
        assert max(numbers) < 2**63

    def test_they_read_back_to_the_order_of_the_source(self, target):
        kinds = ["INSERT", "UPDATE", "UPDATE", "INSERT", "UPDATE"]
        messages = [(0, n, flat(n, kind, 1)) for n, kind in enumerate(kinds)]
        out = written(target, messages, split=2)
        found = read(target, out)
        rows = [change.after.f0 for change in found]
        assert rows == [str(n * 10) for n in range(5)]
        # An order that a consumer makes of the ids alone, whatever order the messages have.
        shuffled = sorted(found, key=lambda change: change.order_key[::-1])
        assert [c.after.f0 for c in sorted(shuffled, key=lambda c: c.sequence)] == rows

    def test_a_sequence_of_several_parts_gets_one_and_is_counted(self, target):
        canal, envelope = registry.get("canal"), registry.get(target)
        decoder = canal.decoder(canal.decode_settings(), TableRules())
        (change,) = decoder.decode(Message("t", 0, 7, None, None, flat(1)))
        encoder = envelope.encoder(envelope.encode_settings())
        losses: list[str] = []
        encoded = encoder.encode(structs.replace(change, sequence=(3, 154, 0)), losses)
        assert "sequence_id" in losses
        encoder = envelope.encoder(envelope.encode_settings())
        assert [e.value for e in encoder.encode(change, [])] == [e.value for e in encoded]

    def test_they_begin_where_the_setting_says(self, target):
        (number,) = ids(target, [(0, 7, flat(1))], split=1, sequence_start=1_605_339_516)
        start = 1_605_339_516 * 10 ** COUNTERS[target]
        assert number == str(start + 700_000)

    @pytest.mark.parametrize("second", [0, 999_999_999, 4_000_000_001, "soon"])
    def test_a_second_of_ten_digits(self, target, second):
        with pytest.raises(ValidationError):
            registry.get(target).encode_settings(sequence_start=second)


@pytest.mark.parametrize("target", DATAHUB)
def test_the_halves_of_an_update_share_one(target):
    out = written(target, [(0, 0, flat(1, "UPDATE")), (0, 1, flat(2))], split=5)
    messages = [json.loads(row["value"]) for row in out]
    first, second, third = (m.get("_sequence_id_") or m["payload"]["sequenceId"] for m in messages)
    assert first == second == "1000000000000000000"
    assert third == "1000000000000100000"


def test_a_full_row_of_oms_has_none():
    """Without one it is older than every change, as after a full synchronization."""
    for target in ("oms-default", "oms-extended", "oms-dataworks", "oms-shareplex"):
        canal, envelope = registry.get("canal"), registry.get(target)
        decoder = canal.decoder(canal.decode_settings(), TableRules())
        (change,) = decoder.decode(Message("t", 0, 7, None, None, flat(1)))
        row = structs.replace(change, operation="read", full_row=True)
        (encoded,) = envelope.encoder(envelope.encode_settings()).encode(row, [])
        assert b"10000000000" not in encoded.value


@pytest.mark.parametrize("target", ["oms-default", "oms-extended", "oms-dataworks"])
def test_a_negative_number_is_no_sequence_of_oms(target):
    """Windows of Databus are signed; readers of OMS take none below zero."""
    schema = intern_schema("shop", None, "t", (Column("id", LogicalType("int64")),), ("id",))
    envelope = registry.get(target)
    encoder = envelope.encoder(envelope.encode_settings())
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    for number, lost in ((-1, ["sequence_id"]), (0, []), (7, [])):
        message = Message("t", 0, 5, None, None, None)
        row = Change("insert", schema, message, after=schema.Image("1"), sequence=(number,))
        losses: list[str] = []
        (encoded,) = encoder.encode(row, losses)
        (read,) = decoder.decode(structs.replace(message, value=encoded.value))
        assert [name for name in losses if name == "sequence_id"] == lost
        assert (read.sequence[0] == number) is not bool(lost)
