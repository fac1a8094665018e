"""Streams recorded from Debezium 3.5 lead to the databases' own tables, with and without schema."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import os
import re
import struct
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from waybill.envelopes import registry
from waybill.envelopes.batch import decode_message
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

CAPTURES = Path(
    os.environ.get("WAYBILL_CAPTURES")
    or Path(__file__).resolve().parents[2].parent / "shared" / "captures"
)
FOLDERS = ("debezium-mariadb", "debezium-postgres-default")
FILES = ("messages.jsonl", "messages-schemaless.jsonl")

pytestmark = [
    pytest.mark.captures,
    pytest.mark.skipif(
        not all((CAPTURES / folder).is_dir() for folder in FOLDERS),
        reason="the recorded streams are not here",
    ),
]

ENVELOPE = registry.get("debezium-json")

DECLARED = {
    "uint64": "bigint unsigned",
    "int": "bigint",
    "decimal": "decimal(38,{scale})",
    "anydecimal": "numeric",
    "text": "text",
    "datetime6": "datetime(6)",
    "datetime0": "datetime(0)",
    "timestamp": "timestamptz",
    "double": "double",
    "float": "float",
    "bytes": "blob",
    "binary": "binary(8)",
    "bit": "bit(8)",
    "date": "date",
    "time3": "time(3)",
    "timetz": "text",
    "year": "year",
    "bool": "boolean",
    "array": "json",
    "interval": "interval",
    "inet": "inet",
}
"""What a migration declares for the columns of a capture without schema."""


@functools.cache
def lines(folder: str, name: str) -> list[bytes]:
    path = CAPTURES / folder / name
    zipped = path.with_name(f"{path.name}.gz")
    data = path.read_bytes() if path.exists() else gzip.decompress(zipped.read_bytes())
    return [line for line in data.split(b"\n") if line]


@functools.cache
def capture_of(folder: str) -> dict:
    return json.loads((CAPTURES / folder / "capture.json").read_text())


@functools.cache
def messages(folder: str, name: str) -> list[Message]:
    found = []
    for line in lines(folder, name):
        raw = json.loads(line)
        key, value = (None if raw[n] is None else raw[n].encode() for n in ("key", "value"))
        headers = [(h["key"], h["value"] and h["value"].encode()) for h in raw["headers"]]
        found.append(Message(raw["topic"], 0, raw["offset"], 0, key, value, headers))
    return found


def rules(folder: str, kinds: set[str]) -> TableRules:
    """Declarations of the columns of some kinds."""
    capture = capture_of(folder)
    mariadb = capture["db"] == "mariadb"
    declared = {}
    for name, table in capture["tables"].items():
        columns = {
            column: parse_type(DECLARED[kind].format(scale=table["scale"].get(column)))
            for column, kind in table["columns"].items()
            if kind in kinds
        }
        declared[f"shop.{name}" if mariadb else f"*.public.{name}"] = TableRule(None, columns)
    return TableRules(declared)


# Comparison: both sides to numbers and bytes, by code that shares nothing with the product


def days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic calendar, counted year by year of 400."""
    year, month = (year - 1, month + 12) if month < 3 else (year, month)
    full = 365 * year + year // 4 - year // 100 + year // 400
    return full + (153 * (month - 3) + 2) // 5 + day - 1 - 719_468


def micros(text: str) -> int | str:
    if "infinity" in text:
        return text
    match = re.fullmatch(
        r"([-+]?\d+)-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:Z|\+00)?( BC)?",
        text,
    )
    assert match, text
    year = 1 - int(match[1]) if match[8] else int(match[1])
    hour, minute, second = (int(match[n] or 0) for n in (4, 5, 6))
    seconds = days(year, int(match[2]), int(match[3])) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 10**6 + int((match[7] or "").ljust(6, "0")[:6])


def clock(text: str) -> int:
    match = re.fullmatch(
        r"(-?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|([-+])(\d\d)(?::(\d\d))?)?", text
    )
    assert match, text
    count = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4] or 0)
    count = count * 10**6 + int((match[5] or "").ljust(6, "0")[:6])
    if match[6]:
        shift = (int(match[7]) * 60 + int(match[8] or 0)) * 60 * 10**6
        count += shift if match[6] == "-" else -shift
    return -count if match[1] else count


def interval(text: str) -> Fraction:
    """Microseconds, a month of 30.4375 days, of PostgreSQL's text or of ISO 8601 in seconds."""
    if text.startswith("PT"):
        return Fraction(text[2:-1]) * 10**6
    total = Fraction(0)
    for number, unit in re.findall(r"([-+]?\d+) (year|mon|day)", text):
        total += (
            int(number) * {"year": Fraction("365.25"), "mon": Fraction("30.4375"), "day": 1}[unit]
        )
    total *= 86_400 * 10**6
    match = re.search(r"-?\d+:\d\d:\d\d(?:\.\d+)?$", text)
    return total + (clock(match[0]) if match else 0)


def floating(code: str):
    return lambda text: struct.pack(code, float(text))


def unpacked(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


COMMON = {
    **dict.fromkeys(("int", "uint64", "year"), int),
    **dict.fromkeys(("decimal", "anydecimal"), Decimal),
    **dict.fromkeys(("datetime6", "datetime0", "timestamp", "date"), micros),
    "double": floating(">d"),
    "float": floating(">f"),
    "time3": clock,
    "timetz": lambda text: clock(text) % (86_400 * 10**6),
    "array": json.loads,
    "interval": interval,
    "inet": lambda text: text.removesuffix("/128" if ":" in text else "/32"),
}
DUMP = {**COMMON, **dict.fromkeys(("bytes", "binary"), bytes.fromhex)}
TOLD = {
    **COMMON,
    **dict.fromkeys(("bytes", "binary"), unpacked),
    "bit": lambda text: int.from_bytes(unpacked(text), "big"),
}


def from_dump(kind: str, value: str | None, mariadb: bool):
    if value is None:
        return None
    if kind == "bit":
        return int(value, 10 if mariadb else 2)
    return DUMP.get(kind, str)(value)


def from_text(kind: str, text: str | None):
    return None if text is None else TOLD.get(kind, str)(text)


def as_said(kind: str, said: str | None):
    """What `known-loss.jsonl` says that the message holds instead."""
    if kind == "date":
        return int(said) * 86_400 * 10**6
    if kind == "datetime6":
        return int(said)
    return from_text(kind, said)


def known_losses(folder: str) -> dict:
    losses: dict = defaultdict(dict)
    for line in lines(folder, "known-loss.jsonl"):
        cell = json.loads(line)
        place = cell["table"], tuple(cell["key"]), cell["column"]
        losses[cell["state"]][place] = cell["message_says"]
    return losses


def compare(folder: str, state: dict, tables: dict, known: dict) -> int:
    capture, cells = capture_of(folder), 0
    mariadb = capture["db"] == "mariadb"
    for name, table in capture["tables"].items():
        kinds = table["columns"]
        rows = {}
        for line in lines(folder, f"{state}/{name}.jsonl"):
            row = json.loads(line)
            rows[tuple(from_dump(kinds[c], row[c], mariadb) for c in table["key"])] = row
        assert rows.keys() == tables[name].keys()
        for key, row in rows.items():
            got = tables[name][key]
            for column, value in row.items():
                place, kind = (name, key, column), kinds[column]
                text = got[column] if column in got else table.get("added", {}).get(column)
                assert text is not UNSET, place
                expected = (
                    as_said(kind, known[place])
                    if place in known
                    else from_dump(kind, value, mariadb)
                )
                assert from_text(kind, text) == expected, (place, text, value)
                cells += 1
    return cells


# Replay


class Replay:
    """Tables in memory: rows replaced by key, values that were not sent kept, moves followed."""

    def __init__(self, folder: str) -> None:
        self.capture = capture_of(folder)
        self.tables: dict = {name: {} for name in self.capture["tables"]}
        self.graves: dict = {}
        self.kept = 0

    def key(self, table: str, image) -> tuple:
        kinds = self.capture["tables"][table]["columns"]
        names = self.capture["tables"][table]["key"]
        values = msgspec.structs.astuple(image)
        return tuple(from_text(kinds[n], v) for n, v in zip(names, values, strict=True))

    def apply(self, change) -> None:
        name = change.schema.table
        table = self.tables[name]
        if change.operation == "truncate":
            table.clear()
            return
        assert change.schema.key == tuple(self.capture["tables"][name]["key"])
        key = self.key(name, change.key_image())
        if change.operation == "delete":
            self.graves[name, key] = table.pop(key)
            return
        values = dict(zip(change.schema.names, msgspec.structs.astuple(change.after), strict=True))
        old = change.old_key_image()
        base = table.get(key, {}) if old is None else self.graves.pop((name, self.key(name, old)))
        if change.operation in ("insert", "read") or old is not None:
            assert key not in table
        else:
            assert key in table
        for column, value in values.items():
            if value is UNSET:
                self.kept += 1
                values[column] = base[column]
        table[key] = values


def decoder_for(folder: str, file: str):
    # A schema says all but one thing: that the sign of a BIGINT UNSIGNED is none.
    kinds = set(DECLARED) if file == "messages-schemaless.jsonl" else {"uint64"}
    return ENVELOPE.decoder(ENVELOPE.decode_settings(), rules(folder, kinds))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_recorded_stream_leads_to_the_dumped_tables(folder, file):
    decoder, replay = decoder_for(folder, file), Replay(folder)
    points = defaultdict(list)
    for point in replay.capture["points"]:
        points[point["messages"]].append(point)
    known, outcomes, cells = known_losses(folder), Counter(), 0
    for n, message in enumerate(messages(folder, file), 1):
        (change,) = decode_message(decoder, message)
        outcomes[change.outcome, change.operation] += 1
        assert change.outcome != "refused", change.reason
        if change.outcome == "ok" and change.operation != "ddl":
            replay.apply(change)
        for point in points[n]:
            cells += compare(folder, point["folder"], replay.tables, known[point["state"]])
    maria = folder == "debezium-mariadb"
    moves = 267 if maria else 283
    assert outcomes == {
        ("ok", "read"): 900,
        ("ok", "insert"): (1112 if maria else 1077) - moves,
        ("ok", "update"): (1408 if maria else 1506) + moves,
        ("ok", "delete"): 703,
        ("ok", "truncate"): 1,
        ("skipped", "other"): 703,
        **({("ok", "ddl"): 29} if maria else {}),
    }
    assert replay.kept == (0 if maria else 236)
    assert cells > 60_000


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_order_keys_are_the_order(folder, file):
    """Sorted by order key, in whatever order they came, the changes give the final tables."""
    decoder, replay = decoder_for(folder, file), Replay(folder)
    changes = [
        change
        for message in reversed(messages(folder, file))
        for change in decoder.decode(message)
        if change.outcome == "ok" and change.operation != "ddl"
    ]
    for change in sorted(changes, key=lambda change: change.order_key):
        replay.apply(change)
    compare(folder, "final", replay.tables, known_losses(folder)["final"])


def described(change) -> tuple:
    """Everything that a change means, whatever objects it is made of."""
    schema = change.schema

    def plain(image):
        return None if image is None else msgspec.json.decode(msgspec.json.encode(image))

    extra = None if change.extra is None else msgspec.json.decode(change.extra)
    return (
        *(change.operation, schema.database, schema.schema, schema.table, schema.key),
        *(plain(change.before), plain(change.after), plain(change.moved_from)),
        *(change.order_key, change.source_time, change.transaction, change.ddl_text, extra),
    )


@pytest.mark.parametrize("written", ["plain", "schemas", "schemas, precise"])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_written_again_the_stream_means_the_same(folder, file, written):
    settings = {"control_messages": True, "schemas": "schemas" in written}
    if "precise" in written:
        settings |= {"decimals": "precise", "unsigned": "long"}
    decoder = decoder_for(folder, file)
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings))
    # What the message does not say any more has to be declared.
    again = ENVELOPE.decoder(
        ENVELOPE.decode_settings(decimals="string"),
        TableRules() if "schemas" in written else rules_of_types(folder, file),
    )
    count = 0
    for message in messages(folder, file):
        (change,) = decoder.decode(message)
        if change.outcome != "ok":
            continue
        out = encoder.encode(change, [])
        back = [
            found
            for one in out
            for found in again.decode(
                Message(message.topic, 0, message.offset, 0, one.key, one.value, one.headers)
            )
        ]
        assert [found.reason_kind for found in back[1:]] == ["tombstone"] * (len(back) - 1)
        assert described(back[0]) == described(change)
        if "schemas" in written and change.operation != "ddl":
            assert types_of(back[0]) == types_of(change)
        count += 1
    assert count > 4000


def types_of(change) -> list[str]:
    """Types without the digits of the second, which are in the unit of the message."""
    return [f"{column.type.kind}.{column.type.scale}" for column in change.schema.columns]


def rules_of_types(folder: str, file: str) -> TableRules:
    """The types that a decoder finds, as declarations for messages without schema."""
    decoder, found = decoder_for(folder, file), defaultdict(dict)
    units = {"MicroTimestamp": "(6)", "MicroTime": "(6)", "Timestamp": "(3)", "Time": "(3)"}
    for message in messages(folder, file):
        for change in decoder.decode(message):
            for column in change.schema.columns:
                unit = units.get((column.source_type or "").rpartition(".time.")[2], "")
                type_ = parse_type(f"{column.type}{unit}")
                found[change.schema.qualified_name][column.name] = type_
    return TableRules({name: TableRule(None, columns) for name, columns in found.items()})
