"""Sequence ids of written messages: the source's as one number, full rows, those that are made."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from pydantic import ValidationError

from tests.contract.effort import cases
from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.envelopes.sequence.written import UNSIGNED, PackedSequence
from waybill.errors import Refusal
from waybill.lake_columns import ARCHIVE
from waybill.records import NO_TABLE, Change, Column, Message, TableSchema, intern_schema
from waybill.sequence_layout import SequenceLayout, pack, unpack
from waybill.tables import TableRule, TableRules
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


def written(
    target: str, messages: list[tuple[int, int, bytes]], split: int, **settings
) -> list[dict]:
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
        encoder = envelope.encoder(envelope.encode_settings(**settings))
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


def ids(target: str, messages: list[tuple[int, int, bytes]], split: int, **settings) -> list[str]:
    """The ids that a reader finds."""
    changes = read(target, written(target, messages, split, **settings))
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


@pytest.mark.parametrize("target", ["oms-default", "oms-extended", "oms-dataworks", *DATAHUB])
def test_a_negative_number_is_refused(target):
    """Windows of Databus are signed; a made id in its place could stand above later ones."""
    schema = intern_schema("shop", None, "t", (Column("id", LogicalType("int64")),), ("id",))
    encoder = registry.get(target).encoder(registry.get(target).encode_settings())
    message = Message("t", 0, 5, None, None, None)
    row = Change("insert", schema, message, after=schema.Image("1"), sequence=(-1,))
    with pytest.raises(Refusal, match="is -1, and no written id is below 0"):
        encoder.encode(row, [])


LAYOUTS = [layout for envelope in registry.all_envelopes() for layout in envelope.layouts]


class TestLayouts:
    """One integer for several parts."""

    @pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.parts[0])
    @given(data=st.data())
    @settings(max_examples=cases(60), deadline=None)
    def test_numbers_order_as_the_parts_do_and_are_read_back(self, layout, data):
        def sequence() -> tuple[int, ...]:
            parts = [data.draw(st.integers(0, 10**20))]
            for width in layout.digits:
                most = 10**width - 2
                ends = [part for part in (-1, 0, 1, 8, 9, 10, most) if part <= most]
                few = st.sampled_from(ends) | st.integers(-1, most)
                parts.append(data.draw(few) if width else 0)
            return tuple(parts)

        one, other = sequence(), sequence()
        assert (pack(one, layout) < pack(other, layout)) is (one < other)
        assert unpack(pack(one, layout), layout) == one

    def test_a_part_that_is_absent_is_below_all(self):
        layout = SequenceLayout(("file", "position", "row"), (10, 4))
        snapshot, change = pack((3, 154), layout), pack((3, 154, 0), layout)
        assert (snapshot, change) == (300000001550000, 300000001550001)
        assert pack((3, 153, 9_998), layout) < snapshot

    def test_a_part_beyond_its_digits_is_an_error(self):
        layout = SequenceLayout(("file", "position", "row"), (10, 4))
        with pytest.raises(Refusal, match="row of the sequence id is 9999 and has room up to 9998"):
            pack((3, 154, 9_999), layout)
        with pytest.raises(Refusal, match="sequence_digits"):
            pack((3, 154, 0, 1), layout)

    def test_what_64_bits_do_not_hold_is_an_error(self):
        oms, binlog = registry.get("oms-default"), registry.get("debezium-json")
        settings = oms.encode_settings().for_source(binlog, binlog.decode_settings())
        packed = PackedSequence(settings, UNSIGNED)
        extra = b'{"debezium":{"source":{"connector":"mysql"}}}'
        change = Change("insert", NO_TABLE, Message("t", 0, 0, None, None, None), extra=extra)
        change.sequence = (184_467, 4, 0)
        assert packed.of(change, []) == 18_446_700000000050001
        change.sequence = (184_468, 4, 0)
        with pytest.raises(Refusal, match="holds numbers up to 18446744073709551615"):
            packed.of(change, [])

    def test_a_setting_tells_other_digits(self):
        blob, dms = registry.get("datahub-blob"), registry.get("dms")
        settings = blob.encode_settings(sequence_digits=[3, 2]).for_source(
            dms, dms.decode_settings()
        )
        change = Change("insert", NO_TABLE, Message("t", 0, 0, None, None, None))
        change.sequence = (7, 41, 8)
        assert PackedSequence(settings).of(change, []) == 704209


@pytest.mark.parametrize("source", ["maxwell", "ogg", "dms", "debezium-json"])
def test_a_row_without_an_id_among_others_is_refused(source):
    """Unless all ids are made from the position."""
    blob, read = registry.get("datahub-blob"), registry.get(source)
    schema = intern_schema("shop", None, "t", (Column("id", LogicalType("int64")),), ("id",))
    message = Message("t", 0, 5, None, None, None)
    row = Change("insert", schema, message, after=schema.Image("1"))
    settings = blob.encode_settings().for_source(read, read.decode_settings())
    with pytest.raises(Refusal, match="sequence_from: position"):
        blob.encoder(settings).encode(row, [])
    settings = blob.encode_settings(sequence_from="position").for_source(
        read, read.decode_settings()
    )
    for sequence in (None, (3, 4)):
        (encoded,) = blob.encoder(settings).encode(structs.replace(row, sequence=sequence), [])
        assert b'"sequenceId":"1000000000000500000"' in encoded.value


@pytest.mark.parametrize("target", ["databus-binary", "databus-json"])
def test_a_row_of_an_initial_load_is_a_full_row_of_databus(target):
    """GoldenGate's initial loads have places below all others; Databus has window 0 for those."""
    envelope, ogg = registry.get(target), registry.get("ogg")
    encoder = envelope.encoder(envelope.encode_settings().for_source(ogg, ogg.decode_settings()))
    load = b'"pos":"00000000-10000000097"'
    row = b'{"table":"shop.t","op_type":"I",%b,"primary_keys":["id"],"after":{"id":1}}' % load
    (change,) = ogg.decoder(ogg.decode_settings(), TableRules()).decode(
        Message("t", 0, 0, None, None, row)
    )
    losses: list[str] = []
    encoded = encoder.encode(change, losses)
    reads = envelope.decoder(envelope.decode_settings(), TableRules())
    (written, *_) = encoded
    written_message = Message("t", 0, 0, None, written.key, written.value, written.headers)
    (found, *_) = reads.decode(written_message)
    assert (found.operation, found.full_row) == ("read", True), found
    assert "sequence_id" in losses


DML = [
    (
        "datahub-blob",
        b'{"schema":{"dataColumn":[{"name":"id","type":"LONG"}],"primaryKey":["id"],'
        b'"source":{"dbName":"shop","tableName":"t"}},"payload":{"op":"INSERT","after":'
        b'{"dataColumn":{"id":1}},"timestamp":{"eventTime":1},%b},"version":"0.0.1"}',
        b'"sequenceId":"5"',
        b'"ddl":null',
    ),
    (
        "datahub-tuple",
        b'{"_operation_type_":"I","_before_image_":"N","_after_image_":"Y",'
        b'"_source_table_":"shop.t","id":"1",%b}',
        b'"_sequence_id_":"5"',
        b'"_sequence_id_":null',
    ),
    (
        "oms-default",
        b'{"prevStruct":null,"postStruct":{"id":1},"allMetaData":{"db":"shop",'
        b'"table_name":"t","record_primary_key":"id","timestamp":"1",%b},"recordType":"INSERT"}',
        b'"storeDataSequence":5',
        b'"storeDataSequence":null',
    ),
    (
        "oms-dataworks",
        b'{"version":"2.0","schema":{"source":{"dbName":"shop","table":"t"},"column":'
        b'[{"name":"id","type":"INT64"}],"pk":["id"]},"payload":{"before":{"data":{"id":1}},'
        b'"after":null,"op":"DELETE",%b}}',
        b'"scn":"5"',
        b'"scn":"null"',
    ),
    (
        "oms-shareplex",
        b'{"data":{"id":1},"meta":{"op":"del","table":"shop.t",%b}}',
        b'"scn":"5"',
        b'"scn":""',
    ),
]


@pytest.mark.parametrize(("source", "form", "given_id", "no_id"), DML, ids=lambda x: str(x)[:14])
def test_who_must_have_an_id_is_refused_without(source, form, given_id, no_id):
    """Each message twice: what was read before does not matter."""
    envelope = registry.get(source)
    rules = TableRules({"shop.t": TableRule(("id",), {"id": LogicalType("int64")})})
    for ids, good, bad in (("in_messages", given_id, no_id), ("none", no_id, given_id)):
        decoder = envelope.decoder(envelope.decode_settings(sequence_ids=ids), rules)
        for _ in range(2):
            (change,) = decoder.decode(Message("t", 0, 0, None, None, form % good))
            assert (change.outcome, change.full_row) == ("ok", False)
            with pytest.raises(Refusal, match="sequence_ids: none") as refused:
                decoder.decode(Message("t", 0, 0, None, None, form % bad))
            assert refused.value.kind == "sequence"


FULL = [
    ("oms-default", DML[2][1].replace(b',"timestamp":"1"', b""), DML[2][3]),
    (
        "oms-dataworks",
        DML[3][1].replace(
            b'"before":{"data":{"id":1}},"after":null,"op":"DELETE"',
            b'"before":null,"after":{"data":{"id":1}},"op":"INSERT"',
        ),
        DML[3][3],
    ),
    ("oms-shareplex", DML[4][1].replace(b'"del"', b'"ins"'), DML[4][3]),
]


@pytest.mark.parametrize("target", ["datahub-blob", "oms-default", "oms-dataworks", "ogg"])
@pytest.mark.parametrize(("source", "form", "no_id"), FULL, ids=lambda x: str(x)[:14])
def test_a_full_row_of_oms_is_written_as_one(source, form, no_id, target):
    read, write = registry.get(source), registry.get(target)
    rules = TableRules({"shop.t": TableRule(("id",), {"id": LogicalType("int64")})})
    (change,) = read.decoder(read.decode_settings(), rules).decode(
        Message("t", 0, 0, None, None, form % no_id)
    )
    assert (change.operation, change.full_row, change.sequence) == ("read", True, None)
    settings = write.encode_settings().for_source(read, read.decode_settings())
    (encoded,) = write.encoder(settings).encode(change, [])
    mark = {"datahub-blob": b'"sequenceId":"-1"', "oms-default": b'"recordType":"ROW"'}
    assert mark.get(target, b"{") in encoded.value
    assert b"10000000" not in encoded.value
