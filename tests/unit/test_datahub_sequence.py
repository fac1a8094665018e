"""Sequence ids that DataHub's messages need and the source did not give."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.envelopes.batch import ChangeBatches, MessageBatches
from waybill.layout import ARCHIVE
from waybill.records import TableSchema
from waybill.tables import TableRules

ENVELOPES = ["datahub-blob", "datahub-tuple"]
FIRST = "1000000000000000000"


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


def ids(target: str, messages: list[tuple[int, int, bytes]], split: int, **told) -> list[str]:
    """The sequence ids of written messages; each batch has its own decoder and encoder."""
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
        written = MessageBatches(encoder, target, f"batch-{start}", schemas)
        for batch in written.convert(iter(accepted.combine_chunks().to_batches())):
            for value in batch.column("value").to_pylist():
                message = json.loads(value)
                found.append(message.get("_sequence_id_") or message["payload"]["sequenceId"])
    return found


@pytest.mark.parametrize("target", ENVELOPES)
class TestMadeIds:
    def test_they_grow_strictly_and_go_on_over_batches(self, target):
        """However the messages are split into batches and tasks, and on every rerun."""
        messages = [(0, n, flat(n, rows=3)) for n in range(9_997, 10_003)]
        messages += [(1, n, flat(n)) for n in (0, 4_000_000_000)]
        whole = ids(target, messages, split=100)
        assert whole == ids(target, messages, split=100)
        assert whole == ids(target, messages, split=1)
        assert whole == ids(target, messages, split=3)
        numbers = [int(number) for number in whole]
        assert numbers == sorted(set(numbers))
        assert all(re.fullmatch("[1-9][0-9]{18}", number) for number in whole)
        assert whole == sorted(whole), "as text too, for consumers that compare so"
        assert max(numbers) < 2**63

    def test_the_halves_of_an_update_share_one(self, target):
        first, second, third = ids(target, [(0, 0, flat(1, "UPDATE")), (0, 1, flat(2))], split=5)
        assert first == second == FIRST
        assert third == "1000000000000100000"

    def test_they_begin_where_the_setting_says(self, target):
        (number,) = ids(target, [(0, 7, flat(1))], split=1, sequence_start=1_605_339_516)
        assert number == "1605339516000700000"

    @pytest.mark.parametrize("second", [0, 999_999_999, 4_000_000_001, "soon"])
    def test_a_second_of_ten_digits(self, target, second):
        with pytest.raises(ValidationError):
            registry.get(target).encode_settings(sequence_start=second)
