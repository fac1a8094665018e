"""Rows of `changes` and of the outbox that many messages become at once are those of one by one."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.outbox_rows import accepted_halves, agree_on_the_outbox
from tests.contract.roundtrip import write_settings
from tests.contract.test_bulk import READ, damaged, pairs, settings_for, stream
from tests.histories import column_of, image
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.message_rows import CHANGE
from waybill.batches.messages import messages_of
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.records import Change, Message, intern_schema
from waybill.tables import TableRules


def archive_of(lines: list[bytes], dice: random.Random) -> pa.RecordBatch:
    rows = len(lines)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["topic"] * rows,
            "partition": pa.array([dice.randrange(3) for _ in lines], pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array(
                [(1_700_000_000_000 + i) * 1000 for i in range(rows)], pa.int64()
            ).cast(TIMESTAMP),
            "key": pa.array([None if dice.random() < 0.9 else b"k" for _ in lines], pa.binary()),
            "value": pa.array([None if dice.random() < 0.02 else v for v in lines], pa.binary()),
            "headers": pa.array(
                [None if dice.random() < 0.95 else [{"key": "h", "value": b"v"}] for _ in lines],
                HEADERS,
            ),
        }
    )


def decoded(source: str, batches: list[pa.RecordBatch], rules: TableRules, bulk: bool) -> Any:
    envelope = registry.get(source)
    decoder = envelope.decoder(settings_for(source), rules)  # type: ignore[misc]
    joiner = PairJoiner() if envelope.pairs else None
    work = ChangeBatches(decoder, "batch", joiner)
    in_bulk = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1)  # type: ignore[misc]
    made = [
        in_bulk.rows(batch) if bulk else work.rows(work.changes(messages_of(batch)))
        for batch in batches
    ]
    if joiner is not None:
        made.append(work.rows(joiner.rest()))
    rows = [row for batch in made for row in batch.to_pylist()]
    changes = [row for row in rows if row["outcome"] != "schema"]
    schemas = {row["schema_id"]: row["extra"] for row in rows if row["outcome"] == "schema"}
    joined = 0 if joiner is None else joiner.joined
    return changes, schemas, (work.messages, work.decoded, joined), in_bulk.in_bulk


@pytest.mark.parametrize("source", READ)
@properties(4)
@given(seed=st.integers(0, 2**32))
def test_rows_of_changes(source, seed):
    dice = random.Random(seed)
    lines, rules = stream(source, dice, 60)
    lines = list(itertools.chain.from_iterable(damaged(dice, line) for line in lines))
    whole = archive_of(lines, dice)
    batches = [whole.slice(first, 12) for first in range(0, len(lines), 12)]
    *expected, _ = decoded(source, batches, rules, bulk=False)
    *found, _ = decoded(source, batches, rules, bulk=True)
    for one, other in zip(expected[0], found[0], strict=True):
        assert one == other
    assert found == expected


@pairs
@properties(3)
@given(seed=st.integers(0, 2**32))
def test_rows_of_the_outbox(source, target, seed):
    dice = random.Random(seed)
    lines, rules = stream(source, dice, 60)
    envelope = registry.get(source)
    decoder = envelope.decoder(settings_for(source), rules)  # type: ignore[misc]
    work = ChangeBatches(decoder, "batch", PairJoiner() if envelope.pairs else None)
    table = pa.Table.from_batches(work.convert(iter([archive_of(lines, dice)])))
    agree_on_the_outbox(target, write_settings(registry.get(target)), *accepted_halves(table))


@pytest.mark.parametrize("target", [e.name for e in registry.all_envelopes() if e.bulk_writer])
@pytest.mark.parametrize("full_row", [True, False])
@pytest.mark.parametrize("sequence", [None, (7,), (7, -1)])
def test_rows_of_snapshots_in_the_outbox(target, full_row, sequence):
    columns = [column_of("id", "bigint", ""), column_of("v", "string", "")]
    schema = intern_schema("shop", None, "orders", tuple(columns), ("id",), "")
    changes = [
        Change(
            "read",
            schema,
            Message("topic", 0, number, 1_700_000_000_000, None, None),
            after=image(schema, id=str(number), v="x"),
            sequence=sequence and (*sequence[:-1], sequence[-1] + number % 3),
            full_row=full_row,
        )
        for number in range(40)
    ]
    envelope = registry.get("canal")
    decoder = envelope.decoder(settings_for("canal"), TableRules())  # type: ignore[misc]
    batch = ChangeBatches(decoder, "batch", None).rows(changes)
    rows = pa.Table.from_batches([batch])
    accepted = rows.filter(pa.compute.equal(rows["outcome"], "ok")).select(CHANGE.names)
    assert len(accepted) == len(changes)
    written = write_settings(registry.get(target))
    agree_on_the_outbox(
        target, written, accepted.combine_chunks().to_batches(), {schema.id: schema}
    )
