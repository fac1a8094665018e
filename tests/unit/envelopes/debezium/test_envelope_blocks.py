"""The blocks of a written message are the same, whichever way they are put together."""

from __future__ import annotations

import msgspec
import pytest

from waybill.envelopes.debezium.envelope_blocks import LONGEST, Blocks
from waybill.envelopes.debezium.settings import DebeziumWriteSettings
from waybill.records import Change, Column, Message, intern_schema
from waybill.types import parse_type

TABLE = intern_schema("100% shop", None, 'or"ders', (Column("id", parse_type("int64")),), ("id",))


def _blocks(operation: str, op: str, **more: object) -> dict[str, object]:
    message = Message("t", 0, 0, None, None, None)
    change = Change(operation, TABLE, message, **more)  # type: ignore[arg-type]
    written = Blocks(TABLE, DebeziumWriteSettings()).of(change, op)
    found: dict[str, object] = msgspec.json.decode(b"{%b}" % written)
    return found


@pytest.mark.parametrize("sequence", [None, (7,), (7, 0), (2**64 - 1, 2**63, -1, 0, 5)])
@pytest.mark.parametrize("micros", [None, 0, 1, 1_714_554_061_123_456, -1_500, LONGEST])
@pytest.mark.parametrize(("operation", "op"), [("insert", "c"), ("update", "u"), ("delete", "d")])
def test_only_the_transaction_is_different_with_one(
    sequence: tuple[int, ...] | None, micros: int | None, operation: str, op: str
) -> None:
    # A change with a transaction goes the general way, one without the short one.
    alone = _blocks(operation, op, sequence=sequence, source_time=micros)
    within = _blocks(operation, op, sequence=sequence, source_time=micros, transaction="tx")
    block = within.pop("transaction")
    assert block == {"id": "tx", "total_order": None, "data_collection_order": None}
    assert alone.pop("transaction") is None
    assert alone == within
    source = alone["source"]
    assert isinstance(source, dict)
    stated = None if sequence is None else [str(part) for part in sequence]
    read = source["sequence"]
    assert (None if read is None else msgspec.json.decode(read)) == stated
    assert (source["db"], source["table"]) == (TABLE.database, TABLE.table)
