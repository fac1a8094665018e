"""Recorded streams of PostgreSQL and MariaDB with a transaction topic, which they lack.

The recorded rows name their transaction in the block `source`. What Debezium sends of transactions
with `provide.transaction.metadata` follows from that: PostgreSQL's ids hold the place of the single
operation, and a TRUNCATE of a binlog has a beginning without an end.
"""

from __future__ import annotations

import functools
import json
from itertools import groupby
from typing import NamedTuple

import pytest

from tests.captures import CAPTURES, lines
from waybill.merge.transactions import Came, Members, Open, TransactionBoundary, judge

FOLDERS = ("debezium-postgres-default", "debezium-mariadb")

pytestmark = [
    pytest.mark.captures,
    pytest.mark.skipif(
        not all((CAPTURES / folder).is_dir() for folder in FOLDERS),
        reason="the recorded streams are not here",
    ),
]

BATCHES = 9


class Row(NamedTuple):
    id: str
    place: tuple[int, ...]
    operation: str


@functools.cache
def recorded(folder: str) -> list[list[Row]]:
    """The changes of each transaction, in the order of the source."""
    rows = []
    for line in lines(folder, "messages-schemaless.jsonl"):
        message = json.loads(line)
        value = None if message["value"] is None else json.loads(message["value"])
        if value is None or "op" not in value or value["source"]["snapshot"] not in ("false", None):
            continue
        source = value["source"]
        if source["connector"] == "postgresql":
            name, place = f"{source['txId']}:{source['lsn']}", (source["lsn"],)
        else:
            file = int(source["file"].rpartition(".")[2])
            name, place = source["gtid"], (file, source["pos"], source["row"])
        rows.append(Row(name, place, value["op"]))
    return [list(found) for _, found in groupby(rows, lambda row: row.id.partition(":")[0])]


def with_events(folder: str, restarts: bool) -> list[Row | TransactionBoundary]:
    """Rows and events as the connector sends them; after a restart one begins a second time."""
    stream: list[Row | TransactionBoundary] = []

    def event(operation: str, id_: str, rows: int | None = None) -> None:
        stream.append(TransactionBoundary(f"{len(stream):06}", operation, id_, rows=rows))

    for number, rows in enumerate(recorded(folder)):
        event("begin", rows[0].id)
        for at, row in enumerate(rows):
            stream.append(row)
            if restarts and at == len(rows) // 2 and number % 7 == 0:
                event("begin", rows[0].id if ":" not in row.id else row.id)
        if ":" in rows[0].id:
            event("commit", f"{rows[0].id.split(':')[0]}:{rows[-1].place[0] + 48}", len(rows))
        elif rows[0].operation != "t" and not (restarts and number % 5 == 0):
            event("commit", rows[0].id, len(rows))
    return stream


def belongs(row: Row, members: Members) -> bool:
    name, _, place = row.id.partition(":")
    first, last = members.first, members.last
    inside = not place or (first is None or int(place) >= first)
    return name == members.name and inside and (last is None or int(place) <= last)


def came(rows: dict[str, list[Row]], asked: tuple[Open, ...]) -> dict[str, Came]:
    """What has come of transactions, of rows by name."""
    newest = max((row.place for found in rows.values() for row in found), default=())
    found = {}
    for transaction in asked:
        named = rows.get(transaction.members.name, [])
        mine = [row for row in named if belongs(row, transaction.members)]
        statement = any(row.operation == "t" for row in mine)
        followed = bool(mine) and newest > max(row.place for row in mine)
        found[transaction.id] = Came(len(mine), statement, followed)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("late", [-1, 0, 1, BATCHES])
def test_every_transaction_comes_out_whole(folder: str, restarts: bool, late: int) -> None:
    """The transaction topic is read with its rows, a batch earlier or later, or in the end."""
    stream = with_events(folder, restarts)
    size = len(stream) // BATCHES + 1
    batches: list[list[Row | TransactionBoundary]] = [[] for _ in range(BATCHES + 2)]
    for at, thing in enumerate(stream):
        shift = late if isinstance(thing, TransactionBoundary) else 0
        batches[min(max(at // size + shift, 0), BATCHES + 1)].append(thing)
    open_: tuple[Open, ...] = ()
    rows: dict[str, list[Row]] = {}

    def look(asked: tuple[Open, ...]) -> dict[str, Came]:
        return came(rows, asked)

    ended = {t.transaction.partition(":")[0] for t in stream if is_end(t)}
    whole = [t for t in recorded(folder) if t[0].id.partition(":")[0] in ended]
    released = 0
    for number, batch in enumerate(batches):
        for row in (thing for thing in batch if isinstance(thing, Row)):
            rows.setdefault(row.id.partition(":")[0], []).append(row)
        events = [thing for thing in batch if isinstance(thing, TransactionBoundary)]
        verdict = judge(open_, events, number, number, look)
        open_, released = verdict.open, released + len(verdict.released)
        if late <= 0:
            # No part of a transaction shows before the rest of it has come.
            waiting = {t.id for t in open_}
            for transaction in whole:
                found = len(rows.get(transaction[0].id.partition(":")[0], ()))
                assert found in (0, len(transaction)) or transaction[0].id in waiting
    assert released > BATCHES // 2 or late > 0
    assert [t for t in open_ if t.end is not None] == []
    # Only the last transaction of a binlog may wait for what follows it.
    assert len(open_) <= (folder == "debezium-mariadb")


def is_end(thing: Row | TransactionBoundary) -> bool:
    return isinstance(thing, TransactionBoundary) and thing.operation == "commit"
