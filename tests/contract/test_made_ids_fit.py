"""Ids made from positions never leave the field that holds them, in bulk as one by one.

Each file of a source of files is a partition, so that a folder can have too many for them.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.bulk_streams import Stream
from tests.contract.test_exact_is_bulk import Read, read, same, write
from tests.unit.envelopes.sequence.test_written import flat
from waybill.batches.encoding import MessageBatches
from waybill.batches.message_rows import CHANGE
from waybill.envelopes import registry
from waybill.envelopes.sequence.written import FIRST_SECOND, SIGNED, UNSIGNED
from waybill.order import MAX_INDEX, MAX_OFFSET
from waybill.records import Message, TableSchema
from waybill.tables import TableRules

LARGEST = {
    **dict.fromkeys(["oms-default", "oms-extended", "databus-binary", "databus-json"], SIGNED),
    "tidb-canal": UNSIGNED,
}
DIGITS = {"oms-default": 5, "oms-extended": 5}
EACH = 60
"""So many messages of one partition stand together, more than a batch has."""


def one_by_one(target: str, changes: Read) -> list[dict[str, Any]]:
    envelope, (_, texts) = registry.get(target), changes.contents()
    schemas = {schema_id: TableSchema.from_json(text) for schema_id, text in texts.items()}
    accepted = changes.rows.filter(pa.compute.equal(changes.rows["outcome"], "ok"))
    work = MessageBatches(envelope.encoder(envelope.encode_settings()), "label", "batch", schemas)
    batches = accepted.select(CHANGE.names).combine_chunks().to_batches()
    found: list[dict[str, Any]] = []
    for batch in batches:
        found += work.batch_of(work.tuples(batch)[0]).to_pylist()
    return found


@pytest.mark.parametrize("target", LARGEST)
def test_an_id_beyond_the_field_is_refused(target):
    envelope, canal, largest = registry.get(target), registry.get("canal"), LARGEST[target]
    start = FIRST_SECOND * 10 ** DIGITS.get(target, 9)
    last = (largest - start) // MAX_INDEX
    partition, offset = divmod(last, MAX_OFFSET)
    places = [(0, 5), (partition - 1, 5), (partition, offset - EACH + 1), (partition, offset + 1)]
    messages = [
        Message("topic", at, first + n, 1, None, flat(n))
        for at, first in [*places, (partition + 1, 0)]
        for n in range(EACH)
    ]
    changes = read("canal", Stream(messages, TableRules(), canal.decode_settings()), bulk=False)
    with tempfile.TemporaryDirectory() as folder:
        expected = one_by_one(target, changes)
        if envelope.bulk_writer is not None:
            made, in_bulk = write(target, changes, folder, bulk=True)
            same(expected, made)
            assert in_bulk >= EACH, "those of the first partition"
    refused = [row for row in expected if row["outcome"] == "refused"]
    assert len(refused) == 2 * EACH
    assert {row["reason_kind"] for row in refused} == {"encoding"}
    for row in refused:
        place = f"partition {row['partition']}, offset {row['offset']} is "
        assert place in row["reason"]
        assert f"holds numbers up to {largest}: publish" in row["reason"]
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    ids = []
    for row in expected:
        if row["outcome"] != "ok":
            continue
        headers = [(h["key"], h["value"]) for h in row["headers"] or ()] or None
        found = decoder.decode(Message("t", 0, 0, 1, row["key"], row["value"], headers))
        ids += [one.sequence[0] for one in found if one.operation == "insert"]
    assert len(ids) == 3 * EACH
    assert ids == sorted(ids)
    assert largest - MAX_INDEX < ids[-1] <= largest
