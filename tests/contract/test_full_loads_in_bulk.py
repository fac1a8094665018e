"""Messages of a source that has full loads: in bulk as one by one, and so are the dumps' rows."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.contract.test_bulk import READ, settings_for, stream
from tests.contract.test_bulk_rows import archive_of
from waybill.batches.decoding import ChangeBatches
from waybill.batches.messages import messages_of
from waybill.convert.full_loads import has_full_loads
from waybill.convert.plan import DecodePlan
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.full_load import HEADER, TOPIC, FullLoad

ROWS = 40


def dump() -> pa.RecordBatch:
    """Rows of a dump, as the archive has them."""
    header = FullLoad("shop.orders", (7,), {"id": "int32", "v": "string"}).to_header()
    lines = [b'{"id": %d, "v": "x"}' % number for number in range(ROWS)]
    batch = archive_of(lines, random.Random(1))
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["topic"] = pa.array([f"{TOPIC}shop.orders"] * ROWS)
    columns["value"] = pa.array(lines, pa.binary())
    kind = batch.schema.field("headers").type
    columns["headers"] = pa.array([[{"key": HEADER, "value": header}]] * ROWS, kind)
    return pa.RecordBatch.from_pydict(columns, schema=batch.schema)


def changes_and_schemas(rows: list[dict]) -> tuple[list[dict], dict[str, str]]:
    """Changes by their places, and schemas: these come with any of their changes."""
    place = ("outcome", "topic", "partition", "offset", "index", "half")
    changes = [row for row in rows if row["outcome"] != "schema"]
    changes.sort(key=lambda row: [str(row[name]) for name in place])
    return changes, {row["schema_id"]: row["extra"] for row in rows if row["outcome"] == "schema"}


@pytest.mark.parametrize("source", READ)
def test_a_source_with_full_loads_is_read_in_bulk(source):
    dice = random.Random(source)
    lines, rules = stream(source, dice, 60)
    batches = [archive_of(lines, dice), dump()]
    plan = DecodePlan(registry.get(source), settings_for(source), rules)

    def work(alone) -> ChangeBatches:
        joiner = PairJoiner() if plan.envelope.pairs else None
        return ChangeBatches(plan.decoder(), "batch", joiner, plan.bulk_reader(), alone)

    exact, many = work(None), work(has_full_loads)
    bulk = many._by_bulk(plan.bulk_reader())
    many._threshold = SimpleNamespace(of=lambda _size: bulk, paid=lambda *_: None)
    expected = [
        row
        for batch in batches
        for row in exact.rows(exact.changes(messages_of(batch))).to_pylist()
    ]
    if exact.joiner is not None:
        expected += exact.rows(exact.joiner.rest()).to_pylist()
    found = [row for rows in many.convert(iter(batches)) for row in rows.to_pylist()]
    assert changes_and_schemas(found) == changes_and_schemas(expected)
    assert sum(row["topic"].startswith(TOPIC) and row["outcome"] == "ok" for row in found) == ROWS
