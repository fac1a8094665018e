"""Recorded change streams of real databases, and what their own dumps say the tables are.

The folder is not part of the project: `WAYBILL_CAPTURES` names it, else it is looked for beside the
checkout. Comparison turns both sides to numbers and bytes by code that shares nothing with the
product.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import os
import re
import struct
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from waybill.spec.migration import Table, table_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.tables import TableRules

CAPTURES = Path(
    os.environ.get("WAYBILL_CAPTURES")
    or Path(__file__).resolve().parents[2] / "shared" / "captures"
)


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


def is_mariadb(folder: str) -> bool:
    return folder.endswith("mariadb")


def declared(folder: str, kinds: set[str], **places: str) -> dict[str, dict]:
    """`tables` of a migration: the columns of some kinds, and single ones by `table__column`."""
    tables = {}
    for name, table in capture_of(folder)["tables"].items():
        columns = {
            column: DECLARED[kind].format(scale=table["scale"].get(column))
            for column, kind in table["columns"].items()
            if kind in kinds
        }
        for place, text in places.items():
            of, _, column = place.partition("__")
            if of == name:
                columns[column] = text
        found = f"shop.{name}" if is_mariadb(folder) else f"*.public.{name}"
        tables[found] = {"columns": columns}
    return tables


def rules(folder: str, kinds: set[str]) -> TableRules:
    """The same for a decoder."""
    tables = declared(folder, kinds)
    return table_rules({name: Table.model_validate(table) for name, table in tables.items()})


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
READ_AS = {
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
    return None if text is None else READ_AS.get(kind, str)(text)


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


def compare(folder: str, state: str, tables: dict, known: dict, holes=frozenset()) -> int:
    """Hold tables against a dump, but for the rows in `holes`; how many cells were equal."""
    capture, cells = capture_of(folder), 0
    mariadb = is_mariadb(folder)
    for name, table in capture["tables"].items():
        kinds = table["columns"]
        rows = {}
        for line in lines(folder, f"{state}/{name}.jsonl"):
            row = json.loads(line)
            rows[tuple(from_dump(kinds[c], row[c], mariadb) for c in table["key"])] = row
        left_out = {key for of, key in holes if of == name}
        assert rows.keys() - left_out == tables[name].keys() - left_out
        for key, row in rows.items():
            if key in left_out:
                continue
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


class Replay:
    """Tables in memory: rows replaced by key, values that were not sent kept, moves followed.

    Args:
        folder: the capture.
        holes: table and key of rows of which changes are missing; rows that move from there follow.
    """

    def __init__(self, folder: str, holes: Iterable[tuple[str, tuple]] = ()) -> None:
        self.holes = set(holes)
        self.capture = capture_of(folder)
        self.tables: dict = {name: {} for name in self.capture["tables"]}
        self.graves: dict = {}
        self.kept = 0
        self.unsent: set = set()
        """Rows that moved and of which a value was not sent with the new key."""

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
        old = change.old_key_image()
        if (name, key) in self.holes or (old and (name, self.key(name, old)) in self.holes):
            self.holes.add((name, key))
            return
        if change.operation == "delete":
            self.graves[name, key] = table.pop(key)
            return
        values = dict(zip(change.schema.names, msgspec.structs.astuple(change.after), strict=True))
        base = table.get(key, {}) if old is None else self.taken(name, self.key(name, old))
        if change.operation in ("insert", "read") or old is not None:
            assert key not in table
        else:
            assert key in table
        for column, value in [*values.items()]:
            if value is UNSET:
                self.kept += 1
                # A target may leave such a column out of its message altogether.
                del values[column]
        row = {**base, **values}
        described = self.capture["tables"][name]
        if described["columns"].keys() - described.get("added", {}).keys() - row.keys():
            # The row moved as a delete and an insert, and its source sent no value of some column.
            self.unsent.add((name, key))
            self.holes.add((name, key))
            return
        table[key] = row

    def taken(self, name: str, key: tuple) -> dict:
        """The row that moved: still under its old key, or deleted there just before."""
        row = self.tables[name].pop(key, None)
        return self.graves.pop((name, key)) if row is None else row
