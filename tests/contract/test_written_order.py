"""Written ids order the changes of every key as the source does, in any arrival order."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.order_conversion import converted, converted_at_once, in_bulk
from tests.contract.order_readers import READERS, table_of
from tests.contract.order_sources import (
    SOURCES,
    History,
    Source,
    dms_of_one_number,
    histories,
    messages_of,
)
from waybill.envelopes import registry

if TYPE_CHECKING:
    from waybill.records import Message

NO_ID = "the target has no id that orders changes: see test_arrival_order"
PARTS = "the target holds the source's position in parts, and no id: see test_arrival_order"
LEFT_EMPTY = "the target leaves the place of the id empty, so the topic's order is the only one"
_EMPTY = {
    "ogg": ("canal", "oms-canal", "ibmcdc-avro"),
    "dms-s3": (
        *("canal", "oms-canal", "ibmcdc-avro", "maxwell", "maxwell-xoffset", "dms", "dms-mysql"),
        *("debezium-oracle", "debezium-sqlserver"),
    ),
}
"""Sources without ids, and such whose ids have more than the 35 digits of dms-s3."""
LEFT_OUT = {
    **{(s, t): NO_ID for s in SOURCES for t in ("canal", "oms-canal", "ibmcdc-avro")},
    **{
        (s, t): PARTS for s in SOURCES for t in ("debezium-json", "debezium-avro", "maxwell", "dms")
    },
    **{(source, target): LEFT_EMPTY for target, found in _EMPTY.items() for source in found},
}
"""Why pairs of a source and a target are not tested here."""
HISTORIES = 10_000
"""So many are tried in a night, over all pairs."""
PAIRS = [(s, t) for s in SOURCES for t in READERS if (s, t) not in LEFT_OUT]

_WIDE = (
    *("oms-shareplex", "debezium-postgresql", "debezium-oracle", "debezium-sqlserver"),
    *("maxwell", "maxwell-xoffset", "dms", "dms-mysql", "dms-s3"),
)
_DATABUS = ("databus-json", "databus-binary")
NO_ROOM = {
    *((s, t) for s in (*_WIDE, *_DATABUS) for t in ("oms-default", "oms-extended", "tidb-canal")),
    *((s, t) for s in _WIDE for t in _DATABUS),
}
"""Pairs whose ids are made from the position, because a target holds 64 bits."""
WINDOWS = {(s, t) for s in _DATABUS for t in _DATABUS}
"""Pairs that keep the windows of the source, inside which the place in the stream is the order."""


def from_positions(name: str, target: str) -> bool:
    """Whether ids are made from the position, and so order inside a partition only."""
    return not SOURCES[name].partitions or (name, target) in NO_ROOM


def test_every_pair_is_tested_or_left_out_for_a_reason():
    for source in SOURCES:
        for target in registry.names():
            tested = (source, target) in PAIRS
            assert tested != ((source, target) in LEFT_OUT), f"{source} to {target}"
    readable = {n for n in registry.names() if registry.get(n).decoder is not None}
    assert {source.envelope for source in SOURCES.values()} == readable


@pytest.mark.parametrize(("name", "target"), PAIRS)
@properties(4, nightly=-(-HISTORIES // len(PAIRS)))
@given(data=st.data())
def test_shuffled_messages_give_the_rows_of_the_source(name, target, data):
    source = SOURCES[name]
    partitions = 1 if from_positions(name, target) else source.partitions
    moves = source.moves and target != "dms-s3"
    shares = (name, target) not in WINDOWS
    history = data.draw(histories(partitions, moves, shares=shares))
    events = messages_of(source, history)
    cuts = [0, *sorted(data.draw(st.tuples(*[st.integers(0, len(events))] * 2))), len(events)]
    batches = [messages(events[a:b]) for a, b in pairwise(cuts)]
    written, _ = converted(source, target, READERS[target][1], reversed(batches))
    assert table_of(target, data.draw(st.permutations(written))) == history.rows


def messages(events: list[list[Message]]) -> list[Message]:
    return [message for event in events for message in event]


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_key_that_wanders_through_all_partitions(name, target):
    """Its changes, its leaving and its coming back stand in five partitions in turn."""
    source, history = SOURCES[name], History(96)
    partitions = 1 if from_positions(name, target) else source.partitions
    moves = source.moves and target != "dms-s3"

    def tell(before, after, operation):
        history.tell(len(history.events) % partitions, False, (before, after), operation)

    tell(None, {"id": 1, "v": "full"}, "read")
    for step in range(4):
        tell(history.rows[1], {"id": 1, "v": f"changed {step}"}, "update")
        if moves:
            tell(history.rows[1], {"id": 2, "v": f"left {step}"}, "update")
            tell(history.rows[2], {"id": 1, "v": f"came back {step}"}, "update")
        tell(history.rows[1], None, "delete")
        tell(None, {"id": 1, "v": f"new {step}"}, "insert")
    assert partitions in (1, 5)
    written, _ = converted(source, target, READERS[target][1], [messages_of_all(source, history)])
    for seed in range(3):
        shuffled = random.Random(seed).sample(written, len(written))
        assert table_of(target, shuffled) == history.rows == {1: {"id": 1, "v": "new 3"}}


def messages_of_all(source, history):
    return messages(messages_of(source, history))


AT_ONCE = [(s, t) for s, t in PAIRS if in_bulk(SOURCES[s], t)]
ALONE = ("databus-json", "databus-binary", "debezium-sqlserver", "debezium-oracle", "dms-s3")
"""Sources some of whose messages are converted one by one: positions of more than three parts, and
digits beyond 64 bits."""


@pytest.mark.parametrize(("name", "target"), AT_ONCE)
def test_many_at_once_have_the_same_ids(name, target):
    """Rows that are converted at once have the ids that they have one by one."""
    history = History(96)
    for key in range(40):
        history.tell(key % 2, False, (None, {"id": key, "v": "a"}), "insert")
    for key in range(40):
        history.tell(key % 2, False, (history.rows[key], {"id": key, "v": "b"}), "update")
    made = same_at_once(SOURCES[name], target, history, 0 if name in ALONE else 40)
    messages = len(messages_of_all(SOURCES[name], history))
    assert sum(made.values()) in (0, len(history.events), messages)
    assert (made.keys() == {"within_partition"}) == from_positions(name, target)


@pytest.mark.parametrize("target", ["datahub-tuple", "datahub-blob", "oms-dataworks", "ogg"])
def test_positions_of_one_number_stay_as_they_are(target):
    """As Waybill itself writes them from sources whose ids are one number."""
    history = History(96)
    for key in range(40):
        history.tell(key % 2, False, (None, {"id": key, "v": "a"}), "insert")
    assert same_at_once(Source("dms", dms_of_one_number), target, history, 20) == {}


def same_at_once(source: Source, target: str, history: History, least: int) -> dict[str, int]:
    """Convert many at once and one by one; gives the ids that were made."""
    written_as, found = READERS[target][1], messages_of_all(source, history)
    one_by_one, made = converted(source, target, written_as, [found])
    together, many, made_at_once = converted_at_once(source, target, written_as, found)
    assert together == [message.value for message in one_by_one if message.value is not None]
    assert many >= least
    assert made_at_once == made
    return made
