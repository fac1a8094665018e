"""Avro data against an independent implementation, IBM CDC's audit form, and hostile bytes."""

from __future__ import annotations

import base64
import io
import json
import math

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.probes import COLUMNS, IN_PUBLIC, MOVED, OTHER, PLAIN, ROW, change, table
from tests.contract.roundtrip import differences, named, travel
from tests.contract.test_envelopes import lost
from tests.histories import Knobs, by_name, histories
from waybill.avro.faults import explain
from waybill.avro.json_writing import json_writer
from waybill.avro.reading import READ_ERRORS, object_reader
from waybill.avro.schema import parse
from waybill.envelopes import registry

IBM = registry.get("ibmcdc-avro")

PRIMITIVE = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False) | st.just(math.nan),
    "double": st.floats(allow_nan=False) | st.just(math.nan),
    "bytes": st.binary(max_size=200),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
}


@st.composite
def typed(draw, depth=3, names=None):
    """A schema and a strategy for its values."""
    names = [] if names is None else names
    kind = draw(st.sampled_from([*PRIMITIVE, *(["record", "union", "array", "map"] * (depth > 0))]))
    if kind in PRIMITIVE:
        return kind, PRIMITIVE[kind]
    names.append(f"N{len(names)}")
    if kind == "record":
        name = names[-1]
        inner = [draw(typed(depth - 1, names)) for _ in range(draw(st.integers(1, 5)))]
        fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(inner)]
        values = st.fixed_dictionaries({f"f{i}": value for i, (_, value) in enumerate(inner)})
        return {"type": "record", "name": name, "fields": fields}, values
    if kind == "union":
        some = draw(st.sampled_from(sorted(PRIMITIVE.keys() - {"null"})))
        order = draw(st.permutations(["null", some]))
        return order, st.none() | PRIMITIVE[some]
    schema, values = draw(typed(depth - 1, names))
    if kind == "map":
        keys = PRIMITIVE["string"]
        return {"type": "map", "values": schema}, st.dictionaries(keys, values, max_size=3)
    if schema == "null" or (isinstance(schema, dict) and schema["type"] == "record"):
        schema, values = "long", PRIMITIVE["long"]
    return {"type": "array", "items": schema}, st.lists(values, max_size=3)


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


@properties(150)
@given(data=st.data())
def test_what_others_write_is_read_and_the_other_way_round(data):
    schema, values = data.draw(typed())
    node = parse(json.dumps(schema))
    read, write = object_reader(node), json_writer(node)
    value = data.draw(values)
    theirs = io.BytesIO()
    fastavro.schemaless_writer(theirs, fastavro.parse_schema(schema), value)
    written = theirs.getvalue()
    found, end = read(b"12345" + written, 5, 5 + len(written))
    assert end == 5 + len(written)
    text = msgspec.json.encode(found)
    assert json.loads(text) == plain(value)
    ours = bytearray()
    write(ours, plain(value))
    assert ours == written


@properties(300)
@given(data=st.data())
def test_any_bytes_are_read_or_refused_and_nothing_else(data):
    """What is read is read by others to the same end; damage is named where it is."""
    schema, values = data.draw(typed())
    node = parse(json.dumps(schema))
    theirs = io.BytesIO()
    fastavro.schemaless_writer(theirs, fastavro.parse_schema(schema), data.draw(values))
    good = theirs.getvalue()
    at = data.draw(st.integers(0, len(good)))
    junk = data.draw(st.binary(max_size=12) | st.just(b"\xff" * 9 + b"\x01"))
    bad = good[:at] + junk + good[at + data.draw(st.integers(0, 3)) :]
    try:
        found, end = object_reader(node)(bad, 0, len(bad))
    except READ_ERRORS as error:
        fault = explain(node, bad, 0, error)
    else:
        fault = None
    if fault is not None:
        assert fault.kind in ("binary", "value")
        return
    assert end <= len(bad)
    if end < len(bad):
        assert "behind the Avro data" in explain(node, bad, 0).sentence
        return
    assert json.loads(msgspec.json.encode(found)) is not Ellipsis
    stream = io.BytesIO(bad)
    fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.tell() == end


# IBM CDC with audit columns: both rows, operation, time and transaction


@properties(40)
@given(data=st.data())
def test_an_audited_history_comes_back(data):
    history = data.draw(histories())
    for trip in travel(IBM, history.changes, form="audit"):
        assert trip.refusal is None, f"{named(trip.change)}: {trip.refusal}"
        real = lost(IBM, trip)
        if "unchanged_columns" in real:
            # The old value of a column without a new one has no place.
            real.discard("before_image")
        assert not real & {"operations", "before_image", "source_time", "key_change"} or not any(
            isinstance(value, str)
            for image in (trip.change.before, trip.change.moved_from)
            for value in (() if image is None else msgspec.structs.astuple(image))
        )


@properties(30)
@given(data=st.data())
def test_audited_values_over_the_edge_are_carried_or_refused(data):
    history = data.draw(histories(knobs=Knobs(hard=True), steps=(1, 4)))
    for trip in travel(IBM, history.changes, form="audit"):
        if trip.refusal is not None:
            assert trip.refusal.kind == "encoding"
        else:
            lost(IBM, trip)


@pytest.mark.parametrize("schema", [PLAIN, IN_PUBLIC], ids=["plain", "in a schema"])
def test_audited_changes_lose_next_to_nothing(schema):
    made = [
        change("insert", after=ROW, transaction="tx", sequence=None, schema=schema),
        change("update", ROW, OTHER, sequence=None, schema=schema),
        change("update", ROW, MOVED, sequence=None, schema=schema),
        change("delete", ROW, sequence=None, schema=schema),
    ]
    for trip in travel(IBM, made, form="audit"):
        assert differences(trip) == set()
        assert trip.losses == []


# IBM CDC without key: all columns are the key, so an update has to take the old row away

KEYLESS = table(COLUMNS, ())


@pytest.mark.parametrize("form", ["rows", "audit"])
def test_an_update_of_a_table_without_key_leaves_the_new_row_alone(form):
    made = [
        change("insert", after=ROW, schema=KEYLESS),
        change("insert", after=MOVED, schema=KEYLESS),
        change("update", ROW, OTHER, schema=KEYLESS),
        change("update", OTHER, OTHER, schema=KEYLESS),
        change("delete", MOVED, schema=KEYLESS),
    ]
    rows = {}
    for trip in travel(IBM, made, form=form):
        assert trip.refusal is None
        assert "key_columns" in trip.losses
        for found in trip.bare:
            assert found.schema.key == tuple(COLUMNS)
            for image in (found.before, found.old_key_image()):
                if image is not None:
                    rows.pop(msgspec.structs.astuple(image), None)
            if found.after is not None:
                row = by_name(found.schema, found.after)
                rows[msgspec.structs.astuple(found.after)] = row
    assert list(rows.values()) == [OTHER]


@pytest.mark.parametrize("form", ["rows", "audit"])
@pytest.mark.parametrize("before", [None, {"id": "9007199254740993", "region": "eu"}])
def test_an_update_of_a_table_without_key_needs_the_old_row(form, before):
    """Its row would stay for ever beside the new one."""
    (trip,) = travel(IBM, [change("update", before, OTHER, schema=KEYLESS)], form=form)
    assert trip.refusal.kind == "encoding"
    assert "whole row before" in trip.refusal.sentence
