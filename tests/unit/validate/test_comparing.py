"""Messages to publish beside their changes: what the gate's tasks find, at once and one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.outbox_damage import DAMAGES
from tests.unit.inprocess.test_converter import canal
from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.envelopes import registry
from waybill.lake_columns import ARCHIVE, OUTBOX
from waybill.records import TableSchema
from waybill.spec.endpoints import Source, Target
from waybill.tables import TableRules
from waybill.validate.comparing import MINE, SAMPLED, THEIRS, Comparison
from waybill.validate.readers import readers_of

COUNT = 200
TARGETS = ("canal", "debezium-json", "oms-default", "maxwell", "datahub-blob")


@pytest.fixture(params=["on", "off"], autouse=True)
def bulk(request, monkeypatch):
    """Both ways of decoding."""
    monkeypatch.setenv("WAYBILL_BULK", request.param)
    return request.param == "on"


def made(target: str, values: list[bytes]) -> tuple[pa.Table, pa.Table, Comparison]:
    """Changes and messages, as `convert` writes them, and what compares them."""
    rows = [
        {"topic": "shop", "partition": 0, "offset": i, "value": value, "batch": "b1"}
        for i, value in enumerate(values)
    ]
    archive = pa.RecordBatch.from_pylist(rows, ARCHIVE)
    source, envelope = registry.get("canal"), registry.get(target)
    decoding = ChangeBatches(
        source.decoder(source.decode_settings(), TableRules()), "b1", None, source.bulk_reader
    )
    changes = pa.Table.from_batches(list(decoding.convert(iter([archive]))))
    stated = changes.filter(pa.compute.equal(changes["outcome"], "schema")).to_pylist()
    schemas = {row["schema_id"]: TableSchema.from_json(row["extra"]) for row in stated}
    accepted = changes.filter(pa.compute.equal(changes["outcome"], "ok")).combine_chunks()
    settings = envelope.encode_settings().following(source, {})
    encoding = MessageBatches(
        envelope.encoder(envelope.encode_settings.model_validate(settings)),
        *(target, "b1", schemas, envelope.bulk_writer),
    )
    outbox = pa.Table.from_batches(list(encoding.convert(iter(accepted.to_batches()))), OUTBOX)
    came = Source.model_validate({"envelope": "canal", "files": {"path": "in", "topic": "shop"}})
    goes = Target.model_validate({"envelope": target, "files": {"path": "out"}})
    (reader,) = readers_of(came, [goes], schemas.values()).values()
    comparison = Comparison(target, reader, schemas)
    return accepted.select(MINE.names), outbox.select(THEIRS.names), comparison


def both_kinds(count: int) -> list[bytes]:
    rows = [canal(i, id=100 + i) for i in range(count)]
    return rows + [canal(i, "UPDATE", id=1000 + i) for i in range(count)]


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_written_passes(target):
    changes, messages, comparison = made(target, both_kinds(COUNT))
    assert list(comparison.compare(changes, messages)) == []
    assert comparison.topics == {"shop": 2 * COUNT}


def test_few_are_decoded_one_by_one(bulk):
    changes, messages, comparison = made("debezium-json", both_kinds(COUNT))
    assert list(comparison.compare(changes, messages)) == []
    assert 2 * COUNT // SAMPLED <= comparison.one_by_one <= 2 * COUNT // SAMPLED + 4


@pytest.mark.parametrize("target", ["canal", "debezium-json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_nothing_else(target, damage):
    changes, messages, comparison = made(target, both_kinds(COUNT))
    rows = messages.to_pylist()
    wrong = DAMAGES[damage](rows, 150)
    damaged = pa.Table.from_pylist(rows, messages.schema)
    found = list(comparison.compare(changes, damaged))
    assert {one.place for one in found} == {("shop", 0, offset, 0) for offset in wrong}
    # A message key of Debezium that is another row's than the value is refused.
    unread = damage == "a cut message" or (
        target == "debezium-json" and damage == "values of two rows swapped"
    )
    assert {one.undecodable for one in found} == {unread}


def test_a_change_that_came_twice_has_its_messages_twice():
    """A full run that takes up what another one has read brings every message once more."""
    changes, messages, comparison = made("debezium-json", both_kinds(COUNT))
    again = pa.concat_tables([messages, messages])
    assert list(comparison.compare(pa.concat_tables([changes, changes]), again)) == []
    assert len(list(comparison.compare(changes, again))) == 2 * COUNT


def test_a_fault_that_reading_and_writing_at_once_share_is_found(monkeypatch):
    """Such a fault lets the bytes agree; here, they agree whatever the messages say."""

    def agreeing(_comparison, pairs):
        return np.ones(len(pairs.starts), np.bool_)

    monkeypatch.setattr(Comparison, "_same", agreeing)
    changes, messages, comparison = made("debezium-json", both_kinds(COUNT))
    rows = messages.to_pylist()
    for row in rows[COUNT:]:
        row["value"] = row["value"].replace(b"0.10000", b"0.10001")
    damaged = pa.Table.from_pylist(rows, messages.schema)
    found = {one.place[2] for one in comparison.compare(changes, damaged)}
    assert found == {COUNT, *(n for n in range(COUNT, 2 * COUNT) if n % SAMPLED == 0)}
