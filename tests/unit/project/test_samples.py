"""The sample topics are what their description says; read here without the library."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
SHOP = SAMPLES / "shop"


def values(folder: Path) -> list[str]:
    lines: list[str] = []
    for file in sorted(folder.glob("*.jsonl")):
        content = file.read_text(encoding="utf-8")
        assert content.endswith("\n")
        lines += content[:-1].split("\n")
    return lines


def read(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line, parse_float=Decimal)
    except json.JSONDecodeError:
        return None


@pytest.fixture(scope="module")
def lines():
    return values(SHOP)


@pytest.fixture(scope="module")
def messages(lines):
    return [message for message in map(read, lines) if message is not None]


@pytest.fixture(scope="module")
def final():
    return json.loads((SHOP / "final.json").read_text(encoding="utf-8"))


def test_the_script_writes_these_very_bytes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_shop", SAMPLES / "make_shop.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_shop"] = module
    spec.loader.exec_module(module)
    module.make(tmp_path)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    kept = {file.name: file.read_bytes() for file in SHOP.iterdir()}
    assert made == kept


def changes_of(messages):
    """Every sequenced change once, in the order of the source, without the spoiled ones."""
    found = {}
    for message in messages:
        if message["recordType"] in ("INSERT", "UPDATE", "DELETE") and sequence(message) > 10:
            assert found.setdefault(sequence(message), message) == message
    return [found[sequence] for sequence in sorted(found)]


def key(message, image):
    """The key in one image of a message, as texts."""
    names = message["allMetaData"]["record_primary_key"].split("\x01")
    row = message[image]
    return None if row is None else tuple(str(row[name]) for name in names)


def replay(messages):
    """Both tables, by a reducer that knows nothing but sequence numbers and dictionaries."""
    tables: dict[str, dict[Any, Any]] = {}
    full = [message for message in messages if message["recordType"] == "ROW"]
    for message in full + changes_of(messages):
        rows = tables.setdefault(f"shop.{message['allMetaData']['table_name']}", {})
        rows.pop(key(message, "prevStruct"), None)
        if message["postStruct"] is not None:
            rows[key(message, "postStruct")] = message["postStruct"]
    return tables


def as_text(kind, value):
    if value is None or kind in ("string", "date", "bytes"):
        return value
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def test_replayed_in_the_source_s_order_the_topic_gives_the_final_state(messages, final):
    tables = replay(messages)
    assert sorted(tables) == sorted(final)
    for name, truth in final.items():
        exact = {
            column: kind
            for column, kind in truth["columns"].items()
            if kind not in ("float64", "timestamp", "timestamptz")
        }
        expected = {
            tuple(row[column] for column in truth["key"]): {c: row[c] for c in exact}
            for row in truth["rows"]
        }
        got = {
            found: {column: as_text(kind, row[column]) for column, kind in exact.items()}
            for found, row in tables[name].items()
        }
        assert got == expected


def sequence(message) -> int:
    return message["allMetaData"]["storeDataSequence"]


def test_there_is_something_of_everything(lines, messages, final):
    kinds = Counter(message["recordType"] for message in messages)
    assert kinds["ROW"] > 50
    assert kinds["INSERT"] > 30
    assert kinds["UPDATE"] > 60
    assert kinds["DELETE"] > 20
    assert kinds["HEARTBEAT"] > 3
    assert sorted(final) == ["shop.customers", "shop.orders"]
    assert sorted(len(table["key"]) for table in final.values()) == [1, 2]

    changes = changes_of(messages)
    moved = [
        m
        for m in changes
        if m["recordType"] == "UPDATE" and key(m, "prevStruct") != key(m, "postStruct")
    ]
    assert len(moved) >= 5, "changes of the key"
    deleted, back = set(), 0
    for message in changes:
        name = message["allMetaData"]["table_name"]
        deleted |= (
            {(name, key(message, "prevStruct"))} if message["recordType"] == "DELETE" else set()
        )
        back += message["recordType"] == "INSERT" and (name, key(message, "postStruct")) in deleted
    assert back >= 5, "rows that come back"

    order = [sequence(m) for m in messages if m["allMetaData"].get("storeDataSequence", 0) > 10]
    assert len(order) - len(set(order)) >= 20, "messages that come twice"
    assert sum(a > b for a, b in pairwise(order)) >= 15, "out of order"

    text = "\n".join(lines)
    for nasty in (
        "\u2028",
        "\\u2028",
        "\\u0000",
        "👩",
        "\\ud83e",
        "\\u0001",
        "-0.0",
        ":1.10,",
        "1.0E300",
        "18446744073709551615",
        "9007199254740993",
        "9" * 40 + "." + "9" * 20,
    ):
        assert nasty in text, nasty


def test_a_late_message_meets_its_row_s_deletion(messages):
    """A tombstone must win over what comes after it."""
    gone: dict[Any, int] = {}
    late = 0
    for message in messages:
        meta = message["allMetaData"]
        if message["recordType"] == "DELETE":
            gone[meta["table_name"], meta["record_primary_value"]] = sequence(message)
        elif message["recordType"] in ("INSERT", "UPDATE"):
            seen = gone.get((meta["table_name"], meta["record_primary_value"]), 0)
            late += 10 < sequence(message) < seen
    assert late >= 2


def test_three_messages_cannot_be_taken(lines):
    spoiled = [read(line) for line in lines]
    assert spoiled.count(None) == 1
    known = {"ROW", "INSERT", "UPDATE", "DELETE", "HEARTBEAT"}
    there = [message for message in spoiled if message is not None]
    assert sum(message["recordType"] not in known for message in there) == 1
    assert sum(isinstance((m["postStruct"] or {}).get("id"), str) for m in there) == 1


def test_the_recorded_topic_is_a_cut_of_known_size():
    with gzip.open(SAMPLES / "canal_mariadb/messages.jsonl.gz", "rt", encoding="utf-8") as file:
        messages = [json.loads(line) for line in file]
    assert len(messages) == 3159
    kinds = Counter(m["type"] for m in messages if not m["isDdl"])
    assert kinds["QUERY"] == 1574
    truth = SAMPLES / "canal_mariadb/truth"
    rows = {}
    for table in ("orders", "customers", "notes"):
        with gzip.open(truth / f"{table}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows[table] = sum(1 for _ in file)
    assert rows == {"orders": 349, "customers": 329, "notes": 326}


def test_the_samples_are_small():
    assert sum(file.stat().st_size for file in SAMPLES.rglob("*") if file.is_file()) < 1_000_000


def test_the_stock_counts_in_seconds_until_a_statement_makes_them_times():
    messages = [json.loads(line) for line in values(SAMPLES / "stock")]
    assert [message["id"] for message in messages] == list(range(1, 10))
    times = [message["es"] for message in messages]
    assert times == sorted(times)
    (statement,) = [number for number, message in enumerate(messages) if message["isDdl"]]
    assert messages[statement]["sql"].startswith("ALTER TABLE shop.stock MODIFY counted DATETIME")
    types: dict[str, list[str]] = {"items": [], "stock": []}
    for number, message in enumerate(messages):
        if not message["isDdl"]:
            (row,) = message["data"]
            assert row.keys() == message["mysqlType"].keys() == message["sqlType"].keys()
            types[message["table"]].append(message["mysqlType"].get("counted", ""))
            if message["table"] == "stock":
                assert row["counted"].isdigit() is (number < statement)
    assert types == {"items": [""] * 4, "stock": ["int(11)"] * 2 + ["datetime"] * 2}
