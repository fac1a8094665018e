"""Databus JSON: what is read on the fast way is what a closer look reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from waybill.envelopes.databus.json.events import any_event
from waybill.envelopes.databus.json.usual_rows import usual_row
from waybill.errors import Refusal

USUAL = {
    "opcode": "UPSERT",
    "key": 298,
    "sequence": 7,
    "logicalPartitionId": 0,
    "physicalPartitionId": 0,
    "timestampInNanos": 1714521600000000000,
    "srcId": 101,
    "schemaId": "NgndoAVhIcVxYiO+pREyMQ==",
    "valueEnc": "JSON",
    "isReplicated": False,
    "value": "ANQEACA=",
}
ODD = [
    *(None, True, 0, -1, 1.0, 1e3, 2**15, 2**31, 2**63, -(2**63), "", "x", "UPSERT", "DELETE"),
    *("AA==", "AA", "A A==", "QUJD", "JSON_PLAIN", "NgndoAVhIcVx\nYiO+pREyMQ==", [], {}),
]
NAMES = [*USUAL, "keyBytes", "endOfPeriod", "traceEnabled", "version", "x"]


def line_of(pairs) -> bytes:
    members = (f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs)
    return f"{{{','.join(members)}}}".encode()


@settings(max_examples=cases(400), deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=3),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(ODD)), max_size=1),
    st.permutations(list(USUAL)),
    st.sets(st.sampled_from(NAMES), max_size=1),
)
@example({}, [("key", 299)], list(USUAL), set())
@example({}, [("x", "y")], list(USUAL), set())
def test_the_fast_way_is_the_slow_way(changed, more, order, left_out):
    fields = {**{name: USUAL[name] for name in order}, **changed}
    line = line_of([*((n, v) for n, v in fields.items() if n not in left_out), *more])
    fast = usual_row(line, 5)
    if fast is not None:
        assert fast == any_event(line, 5)


def test_what_a_relay_writes_goes_the_fast_way():
    for opcode in ("UPSERT", "DELETE"):
        line = line_of({**USUAL, "opcode": opcode}.items())
        assert usual_row(line, 0) == any_event(line, 0)
        spaced = line.replace(b":", b" : ").replace(b",", b" ,\t")
        assert usual_row(spaced, 0) == any_event(line, 0)


def test_a_name_that_stands_twice_is_refused():
    line = line_of([*USUAL.items(), ("key", 298)])
    assert usual_row(line, 0) is None
    with pytest.raises(Refusal) as caught:
        any_event(line, 0)
    assert caught.value.kind == "json"
