"""Written ids order the changes of every key as the source does, in any arrival order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.order_readers import READERS, table_of
from tests.contract.order_sources import SOURCES, History, Source, histories, messages_of
from waybill.bulk.block import Block
from waybill.bulk.converter import BulkConverter
from waybill.envelopes import registry
from waybill.inprocess.converter import Converter
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.records import Message

RULES = TableRule(("id",), {"id": parse_type("int64"), "v": parse_type("string")})
_WIDE = (
    *("oms-shareplex", "debezium-postgresql", "debezium-oracle", "debezium-sqlserver"),
    *("maxwell", "dms", "dms-s3", "databus-json"),
)
NO_ROOM = {(source, target) for source in _WIDE for target in ("oms-default", "oms-extended")}
"""Pairs whose ids are made from the position, because a target holds 64 bits."""
NO_IDS = {("canal", "ogg"), ("canal", "dms-s3")}
NO_IDS |= {(s, "dms-s3") for s in ("maxwell", "dms", "debezium-oracle", "debezium-sqlserver")}
"""Pairs whose target leaves the place empty then, so that the topic's order is the only one."""
PAIRS = [(s, t) for s in SOURCES for t in READERS if (s, t) not in NO_IDS]


def converter_of(source: Source, target: str, refused: list[Any]) -> tuple[Converter, Any, Any]:
    """A converter that knows nothing yet, and the envelopes."""
    reads, writes = registry.get(source.envelope), registry.get(target)
    names = ("shop.t", "shop.public.t", "shop.S.t", "shop.dbo.t")
    converter = Converter(
        reads,
        writes,
        TableRules(dict.fromkeys(names, RULES)),
        reads.decode_settings(**dict(source.settings)),
        writes.encode_settings(**READERS[target][1]),
        lambda message, _, kind, why: refused.append((kind, why, message)),
    )
    return converter, reads, writes


def converted(source: Source, target: str, batches: list[list[Message]]) -> list[bytes]:
    """The written messages, each batch by a converter of its own."""
    return converted_one_by_one(source, target, batches)[0]


def converted_one_by_one(
    source: Source, target: str, batches: list[list[Message]]
) -> tuple[list[bytes], dict[str, int]]:
    """The written messages, and the ids that were made of the last batch."""
    found: list[bytes] = []
    made: dict[str, int] = {}
    for batch in batches:
        refused: list[Any] = []
        converter, _, _ = converter_of(source, target, refused)
        out: list[Any] = []
        converter.convert(batch, out, [])
        assert not refused
        assert not converter.finish()
        found += [message.value for message in out if message.value is not None]
        made = converter.account.made_ids.counts()
    return found, made


@pytest.mark.parametrize(("name", "target"), PAIRS)
@properties(6)
@given(data=st.data())
def test_shuffled_messages_give_the_rows_of_the_source(name, target, data):
    source = SOURCES[name]
    partitions = 1 if (name, target) in NO_ROOM else source.partitions
    moves = source.moves and target != "dms-s3"
    history = data.draw(histories(partitions, moves))
    events = messages_of(source, history)
    cut = data.draw(st.integers(0, len(events)))
    batches = [[m for event in part for m in event] for part in (events[cut:], events[:cut])]
    written = converted(source, target, batches)
    assert table_of(target, data.draw(st.permutations(written))) == history.rows


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_many_at_once_have_the_same_ids(name, target):
    """Rows that are converted at once have the ids that they have one by one."""
    source, history = SOURCES[name], History(96)
    for key in range(40):
        history.tell(key % 2, False, (None, {"id": key, "v": "a"}), "insert")
    for key in range(40):
        history.tell(key % 2, False, (history.rows[key], {"id": key, "v": "b"}), "update")
    messages = [m for told in messages_of(source, history) for m in told]
    one_by_one, made = converted_one_by_one(source, target, [messages])
    together, at_once, made_at_once = converted_at_once(source, target, messages)
    assert together == one_by_one
    assert made_at_once == made
    assert sum(made.values()) in (0, len(messages), len(history.events)), made
    assert (made.keys() == {"within_partition"}) == from_positions(name, target)
    assert at_once >= LEAST.get(name, 40)


LEAST = dict.fromkeys(("databus-json", "dms-s3", "debezium-sqlserver", "debezium-oracle"), 0)
"""How many are converted at once; positions of more than three parts are not, nor digits beyond 64
bits."""


def from_positions(name: str, target: str) -> bool:
    """Whether ids are made from the position: there are none, or the target has no room."""
    return name == "canal" or (name, target) in NO_ROOM


def converted_at_once(
    source: Source, target: str, messages: list[Message]
) -> tuple[list[bytes], int, dict[str, int]]:
    """The written messages, how many were converted at once, and the ids that were made."""
    converter, reads, writes = converter_of(source, target, [])
    at_once = BulkConverter(reads, writes, converter, fewest=1)
    found: list[bytes] = []
    for first in range(0, len(messages), 20):
        part = messages[first : first + 20]
        values = [message.value or b"" for message in part]
        ends = np.cumsum([len(value) for value in values])
        begins = ends - [len(value) for value in values]
        places = [np.array([getattr(m, n) for m in part]) for n in ("partition", "offset")]
        times = np.full(len(part), 1_700_000_000_000)
        block = Block(b"".join(values), begins, ends, *places, times, part.__getitem__)
        found += [v for v in at_once.convert(block).arrays()[1].to_pylist() if v is not None]
    return found, at_once.at_once, converter.account.made_ids.counts()
