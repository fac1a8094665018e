"""Written messages, taken in the order in which they arrive, give the rows of the source.

So a consumer reads them that has no ids, or passes them over: in each partition of the target's
topic in order, and partitions in any order among each other. Messages with one key are in one
partition, those of a batch in the order of the source, batches one after the other
(docs/publishing.md). Nothing more is known to the readers than the format and its key.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.order_conversion import converted
from tests.contract.order_readers import ARRIVAL, table_in_order
from tests.contract.order_sources import SOURCES, histories, messages_of
from waybill.envelopes import registry

if TYPE_CHECKING:
    from waybill.protocol import Encoded

APART = (
    *("datahub-tuple", "datahub-blob", "debezium-json", "debezium-avro", "ibmcdc-avro"),
    *("databus-json", "databus-binary", "dms-s3", "tidb-canal"),
)
"""Targets that tell under its own message key, or that of the table, what becomes of each key."""
TOGETHER = (
    *("oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex"),
    *("canal", "maxwell", "ogg", "dms"),
)
"""Targets that tell a change of the key in one message, under the new key. Without ids it stands in
order with the changes of the old key only where the topic has one partition: histories for several
have none."""
HISTORIES = 10_000
"""So many are tried in a night, over all pairs."""
PAIRS = [(source, target) for source in SOURCES for target in registry.names()]


def test_every_target_is_one_of_both():
    assert sorted((*APART, *TOGETHER)) == sorted(registry.names()) == sorted(ARRIVAL)


@pytest.mark.parametrize(("name", "target"), PAIRS)
@properties(2, nightly=-(-HISTORIES // len(PAIRS)))
@given(data=st.data())
def test_messages_as_they_arrive_give_the_rows_of_the_source(name, target, data):
    source, written_as = SOURCES[name], ARRIVAL[target][1]
    partitions = data.draw(st.sampled_from([1, 3]))
    moves = source.moves and (partitions == 1 or target in APART)
    history = data.draw(histories(3, moves, by_key=True))
    events = messages_of(source, history)
    cuts = [0, *sorted(data.draw(st.tuples(*[st.integers(0, len(events))] * 2))), len(events)]
    batches = [
        sorted(
            (message for event in events[a:b] for message in event),
            key=lambda message: (message.partition, message.offset),
        )
        for a, b in pairwise(cuts)
    ]
    written, _ = converted(source, target, written_as, batches)
    topic: list[list[Encoded]] = [[] for _ in range(partitions)]
    for message in written:
        # Those without key follow their table, which is the same for all.
        topic[zlib.crc32(message.key or b"shop.t") % partitions].append(message)
    turns = data.draw(st.permutations([n for n, held in enumerate(topic) for _ in held]))
    arriving = [iter(held) for held in topic]
    assert table_in_order(target, [next(arriving[n]) for n in turns]) == history.rows
