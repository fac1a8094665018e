"""One stream of changes, written as a topic of each envelope: the same rows, the same order."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("id", "name", "comment", "amount", "placed_at", "flag")
MYSQL_TYPES = {
    "id": "bigint(20)",
    "name": "varchar(64)",
    "comment": "varchar(255)",
    "amount": "decimal(18,4)",
    "placed_at": "datetime(6)",
    "flag": "tinyint(4)",
}
SQL_TYPES = {"id": -5, "name": 12, "comment": 12, "amount": 3, "placed_at": 93, "flag": -6}
STREAMX_TYPES = {
    "id": "LONG",
    "name": "STRING",
    "comment": "STRING",
    "amount": "STRING",
    "placed_at": "STRING",
    "flag": "LONG",
}
DECLARED = {
    "bench.orders": {
        "key": ["id"],
        "columns": {c: t.split("(20)")[0] for c, t in MYSQL_TYPES.items()},
    }
}
"""What the envelopes without types have to be told."""

WORDS = (
    *("north", "Ünder", "订单", 'in "quotes"', "back\\slash", "two\nlines", "a\ttab", "🚚 van"),
    *("o'clock", "plain", "comma,", "<b>", "null", "", "0", "omega"),
)
EPOCH = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
EPOCH_MS = int(EPOCH.timestamp() * 1000)
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Row:
    """One row; `amount` is exact text, `micros` the microseconds since 1970 of `placed_at`."""

    id: int
    name: str
    comment: str | None
    amount: str | None
    micros: int
    flag: int

    @property
    def placed_at(self) -> str:
        """The wall clock as MySQL prints it."""
        moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=self.micros)
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def changes(count: int, keys: int, seed: int = 7) -> Iterator[tuple[int, Row | None, Row | None]]:
    """Numbered changes as (number, before, after): 60 % updates, 25 % inserts, 15 % deletes."""
    dice = random.Random(seed)
    rows: dict[int, Row] = {}
    for number in range(count):
        # Low keys are hot, as in a real table.
        key = int(keys * dice.random() ** 2.5)
        before = rows.get(key)
        if before is None:
            after: Row | None = _row(dice, key, number)
        elif dice.random() < 0.2:
            after = None
        else:
            fresh = _row(dice, key, number)
            changed = dice.randrange(1, 16)
            after = Row(
                before.id,
                fresh.name if changed & 1 else before.name,
                fresh.comment if changed & 2 else before.comment,
                fresh.amount if changed & 4 else before.amount,
                fresh.micros,
                fresh.flag if changed & 8 else before.flag,
            )
        if after is None:
            del rows[key]
        else:
            rows[key] = after
        yield number, before, after


def _row(dice: random.Random, key: int, number: int) -> Row:
    # Every hundredth id and a quarter of the amounts do not fit a double.
    identity = 2**53 + 1 + key if key % 100 == 0 else key
    digits = dice.randrange(10**18) if dice.random() < 0.28 else dice.randrange(10**8)
    amount = None if dice.random() < 0.02 else f"{digits // 10_000}.{digits % 10_000:04d}"
    words = " ".join(dice.choice(WORDS) for _ in range(dice.randrange(2, 6)))
    return Row(
        identity,
        f"customer-{key}-{dice.randrange(1000)}",
        None if dice.random() < 0.05 else words,
        amount,
        (EPOCH_MS + number) * 1000 + dice.randrange(1000),
        dice.randrange(-128, 128),
    )


def sequence(number: int) -> int:
    """Ten digits of seconds and nine of a counter."""
    return EPOCH_MS // 1000 * 10**9 + number


def _texts(row: Row) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "name": row.name,
        "comment": row.comment,
        "amount": row.amount,
        "placed_at": row.placed_at,
        "flag": str(row.flag),
    }


def canal(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The native Canal flat message of a change."""
    data = _texts(after or before)  # type: ignore[arg-type]
    old = None
    if before and after:
        was = _texts(before)
        old = [{name: was[name] for name in COLUMNS if was[name] != data[name]}]
    return [
        orjson.dumps(
            {
                "data": [data],
                "database": "bench",
                "es": EPOCH_MS + number,
                "gtid": "",
                "id": number + 1,
                "isDdl": False,
                "mysqlType": MYSQL_TYPES,
                "old": old,
                "pkNames": ["id"],
                "sql": "",
                "sqlType": SQL_TYPES,
                "table": "orders",
                "ts": EPOCH_MS + number + 350,
                "type": "DELETE" if after is None else "INSERT" if before is None else "UPDATE",
            }
        )
    ]


def oms_default(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The OMS Default message of a change."""

    def image(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        amount = None if row.amount is None else orjson.Fragment(row.amount)
        return {**_texts(row), "id": row.id, "amount": amount, "flag": row.flag}

    row: Row = after or before  # type: ignore[assignment]
    return [
        orjson.dumps(
            {
                "allMetaData": {
                    "checkpoint": str(EPOCH_MS // 1000),
                    "record_primary_key": "id",
                    "record_primary_value": str(row.id),
                    "source_identity": "OB_MYSQL_bench_0",
                    "dbType": "MYSQL",
                    "storeDataSequence": sequence(number),
                    "table_name": "orders",
                    "db": "bench",
                    "timestamp": str((EPOCH_MS + number) // 1000),
                    "uniqueId": f"u{number}",
                },
                "prevStruct": image(before),
                "postStruct": image(after),
                "recordType": "DELETE"
                if after is None
                else "INSERT"
                if before is None
                else "UPDATE",
            }
        )
    ]


_STREAMX_SCHEMA = {
    "dataColumn": [{"name": name, "type": kind} for name, kind in STREAMX_TYPES.items()],
    "primaryKey": ["id"],
    "source": {"dbType": "MySQL", "dbName": "bench", "tableName": "orders"},
}


def datahub_blob(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The DataHub BLOB messages of a change: two for an update."""

    def image(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {"dataColumn": {**_texts(row), "id": row.id, "flag": row.flag}}

    def message(op: str, was: Row | None, now: Row | None) -> bytes:
        moment = EPOCH_MS + number
        return orjson.dumps(
            {
                "schema": _STREAMX_SCHEMA,
                "payload": {
                    "before": image(was),
                    "after": image(now),
                    "sequenceId": str(sequence(number)),
                    "timestamp": {
                        "eventTime": moment,
                        "systemTime": moment + 350,
                        "checkpointTime": moment,
                    },
                    "op": op,
                },
                "version": "0.0.1",
            }
        )

    if before and after:
        return [message("UPDATE_BEFOR", before, None), message("UPDATE_AFTER", None, after)]
    return [message("INSERT" if before is None else "DELETE", before, after)]


def debezium_json(number: int, before: Row | None, after: Row | None) -> list[bytes]:
    """The schemaless Debezium message of a change, decimals as text."""

    def image(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {**_texts(row), "id": row.id, "placed_at": row.micros, "flag": row.flag}

    moment = EPOCH_MS + number
    return [
        orjson.dumps(
            {
                "before": image(before),
                "after": image(after),
                "source": {
                    "version": "3.0.0.Final",
                    "connector": "mysql",
                    "name": "bench",
                    "ts_ms": moment,
                    "snapshot": "false",
                    "db": "bench",
                    "sequence": None,
                    "table": "orders",
                    "server_id": 1,
                    "gtid": None,
                    "file": "mysql-bin.000008",
                    "pos": 4 + number * 97,
                    "row": 0,
                    "thread": 12,
                    "query": None,
                },
                "op": "d" if after is None else "c" if before is None else "u",
                "ts_ms": moment + 350,
                "transaction": None,
            }
        )
    ]


WRITERS = {
    "canal": canal,
    "oms-default": oms_default,
    "datahub-blob": datahub_blob,
    "debezium-json": debezium_json,
}


def debezium_key(row: Row) -> bytes:
    """The key of a schemaless Debezium message."""
    return orjson.dumps({"id": row.id})


@dataclass(frozen=True)
class Topic:
    """One generated topic as a lines file and as a Parquet file with Kafka's columns."""

    envelope: str
    lines: Path
    parquet: Path
    messages: int
    bytes: int


def write_topics(
    folder: Path, count: int, keys: int, writers: dict[str, Any] | None = None
) -> dict[str, Topic]:
    """Write every topic below `folder`; topics that are there already are taken as they are."""
    topics = {}
    for envelope, write in (writers or WRITERS).items():
        lines = folder / envelope / f"{count}-{keys}.jsonl"
        parquet = lines.with_suffix(".parquet")
        if not (lines.exists() and parquet.exists()):
            _write_topic(envelope, write, lines, parquet, count, keys)
        rows = pq.ParquetFile(parquet).metadata.num_rows
        topics[envelope] = Topic(envelope, lines, parquet, rows, lines.stat().st_size)
    return topics


def _write_topic(
    envelope: str, write: Any, lines: Path, parquet: Path, count: int, keys: int
) -> None:
    lines.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
        ]
    )
    offset = 0
    with lines.open("wb") as out, pq.ParquetWriter(parquet, schema, compression="zstd") as table:
        pending: list[tuple[int, bytes, bytes]] = []
        for number, before, after in changes(count, keys):
            key = debezium_key(after or before)  # type: ignore[arg-type]
            for value in write(number, before, after):
                out.write(value + b"\n")
                pending.append((EPOCH_MS + number, key, value))
            if len(pending) >= BATCH_ROWS or number == count - 1:
                table.write_batch(_batch(envelope, offset, pending, schema))
                offset += len(pending)
                pending = []


def _batch(
    envelope: str, offset: int, rows: list[tuple[int, bytes, bytes]], schema: pa.Schema
) -> pa.RecordBatch:
    count = len(rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([envelope] * count, pa.string()),
            pa.array([0] * count, pa.int32()),
            pa.array(range(offset, offset + count), pa.int64()),
            pa.array([row[0] * 1000 for row in rows], pa.timestamp("us", tz="UTC")),
            pa.array([row[1] for row in rows], pa.binary()),
            pa.array([row[2] for row in rows], pa.binary()),
        ],
        schema=schema,
    )
