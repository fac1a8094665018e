"""Two shards that become one table with a mask, and who reads what is published of them.

The readers know the formats and nothing of the merge; the database is what the statements make of
it, one after the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.spark.test_shards import ONE, TABLES, TWO, message, row, statement

Rows = dict[tuple[str, str], str]
"""By name of the shard and id: what is shown of `v`."""

MAP = [
    {
        "tables": "shop_*.orders_*",
        "rename": {"database": "shop", "table": "orders"},
        "columns": {"mask": {"v": "sha256"}},
        "join": {"column": "shard"},
    }
]
FIRST = {"envelope": "canal", "files": {"path": "out"}}
NEW = {
    "envelope": "oms-default",
    "name": "new",
    "files": {"path": "new"},
    "bootstrap": "tables",
}


class Event(NamedTuple):
    """What happened in a shard: a row that is there now, one that is gone, or all of them."""

    shard: str
    sequence: int
    number: int | None
    value: str | None = None
    before: str | None = None

    @property
    def message(self) -> bytes:
        """It as the source writes it."""
        if self.number is None:
            table = self.shard.partition(".")[2]
            return statement(self.sequence, f"TRUNCATE TABLE {table}", self.shard)
        was = None if self.before is None else row(self.number, self.before)
        now = None if self.value is None else row(self.number, self.value)
        kind = "DELETE" if now is None else "INSERT" if was is None else "UPDATE"
        return message(self.sequence, kind, was, now, self.shard)


BATCHES = (
    [Event(ONE, n, n, f"a{n}") for n in (1, 2, 3)] + [Event(TWO, n, n, f"b{n}") for n in (1, 2)],
    [
        Event(ONE, 20, None),
        Event(ONE, 21, 4, "again"),
        Event(TWO, 6, 1, "changed", "b1"),
        Event(TWO, 7, 2, None, "b2"),
    ],
    [
        # Late, from before the TRUNCATE.
        Event(ONE, 13, 9, "void"),
        Event(TWO, 8, 3, "late"),
        Event(ONE, 22, 4, "last", "again"),
    ],
)


def database() -> Rows:
    """The rows after all that happened, in the order of each shard."""
    rows: Rows = {}
    for event in sorted((one for batch in BATCHES for one in batch), key=lambda one: one.sequence):
        key = event.shard, str(event.number)
        if event.number is None:
            rows = {key: value for key, value in rows.items() if key[0] != event.shard}
        elif event.value is None:
            del rows[key]
        else:
            rows[key] = hashlib.sha256(event.value.encode()).hexdigest()
    return rows


def by_arrival(lines: Iterable[bytes]) -> Rows:
    """What a reader of Canal has, who takes one message after the other."""
    rows: Rows = {}
    for document in map(json.loads, lines):
        for image in document["data"]:
            _take(rows, image, document["type"] == "DELETE")
    return rows


def by_id(lines: Iterable[bytes]) -> Rows:
    """What a reader of OMS has, who goes by the sequence ids whatever comes first."""
    rows: Rows = {}
    for document in sorted(
        map(json.loads, lines), key=lambda one: one["allMetaData"]["storeDataSequence"]
    ):
        now = document["postStruct"]
        _take(rows, now or document["prevStruct"], now is None)
    return rows


def _take(rows: Rows, image: dict[str, Any], gone: bool) -> None:
    key = image["shard"], str(image["id"])
    rows.pop(key, None)
    if not gone:
        rows[key] = image["v"]


def migration(settings: dict[str, str], *targets: dict[str, Any]) -> str:
    """The text of the migration's file."""
    source = {"files": {"path": "in", "topic": "shop"}, "envelope": "oms-default"}
    fields = {"tables": TABLES, "map": MAP, "publish": targets, "spark": settings}
    return json.dumps({"name": "demo", "source": source, "lake": {"warehouse": "lake"}, **fields})
