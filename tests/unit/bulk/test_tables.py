"""Tables are found by the names that values of messages are."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from waybill.bulk.block import JSON, Scanned
from waybill.bulk.tables import OTHER, UNKNOWN, NamedTables
from waybill.records import intern_schema

SLOTS = np.array([0, 2], np.int64)
STRUCTURE = intern_schema(None, None, None)
names = st.lists(
    st.tuples(*[st.sampled_from(["a", "b", "ab", "ba", "é", "a long name"])] * 2), min_size=1
)


def scanned(found: list[tuple[str, str]]) -> tuple[Scanned, np.ndarray]:
    texts = [json.dumps([one, 7, two], ensure_ascii=False).encode() for one, two in found]
    texts = [text.replace(b", ", b",") for text in texts]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    begins = ends - [len(text) for text in texts]
    return Scanned(b"".join(texts), begins, ends).scan_by(JSON), np.arange(len(texts))


pairs = st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=3))


@given(st.dictionaries(pairs, st.integers(OTHER, 500)), names)
def test_names_are_found_whole(known, found):
    tables = NamedTables(STRUCTURE)
    numbers = {(one.encode(), two.encode()): number for (one, two), number in known.items()}
    tables.add({key: number for key, number in numbers.items() if number != UNKNOWN})
    texts, rows = scanned(found)
    expected = [numbers.get((one.encode(), two.encode()), UNKNOWN) for one, two in found]
    assert tables.find(texts, rows, SLOTS).tolist() == expected


def test_what_is_forgotten_is_unknown_and_what_has_a_number_keeps_it():
    tables = NamedTables(STRUCTURE)
    texts, rows = scanned([("a", "b"), ("ab", ""), ("b", "a")])
    tables.add({(b"a", b"b"): 1, (b"ab", b""): 2})
    tables.add({(b"ab", b""): 3, (b"b", b"a"): OTHER})
    assert tables.find(texts, rows, SLOTS).tolist() == [1, 2, OTHER]
    tables.forget(1)
    assert tables.find(texts, rows, SLOTS).tolist() == [UNKNOWN, 2, OTHER]
    assert tables.is_other((b"b", b"a"))
    tables.forget(2)
    tables.forget(OTHER)
    assert tables.find(texts, rows, SLOTS).tolist() == [UNKNOWN] * 3


def test_first_message_of_each_name():
    tables = NamedTables(STRUCTURE)
    texts, rows = scanned([("a", "b"), ("b", "b"), ("a", "b")])
    assert tables.firsts(texts, rows, SLOTS) == {(b"a", b"b"): 0, (b"b", b"b"): 1}


def test_no_more_tables_than_can_be_held():
    tables = NamedTables(STRUCTURE)
    assert not tables.full
    tables.add({(str(n).encode(), b"x"): n for n in range(10_000)})
    assert tables.full
