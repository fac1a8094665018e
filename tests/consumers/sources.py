"""What the consumers are given: the sample topics, converted, and the tables that they lead to."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.captures import as_said, from_dump, from_text
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file
from waybill.spec.migration import Table, table_rules
from waybill.tables import TableRules

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


@dataclass(frozen=True)
class TruthTable:
    """A table as its database knows it.

    Attributes:
        key: names of the key columns.
        kinds: kind of value by column, as `tests.captures` names them.
        scales: digits behind the point of decimals, by column.
        rows: the values of each row by its key, as messages tell them: numbers, bytes, counts of
            microseconds.
    """

    key: tuple[str, ...]
    kinds: dict[str, str]
    scales: dict[str, int]
    rows: dict[tuple, dict[str, Any]]


RECORDED = {
    "orders": TruthTable(
        ("id",),
        {
            "id": "uint64",
            "amount": "decimal",
            "title": "text",
            "created_at": "datetime6",
            "updated_at": "timestamp",
            "qty": "int",
            "is_paid": "int",
            "mid": "int",
            "score": "double",
            "ratio": "float",
            "flags": "bit",
            "doc": "text",
            "payload": "bytes",
            "hash8": "binary",
            "status": "enum",
            "tags": "set",
            "day": "date",
            "tm": "time3",
            "yr": "year",
        },
        {"amount": 10},
        {},
    ),
    "customers": TruthTable(
        ("region", "no"),
        {
            "region": "text",
            "no": "int",
            "name": "text",
            "latin": "text",
            "balance": "decimal",
            "since": "datetime0",
        },
        {"balance": 2},
        {},
    ),
    "notes": TruthTable(
        ("note_id",), {"note_id": "int", "body": "text", "bin": "bytes", "rev": "int"}, {}, {}
    ),
}
"""The tables of the recorded Canal topic, without their rows."""


def _unzipped(path: Path) -> list[bytes]:
    return [line for line in gzip.decompress(path.read_bytes()).split(b"\n") if line]


def recorded_lines(table: str | None = None, statements: bool = True) -> list[bytes]:
    """The recorded Canal topic.

    Args:
        table: only what is of this table, and what is of none.
        statements: with the messages about CREATE.
    """
    lines = _unzipped(SAMPLES / "canal_mariadb/messages.jsonl.gz")
    return [
        line
        for line, message in zip(lines, map(json.loads, lines), strict=True)
        if (table is None or message["table"] in (table, ""))
        and (statements or not message["isDdl"])
    ]


@cache
def recorded_truth() -> dict[str, TruthTable]:
    """The tables of the recorded Canal topic as MariaDB dumped them."""
    folder = SAMPLES / "canal_mariadb/truth"
    for name, table in RECORDED.items():
        for line in _unzipped(folder / f"{name}.jsonl.gz"):
            row = json.loads(line)
            values = {c: from_dump(kind, row[c], True) for c, kind in table.kinds.items()}
            table.rows[tuple(values[column] for column in table.key)] = values
    for line in (folder / "known_loss.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        cell = json.loads(line)
        table = RECORDED[cell["table"]]
        key = tuple(
            from_dump(table.kinds[c], str(v), True)
            for c, v in zip(table.key, cell["key"], strict=True)
        )
        said = as_said(table.kinds[cell["column"]], cell["message_says"])
        table.rows[key][cell["column"]] = said
    return RECORDED


SHOP_KINDS = {
    "decimal(38,10)": "decimal",
    "decimal(60,20)": "anydecimal",
    "decimal(10,2)": "decimal",
    "int8": "int",
    "int32": "int",
    "float64": "double",
    "string": "text",
    "timestamp": "datetime6",
    "timestamptz": "timestamp",
}
"""Kinds of values of the shop's types that are called otherwise."""


def shop_tables() -> dict[str, Any]:
    """The shop's tables as a migration declares them: the samples' own file has them."""
    found = json.loads((SAMPLES / "shop/final.json").read_text(encoding="utf-8"))
    return {name: {"key": of["key"], "columns": of["columns"]} for name, of in found.items()}


@cache
def shop_truth() -> dict[str, TruthTable]:
    """The tables of the shop as its simulator knows them."""
    found = json.loads((SAMPLES / "shop/final.json").read_text(encoding="utf-8"))
    tables = {}
    for name, of in found.items():
        kinds = {column: SHOP_KINDS.get(type, type) for column, type in of["columns"].items()}
        scales = {
            column: int(type.rstrip(")").split(",")[1])
            for column, type in of["columns"].items()
            if type.startswith("decimal")
        }
        table = TruthTable(tuple(of["key"]), kinds, scales, {})
        for row in of["rows"]:
            values = {column: from_text(kind, row[column]) for column, kind in kinds.items()}
            table.rows[tuple(values[column] for column in table.key)] = values
        tables[name.removeprefix("shop.")] = table
    return tables


def shop_lines() -> list[bytes]:
    """The shop's topic as it came: late and doubled messages, and three that nobody can take."""
    files = sorted((SAMPLES / "shop").glob("*.jsonl"))
    return [line for file in files for line in file.read_bytes().split(b"\n")[:-1]]


def shop_changes(name: str | None = None) -> list[bytes]:
    """The shop's rows with the changes of each in order: full rows, then by id.

    Messages that came twice still do, one behind the other. What nobody can take is left out.

    Args:
        name: only rows of this table.
    """
    found = []
    for line in shop_lines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        meta = document["allMetaData"]
        full = document["recordType"] == "ROW"
        number = -1 if full else meta.get("storeDataSequence", 0)
        if (full or number > 10) and name in (None, meta["table_name"]):
            found.append((number, line))
    return [line for _, line in sorted(found, key=lambda each: each[0])]


def shop_moves() -> set[tuple[str, tuple]]:
    """Tables and keys that rows of the shop left for another key."""
    moved = set()
    for line in shop_changes():
        document = json.loads(line)
        name, before, after = (
            document["allMetaData"]["table_name"],
            document["prevStruct"],
            document["postStruct"],
        )
        key = shop_truth()[name].key
        if before and after and any(before[column] != after[column] for column in key):
            moved.add((name, tuple(before[column] for column in key)))
    return moved


Published = list[tuple[bytes | None, bytes | None]]
"""Keys and values of messages, in their order."""


@dataclass(frozen=True)
class Reader:
    """What is read, and the settings for reading it."""

    envelope: str
    rules: TableRules = field(default_factory=TableRules)
    settings: dict[str, Any] = field(default_factory=dict)


SHOP = Reader(
    "oms-default",
    table_rules({name: Table.model_validate(of) for name, of in shop_tables().items()}),
    # The shop sends whole rows, receipts too: a null among them is one.
    {"lobs": "null"},
)
"""How the shop's topic is read."""


def convert(
    source: Reader, target: str, given: list[bytes] | Path, folder: Path, **settings: Any
) -> Published:
    """What `waybill convert` makes of lines, or of what an earlier call made: `made(...)`.

    Raises:
        AssertionError: a message was refused.
    """
    if isinstance(given, list):
        lines, given = given, folder / "in.jsonl"
        given.write_bytes(b"".join(line + b"\n" for line in lines))
    written, refused = made(folder, target), folder / "refused.jsonl"
    written.unlink(missing_ok=True)
    job = ConvertJob(
        source.envelope,
        target,
        str(given),
        str(written),
        source.settings,
        settings,
        source.rules,
    )
    account, _ = convert_file(job, str(refused), 1)
    assert account.report(target, 1).refused == {}, refused.read_text(encoding="utf-8")[:2000]
    return [(row["key"], row["value"]) for row in pq.read_table(written).to_pylist()]


def made(folder: Path, target: str) -> Path:
    """The file that `convert` writes into a folder."""
    return folder / f"{target}.parquet"


def differences(found: dict[tuple, dict[str, Any]], true: dict[tuple, dict[str, Any]]) -> list[str]:
    """Rows and cells in which a consumer's table is not the true one."""
    said = [f"{key} is missing" for key in true.keys() - found.keys()]
    said += [f"{key} is too many" for key in found.keys() - true.keys()]
    for key in found.keys() & true.keys():
        row = found[key]
        said += [
            f"{key} {column}: {row[column]!r} for {value!r}"
            for column, value in true[key].items()
            if row[column] != value
        ]
    return sorted(said)


_PLUS, _MINUS = struct.pack(">d", 0.0), struct.pack(">d", -0.0)


def without_signs_of_zero(rows: dict[tuple, dict[str, Any]]) -> dict[tuple, dict[str, Any]]:
    """Rows in which -0.0 is 0.0: readers that make decimals of JSON's numbers lose the sign."""
    return {
        key: {column: _PLUS if value == _MINUS else value for column, value in row.items()}
        for key, row in rows.items()
    }
