"""Sequence ids that only some messages have: no target mixes kept ids with made ones.

Full rows have none in most formats, and statements may lack one where rows have it. A made id
beside ids that were kept would bring old rows back, or empty a table for good.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.roundtrip import read, read_settings, rules_for, travel, write_settings
from tests.contract.test_envelopes import BOTH_WAYS, WRITTEN
from tests.contract.test_pairs import ITSELF, PAIRS
from tests.histories import by_name, column_of, image
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.merge import rules
from waybill.records import ROW_OPERATIONS, Change, Message, intern_schema

SCHEMA = intern_schema(
    "shop", None, "orders", (column_of("id", "int64", ""), column_of("v", "string", "")), ("id",)
)
NUMBERS = (1, 160934467110002, 1000000000000150000, 1605339516000000004)
"""First numbers of sources: below the ids that are made, among them and above them."""
_NUMBER = re.compile(
    rb',"(?:storeDataSequence|scn|sequenceId)":"?[0-9]+"?|(?<=[{])"commitTs":[0-9]+'
)


@st.composite
def logs(draw: st.DrawFn) -> list[Change]:
    """Full rows without a number, then changes with one and TRUNCATEs with or without one."""
    found: list[Change] = []
    partition = draw(st.sampled_from([0, 1]))
    number = draw(st.sampled_from(NUMBERS))
    rows: dict[str, dict[str, str | None]] = {}

    def log(operation: str, before: Any, after: Any, numbered: bool) -> None:
        message = Message("topic", partition, len(found), 1_700_000_000_000, None, None)
        found.append(
            Change(
                operation,
                SCHEMA,
                message,
                before=None if before is None else image(SCHEMA, **before),
                after=None if after is None else image(SCHEMA, **after),
                sequence=(number + len(found),) if numbered else None,
                full_row=operation == "read",
                source_time=None if operation == "read" else 1_700_000_000_000_000,
            )
        )

    for name in draw(st.lists(st.sampled_from("123"), unique=True)):
        rows[name] = {"id": name, "v": "old"}
        log("read", None, rows[name], False)
    for step in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 9)) == 0:
            rows.clear()
            log("truncate", None, None, draw(st.booleans()))
            continue
        name = draw(st.sampled_from("123"))
        row = rows.get(name)
        if row is not None and draw(st.booleans()):
            del rows[name]
            log("delete", row, None, True)
        else:
            rows[name] = {"id": name, "v": f"new {step}"}
            log("insert" if row is None else "update", row, rows[name], True)
    return found


def read_by(envelope: Any, changes: list[Change]) -> list[Change]:
    """The changes as a stream of this envelope brings them; what has no number is sent without."""
    written = write_settings(envelope)
    encoder = envelope.encoder(written)
    decoder = envelope.decoder(read_settings(envelope, written), rules_for(envelope, [SCHEMA]))
    joiner, found, offset = PairJoiner(), [], 0
    for change in changes:
        messages = []
        for encoded in encoder.encode(change, []):
            value = encoded.value
            if value is not None and change.operation == "truncate" and change.sequence is None:
                value = _NUMBER.sub(b"", value)
            place = change.message.partition, offset, change.message.timestamp
            messages.append(Message("topic", *place, encoded.key, value, encoded.headers))
            offset += 1
        found += read(decoder, joiner, messages)
    return found


def tables(changes: list[Change]) -> Any:
    """The rows that are there in the end, by the rules of the merge."""
    table = rules.Table()
    table.apply(
        rules.Change(
            change.order_key,
            change.operation,
            "" if change.operation == "truncate" else change.key_image().f0,
            by_name(change.schema, change.after),
            place=(change.message.topic, change.message.partition, change.message.offset, 0),
        )
        for change in changes
        if change.operation in {*ROW_OPERATIONS, "truncate"}
    )
    return table.live()


@pytest.mark.parametrize(("source", "target"), PAIRS + ITSELF)
@properties(4)
@given(data=st.data())
def test_a_target_has_the_rows_of_its_source(source, target, data):
    came = read_by(source, data.draw(logs()))
    trips = travel(target, came, bare=False)
    for trip in trips:
        assert trip.unread is None, f"{trip.unread}"
        if trip.refusal is not None:
            assert trip.refusal.kind in WRITTEN
            return
    lost = {name for trip in trips for name in trip.losses}
    bare = any(c.operation == "truncate" and c.sequence is None for c in came)
    if "truncate" in lost or (bare and "sequence_id" in lost):
        return
    there = [change for trip in trips for change in trip.read]
    assert tables(there) == tables(came)


@st.composite
def snapshots_among_changes(draw: st.DrawFn) -> list[Change]:
    """Rows of snapshots, older than every change or with a place among them, and changes."""
    sequenced = draw(st.booleans())
    found: list[Change] = []
    for step in range(draw(st.integers(1, 6))):
        operation = draw(st.sampled_from(["read", "read", "insert", "delete"]))
        row = image(SCHEMA, id=draw(st.sampled_from("12")), v=f"{operation} {step}")
        full_row = operation == "read" and draw(st.booleans())
        placed = draw(st.booleans()) if full_row else sequenced
        found.append(
            Change(
                operation,
                SCHEMA,
                Message("topic", 0, step, 1_700_000_000_000, None, None),
                before=row if operation == "delete" else None,
                after=None if operation == "delete" else row,
                sequence=(1605339516000000004 + step,) if placed else None,
                full_row=full_row,
            )
        )
    return found


@pytest.mark.parametrize("envelope", BOTH_WAYS, ids=lambda envelope: envelope.name)
@properties(60)
@given(data=st.data())
def test_rows_of_snapshots_keep_their_order(envelope, data):
    """A full row never wins against a change, and one with a place never loses to an older one."""
    trips = travel(envelope, data.draw(snapshots_among_changes()), bare=False)
    for trip in trips:
        assert trip.refusal is None
        if trip.change.full_row and "full_rows" in trip.losses:
            return
    full = [trip for trip in trips if trip.change.full_row]
    if any("sequence_id" in trip.losses for trip in full):
        # Only their places showed which one of several full rows is the newest.
        trips = [trip for trip in trips if trip not in full[1:]]
    there = [change for trip in trips for change in trip.read]
    assert tables(there) == tables([trip.change for trip in trips])


@pytest.mark.parametrize("envelope", BOTH_WAYS, ids=lambda envelope: envelope.name)
@properties(15)
@given(data=st.data())
def test_a_message_without_a_number_is_written_without_one(envelope, data):
    """Nothing is lost on the way into the same format, and nothing made up."""
    came = read_by(envelope, data.draw(logs()))
    for trip in travel(envelope, came, bare=False):
        assert [change.sequence for change in trip.read] == [trip.change.sequence] * len(trip.read)
        assert "sequence_id" not in trip.losses


def oms(kind: str, row: dict[str, Any], number: int | None = None) -> bytes:
    """A message of OMS Default."""
    meta: dict[str, Any] = {"dbType": "MYSQL", "db": "shop", "table_name": "orders"}
    meta["record_primary_key"] = "id" if kind != "DDL" else None
    if number is not None:
        meta["storeDataSequence"] = number
    message = {"prevStruct": None, "postStruct": row, "allMetaData": meta, "recordType": kind}
    return msgspec.json.encode(message)


@pytest.mark.parametrize(
    "target", ["datahub-blob", "datahub-tuple", "oms-dataworks", "databus-json"]
)
def test_an_id_that_is_made_in_the_place_of_none_is_counted(target):
    """A project of OMS that does not number its messages."""
    source, envelope = registry.get("oms-default"), registry.get(target)
    settings = source.decode_settings(sequence_ids="none")
    decoder = source.decoder(settings, rules_for(source, []))
    encoder = envelope.encoder(envelope.encode_settings().for_source(source, settings))
    losses: list[str] = []
    for change in decoder.decode(Message("t", 0, 0, None, None, oms("INSERT", {"id": 1}))):
        encoder.encode(change, losses)
    assert "sequence_id" in losses
