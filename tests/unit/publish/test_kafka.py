"""What the Kafka sink decides by itself: partitions, parts, checksums, keys of the ledger."""

from __future__ import annotations

import hashlib
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.outboxes import message, stream
from waybill.errors import ConfigurationError
from waybill.lake import Span
from waybill.lake.ordered_rows import RowGroup
from waybill.publish.kafka.checksums import Content
from waybill.publish.kafka.ledger import Owner
from waybill.publish.kafka.message_source import Made
from waybill.publish.kafka.part_boundaries import Limits, cut
from waybill.publish.kafka.partitions import Partitioner, murmur2
from waybill.publish.kafka.publisher import check_messages
from waybill.publish.kafka.topic import FRAME, TargetTopic
from waybill.publish.kafka.transactions import Transactions
from waybill.publish.outgoing import groups_by_target, outgoing

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Keys and what `Utils.murmur2` of Kafka's Java client makes of them."""


def plain_murmur2(key: bytes) -> int:
    """The hash as its description says it, one key at a time."""
    word, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & word
        h = h * m & word ^ (k ^ k >> 24) * m & word
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & word
    h = (h ^ h >> 13) * m & word
    return h ^ h >> 15


def test_murmur2_is_that_of_the_java_client():
    signed = [h - (h >> 31 << 32) for h in murmur2(list(JAVA)).tolist()]
    assert dict(zip(JAVA, signed, strict=True)) == JAVA


@given(st.lists(st.binary(max_size=40)))
def test_many_keys_at_once_hash_as_each_alone(keys):
    assert murmur2(keys).tolist() == [plain_murmur2(key) for key in keys]


def one(*rows) -> pa.RecordBatch:
    return next(stream(list(rows)))


def test_a_key_decides_the_partition_as_in_java():
    rows = [message(i, key) for i, key in enumerate([*JAVA, b""])]
    expected = [(plain_murmur2(key) & 0x7FFFFFFF) % 7 for key in [*JAVA, b""]]
    assert Partitioner(7).choose(one(*rows)) == expected


def test_messages_without_key_follow_their_table():
    """Whatever stands beside them; without table they follow their topic."""
    tables = [f"shop.t{i % 5}" for i in range(200)]
    rows = [message(i, None, table=table) for i, table in enumerate(tables)]
    rows += [message(i, None, table=None) for i in range(9)]
    rows += [message(i, None, table="") for i in range(9)]
    chosen = Partitioner(16).choose(one(*rows, message(1)))
    by_table = {table: set() for table in tables}
    for table, number in zip(tables, chosen, strict=False):
        by_table[table].add(number)
    assert all(len(numbers) == 1 for numbers in by_table.values())
    assert len(set.union(*by_table.values())) > 1
    assert set(chosen[200:218]) == {(plain_murmur2(b"shop") & 0x7FFFFFFF) % 16}
    assert chosen[-1] == Partitioner(16).choose(one(message(1)))[0]


def test_messages_without_key_may_be_spread_and_then_too_are_where_they_were():
    rows = [message(2 * i, None) for i in range(4000)]
    chosen = Partitioner(4, keyless="spread").choose(one(*rows[:1000]))
    assert all(200 < chosen.count(number) < 300 for number in range(4))
    assert chosen[500:] == Partitioner(4, keyless="spread").choose(one(*rows[500:1000]))
    # The messages of one change stay together.
    pair = one(message(7, None), message(7, None, None, number=1))
    assert len(set(Partitioner(64, keyless="spread").choose(pair))) == 1


def test_one_partition_may_take_everything():
    assert Partitioner(3, fixed=2).choose(one(message(1), message(2, None))) == [2, 2]


# Parts


def messages_of(draw) -> list[dict]:
    rows = []
    for group, count in enumerate(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))):
        for offset in range(count):
            for number in range(draw(st.integers(1, 3))):
                value = b"v" * draw(st.integers(0, 30))
                rows.append(message(offset, value=value, number=number, group=group))
    return rows


def parts_of(rows, size, limits, known=lambda group, part: None):
    found = []
    for piece in cut(stream(rows, size), known, limits):
        place = [row for batch in piece.pieces for row in batch.to_pylist()]
        found.append((piece.group, piece.part, place))
    return found


@given(st.data())
def test_parts_do_not_depend_on_how_the_messages_arrive(data):
    rows = messages_of(data.draw)
    limits = Limits(data.draw(st.integers(1, 10)), data.draw(st.integers(1, 100)))
    parts = parts_of(rows, 1000, limits)
    assert parts_of(rows, data.draw(st.integers(1, 9)), limits) == parts
    ordered = [row for _, _, own in parts for row in own]
    assert [(r["group"], r["offset"], r["message"], r["value"]) for r in ordered] == [
        (r["group"], r["offset"], r["message"], r["value"]) for r in rows
    ]
    for group, own in groupby(parts, key=lambda part: part[0]):
        numbered = list(own)
        assert [number for _, number, _ in numbered] == list(range(len(numbered)))
        for i, (_, _, part) in enumerate(numbered):
            assert {row["group"] for row in part} == {group}
            # All messages of a change are in one part.
            assert part[0]["message"] == 0
            full = len(part) >= limits.messages
            full |= sum(len(r["key"]) + len(r["value"]) for r in part) >= limits.bytes
            assert full or i == len(numbered) - 1


@given(st.data())
def test_what_was_sent_is_cut_as_it_was_sent(data):
    """Also after the limits were changed."""
    rows = messages_of(data.draw)
    before = parts_of(rows, 1000, Limits(data.draw(st.integers(1, 10)), 100))
    sent = data.draw(st.integers(0, len(before)))
    counts = {(group, part): len(own) for group, part, own in before[:sent]}
    after = parts_of(
        rows,
        data.draw(st.integers(1, 9)),
        Limits(data.draw(st.integers(1, 10)), 1000),
        lambda group, part: counts.get((group, part)),
    )
    assert after[:sent] == before[:sent]
    assert sum(len(own) for _, _, own in after) == len(rows)


# Checksums

HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)))
ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=3), HEADERS),
    max_size=5,
)


def summed(rows, size: int = 1000) -> Content:
    content = Content()
    built = [message(i, key, value, headers=h) for i, (key, value, h) in enumerate(rows)]
    for batch in stream(built, size):
        content.add(batch)
    return content


@given(ROWS, ROWS, st.integers(1, 5))
def test_equal_checksums_are_equal_messages(one, other, size):
    assert (summed(one).sha256 == summed(other).sha256) == (one == other)
    assert summed(one, size).sha256 == summed(one).sha256


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(b"ab", b"c", None)], [(b"a", b"bc", None)]),
        ([(b"a", b"", None)], [(b"a", None, None)]),
        ([(None, b"a", None)], [(b"", b"a", None)]),
        ([(b"a", b"b", None), (b"c", b"d", None)], [(b"ac", b"bd", None)]),
        ([(b"a", b"b", [])], [(b"a", b"b", None)]),
        ([(b"a", b"b", [("x", None)])], [(b"a", b"b", [("x", b"")])]),
        ([(b"a", b"b", [("x", b"y")])], [(b"a", b"b", [("xy", b"")])]),
    ],
)
def test_messages_that_look_the_same_have_different_checksums(one, other):
    assert summed(one).sha256 != summed(other).sha256


def test_slices_and_what_lies_under_nulls_make_no_difference():
    """As the cutting slices batches, and as Arrow's own functions leave values under a mask."""
    rows = [(b"a", b"one", None), (None, b"two", None), (b"", None, None), (b"c", b"", None)]
    (whole,) = stream([message(i, key, value) for i, (key, value, _) in enumerate(rows)])
    sliced = Content()
    for start, end in ((0, 1), (1, 3), (3, 3), (3, 4)):
        sliced.add(whole.slice(start, end - start))
    assert sliced.sha256 == summed(rows).sha256

    places = pa.py_buffer(np.array([0, 3, 8, 8, 8], np.int32).tobytes())
    masked = pa.Array.from_buffers(
        pa.binary(), 4, [pa.py_buffer(b"\x09"), places, pa.py_buffer(b"onehides")]
    )
    assert masked.to_pylist() == [b"one", None, None, b""]
    at = whole.schema.get_field_index("value")
    covered = Content()
    covered.add(whole.set_column(at, "value", masked))
    plain = [
        (key, value, None) for (key, _, _), value in zip(rows, masked.to_pylist(), strict=True)
    ]
    assert covered.sha256 == summed(plain).sha256


def test_sizes_and_tombstones_are_counted():
    content = summed([(b"key", b"value", [("name", b"1"), ("ü", None)]), (None, None, None)])
    assert (content.messages, content.tombstones, content.bytes) == (2, 1, 3 + 5 + 4 + 1 + 2)
    assert len(content.sha256) == len(hashlib.sha256().hexdigest())


# What a topic takes


def made(
    batch: str, largest: int, place: str | None = None, keyless: int = 0, longest: int = 0
) -> Made:
    def look_up() -> tuple[int, str]:
        assert place is not None, "looked up although nothing is wrong"
        return longest or largest, place

    return Made(batch, 9, 900, keyless, largest, look_up)


def test_a_message_that_just_fits_passes_and_one_byte_more_does_not():
    topic = TargetTopic("out", 1, {"max.message.bytes": "5000"})
    check_messages([made("b1", 10), made("b2", 5000 - FRAME)], topic)
    with pytest.raises(ConfigurationError, match=r"s/0/1/0 has 4901 bytes.* to at least 5001"):
        check_messages([made("b1", 5001 - FRAME, "s/0/1/0")], topic)
    check_messages([made("b1", 10**9)], TargetTopic("out", 1, {}))
    # None is longer than 6,000 bytes, the longest has 4,000 in fact.
    check_messages([made("b1", 6000, "s/0/1/0", longest=4000)], topic)


def test_a_compacted_topic_takes_no_message_without_key():
    topic = TargetTopic("out", 1, {"cleanup.policy": "compact,delete"})
    check_messages([made("b1", 10)], topic)
    with pytest.raises(ConfigurationError, match="2 messages have no key"):
        check_messages([made("b1", 10, keyless=2)], topic)


@pytest.mark.parametrize("largest", [1, 1_000_000, 1_000_000_001, 2**31 - 1])
def test_a_client_is_made_for_whatever_a_topic_takes(largest):
    servers = {"bootstrap.servers": "127.0.0.1:1"}
    with Transactions(servers, "waybill/test", 60, largest) as transactions:
        assert transactions.offsets == {}


# Row groups of the outbox


def test_a_row_group_with_messages_of_two_batches_is_left_to_spark():
    """As upkeep leaves them, which joins files."""

    def groups_of(*ends: tuple[str, str]) -> Any:
        groups = [
            RowGroup(("t", low, "s", 0, 0), ("t", high, "s", 0, 9), "f", i, 10, 100, {"key": 0})
            for i, (low, high) in enumerate(ends)
        ]
        lake: Any = SimpleNamespace(row_groups=lambda *_: groups)
        rows: Any = None
        return outgoing(rows, groups_by_target(lake, Span("t", None, 1)), "t", 10).groups

    assert len(groups_of(("b1", "b1"), ("b2", "b2"))) == 2
    assert groups_of(("b1", "b1"), ("b2", "b3")) is None


# The ledger's keys


@given(st.text(), st.integers(0, 10**6))
def test_a_key_of_the_ledger_is_read_as_it_was_written(target, part):
    owner = Owner("demo", target)
    assert owner.read_key(owner.key("20260101T000000Z-ab12", part)) == (
        "20260101T000000Z-ab12",
        part,
    )
    assert Owner("demo", target + "/1").read_key(owner.key("b", part)) is None
    assert Owner("other", target).read_key(owner.key("b", part)) is None
    # A record that another program has put there stops nobody.
    for foreign in (b"\xff", b"", b"demo", owner.key("b", part)[:-1] + b"\xff"):
        assert owner.read_key(foreign) is None
