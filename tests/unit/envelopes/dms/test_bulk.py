"""What DMS's messages need that streams written here do not show, read at once."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.test_bulk import agree
from waybill.bulk.arena import Arena, Texts
from waybill.bulk.value_kinds import BAD
from waybill.envelopes.dms.positions import Numbers, file_of, log_number_at
from waybill.envelopes.dms.values import order_of
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

numbers = st.sampled_from(["0", "7", "01", "42", "1975", "9" * 18, "9" * 20, "-1", "", "x"])
logs = st.sampled_from(["0/1", "00000002/7C007178", "FFFFFFFF/0", "7FFFFFFF/FFFFFFFF", "a/1", "/"])
files = st.sampled_from(["mysql-bin.000008", "b_1.7", "1.2", "a.b.3", "bin.", "bin." + "1" * 19])
positions = st.one_of(
    st.lists(numbers, min_size=1, max_size=4).map(".".join),
    st.tuples(files, st.lists(numbers, min_size=1, max_size=4)).map(
        lambda parts: ":".join([parts[0], *parts[1]])
    ),
    st.lists(st.one_of(logs, numbers), min_size=1, max_size=4).map(".".join),
)


def texts_of(texts: list[str]) -> tuple[Arena, Texts]:
    held = [text.encode() for text in texts]
    ends = np.cumsum([len(text) for text in held])
    lengths = np.array([len(text) for text in held], np.int64)
    return Arena(b"".join(held)), Texts(ends - lengths, lengths)


def value_at(arena: Arena, texts: Texts, row: int) -> int | None:
    if texts.lengths[row] == BAD:
        return None
    return int(arena.text(texts, row) or b"")


@given(st.lists(positions, min_size=1, max_size=6), st.integers(1, 5))
def test_numbers_of_positions_are_those_of_their_order(texts, count):
    """What is found is right; what is not found is read on its own."""
    arena, column = texts_of(texts)
    for ways in (
        [Numbers(False, count).at(part) for part in range(count)],
        [Numbers(True, count).at(part) for part in range(count)],
        [log_number_at(count, part) for part in range(count)],
    ):
        found = [way(arena, column) for way in ways]
        for row, text in enumerate(texts):
            values = tuple(value_at(arena, part, row) for part in found)
            if None not in values:
                assert order_of(text, None, None) == values, text


@given(st.lists(positions, min_size=1, max_size=6))
def test_the_file_of_a_full_position_is_what_the_transaction_has_to_name(texts):
    arena, column = texts_of(texts)
    found = file_of(arena, column)
    for row, text in enumerate(texts):
        file = value_at(arena, found, row)
        if file is not None:
            assert order_of(text, None, None) is None
            assert order_of(text, (file << 32) + 5, 3) == (file, 5, 3)
            assert order_of(text, ((file + 1) << 32) + 5, 3) is None


POSITIONS: dict[str, Any] = {
    "binlog": lambda i: f"mysql-bin.000008:{i}:0:{i}:0",
    "binlog in full": lambda i: f"mysql-bin.000008:{i}:-1:2002:67:mysql-bin.000008:{i}",
    "log": lambda i: f"{i % 3:08X}/{i * 97:08X}.{i}.0/{i:X}",
    "numbers": lambda i: f"7.{i}",
    "unknown": lambda i: f"AZ-{i}",
}


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("declared", [True, False])
def test_records_as_dms_writes_them(kind, declared):
    """Deletes of keys alone, columns that come in another order, and values of other types."""
    dice = random.Random(5)
    lines = []
    for i in range(400):
        row: dict[str, Any] = {"id": i % 9, "name": dice.choice(["a", "b", None]), "n": i}
        operation = ("insert", "update", "delete", "load")[i % 4]
        if operation == "delete" and dice.random() < 0.5:
            row |= {"name": None, "n": None}
        if dice.random() < 0.01:
            row = {"n": "7", "more": 1, **row}
        before = {"before-image": {**row, "n": i - 1}} if operation == "update" else {}
        metadata = {
            "timestamp": f"2024-05-01T00:00:00.{i:06}Z",
            "record-type": "data",
            "operation": operation,
            "schema-name": "shop",
            "table-name": "people",
            "transaction-id": (8 << 32) + i,
            "transaction-record-id": i % 5,
            "stream-position": POSITIONS[kind](i),
        }
        record = {"data": row, **before, "metadata": metadata}
        lines.append(json.dumps(record, separators=(",", ":")).encode())
    columns = {"name": parse_type("string"), "id": parse_type("int64"), "n": parse_type("int32")}
    rules = TableRules({"shop.people": TableRule(("id",), columns if declared else {})})
    written = agree("dms", "dms", lines, rules)
    assert written > 100
