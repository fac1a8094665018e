"""What the consumers are given: the sample topics, converted, and the tables that they lead to."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.captures import as_said, from_dump
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file
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


Published = list[tuple[bytes | None, bytes | None]]
"""Keys and values of messages, in their order."""


@dataclass(frozen=True)
class Reader:
    """What is read, and what reading it has to be told."""

    envelope: str
    rules: TableRules = field(default_factory=TableRules)
    settings: dict[str, Any] = field(default_factory=dict)


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
