"""A batch that was converted is free at once: nothing of it waits for Python to look for cycles.

Python looks for them after so many new objects. A batch has few, and tens of megabytes: a task that
leaves each in a cycle holds gigabytes after some million messages.
"""

from __future__ import annotations

import gc
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.bulk_streams import plain
from tests.contract.test_bulk_avro import Side, batch_of
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.bulk_encoding import BulkMessageBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.batches.message_rows import CHANGE
from waybill.envelopes import registry
from waybill.records import TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from tests.contract.bulk_streams import Stream

NAMES = registry.names()
WRITERS = [name for name in NAMES if registry.get(name).bulk_writer is not None]

HOLDERS = {"Arena", "Block", "Messages", "RecordBatch", "Rows", "Scanned", "Table"}
"""Objects of these types hold values of a batch; functions that are compiled only once may stay."""


def decoding(name: str, stream: Stream) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    envelope = registry.get(name)
    decoder: Any = envelope.decoder(stream.settings, stream.rules)  # type: ignore[misc]
    work = ChangeBatches(decoder, "batch", None)
    return BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1).rows  # type: ignore[misc]


def left_by(work: Callable[[pa.RecordBatch], pa.RecordBatch], batch: pa.RecordBatch) -> list[str]:
    """What holds values, cannot be reached any more and is there once a batch was converted."""
    # The million objects of all other tests cannot be part of it, and are not looked through.
    gc.freeze()
    for _ in range(2):  # what is learnt of the first stays
        work(batch)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work(batch)
        gc.collect()
        return [name for one in gc.garbage if (name := type(one).__name__) in HOLDERS]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("name", NAMES)
def test_reading(name):
    with tempfile.TemporaryDirectory() as folder:
        for stream in plain(name, folder):
            assert left_by(decoding(name, stream), batch_of(stream.messages)) == []


@pytest.mark.parametrize("name", WRITERS)
def test_writing(name):
    with tempfile.TemporaryDirectory() as folder:
        (stream,) = plain(name, folder)
        rows = decoding(name, stream)(batch_of(stream.messages))
        texts = {
            row["schema_id"]: row["extra"] for row in rows.to_pylist() if row["outcome"] == "schema"
        }
        schemas = {one: TableSchema.from_json(text) for one, text in texts.items()}
        accepted = rows.filter([one == "ok" for one in rows["outcome"].to_pylist()])
        envelope = registry.get(name)
        encoder: Any = envelope.encoder(Side(name).written(folder))  # type: ignore[misc]
        work = MessageBatches(encoder, "label", "batch", schemas)
        many = BulkMessageBatches(work, envelope.bulk_writer(encoder), fewest=1)  # type: ignore[misc]
        assert left_by(many.rows, accepted.select(CHANGE.names)) == []
