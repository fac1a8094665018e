"""A table of every type in a PostgreSQL, and Debezium's messages about what is done to it.

The messages are made from typed values, as the connector makes them: days and microseconds since
1970, Base64, bits as bytes. The verification reads the database's texts. So the two ways meet only
where both are right.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

DDL = """
CREATE TABLE typed (
    id bigint PRIMARY KEY, small smallint, flag boolean, amount numeric(12,3), free numeric,
    ratio real, exact double precision, title text, name varchar(40), code char(6), raw bytea,
    day date, at time(6), wall timestamp(6), moment timestamptz(6), doc jsonb, bits bit(9),
    uid uuid, tags text[], big numeric(38,0)
)
"""

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def _micros(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def _bits(value: str) -> str:
    number = int(value, 2)
    return base64.b64encode(number.to_bytes(2, "little")).decode()


TYPES: dict[str, tuple[dict[str, Any], Any]] = {
    "id": ({"type": "int64"}, None),
    "small": ({"type": "int16"}, None),
    "flag": ({"type": "boolean"}, None),
    "amount": ({"type": "string"}, str),
    "free": ({"type": "string"}, str),
    "ratio": ({"type": "float"}, None),
    "exact": ({"type": "double"}, None),
    "title": ({"type": "string"}, None),
    "name": ({"type": "string"}, None),
    "code": ({"type": "string"}, lambda value: value.ljust(6)),
    "raw": ({"type": "bytes"}, lambda value: base64.b64encode(value).decode()),
    "day": (
        {"type": "int32", "name": "io.debezium.time.Date"},
        lambda value: (value - date(1970, 1, 1)).days,
    ),
    "at": (
        {"type": "int64", "name": "io.debezium.time.MicroTime"},
        lambda v: (v.hour * 3600 + v.minute * 60 + v.second) * 1_000_000 + v.microsecond,
    ),
    "wall": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, _micros),
    "moment": (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        lambda value: value.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    ),
    "doc": (
        {"type": "string", "name": "io.debezium.data.Json"},
        lambda value: json.dumps(value, separators=(",", ":")),
    ),
    "bits": (
        {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "9"}},
        _bits,
    ),
    "uid": ({"type": "string", "name": "io.debezium.data.Uuid"}, str),
    "tags": ({"type": "array", "items": {"type": "string", "optional": True}}, None),
    "big": ({"type": "string"}, str),
}


def _fields(name: str) -> dict[str, Any]:
    columns = [
        {"field": column, "optional": column != "id", **schema}
        for column, (schema, _) in TYPES.items()
    ]
    return {"type": "struct", "fields": columns, "optional": True, "field": name}


_SOURCE = ("connector", "db", "schema", "table", "snapshot", "sequence")
_NUMBERS = ("ts_ms", "ts_us", "lsn", "txId")
SCHEMA = {
    "type": "struct",
    "optional": False,
    "name": "shop.public.typed.Envelope",
    "fields": [
        _fields("before"),
        _fields("after"),
        {
            "type": "struct",
            "field": "source",
            "optional": False,
            "name": "io.debezium.connector.postgresql.Source",
            "fields": [
                *({"type": "string", "optional": True, "field": name} for name in _SOURCE),
                *({"type": "int64", "optional": True, "field": name} for name in _NUMBERS),
            ],
        },
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
}


class PostgresFeed:
    """The database, and the folder where a connector would put its messages.

    One transaction at a time: its messages stand in the order of the commits, with a time that was
    taken inside of it.
    """

    text = "title"
    """A column that may be anything."""

    def __init__(self, server: Any, folder: Path, table: str = "typed") -> None:
        self.server, self.table = server, table
        self.session = psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user=server.user,
            password=server.password,
            dbname=server.database,
        )
        self.session.execute("SET TimeZone = 'UTC'")
        self.session.execute(f"DROP TABLE IF EXISTS {table}")
        self.session.execute(DDL.replace("CREATE TABLE typed", f"CREATE TABLE {table}"))
        self.session.commit()
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self.lock = threading.RLock()
        self._lines: list[str] = []
        self._offset = 0
        self._lsn = 1000

    def row(self, number: int) -> dict[str, Any]:
        """Text of SQL for the values of a row, by column; some are null."""
        full = {
            "id": str(number),
            "small": str(number % 30_000 - 15_000),
            "flag": str(number % 2 == 0),
            "amount": f"{number}.{number % 1000:03d}",
            "free": f"{number}.{'50' if number % 2 else '5'}",
            "ratio": f"'{number / 7:.6g}'",
            "exact": f"'{number / 3!r}'",
            "title": f"'Zeile {number} – ''x'' \\ tab\t'",
            "name": f"'n{number}'",
            "code": f"'c{number % 100}'",
            "raw": f"'\\x{number % 256:02x}00ff'",
            "day": f"date '2020-01-01' + {number % 5000}",
            "at": f"time '00:00:00.000001' + interval '{number % 80000} seconds'",
            "wall": f"timestamp '1969-12-31 23:59:59.5' + interval '{number} minutes 0.25 seconds'",
            "moment": f"timestamptz '2001-01-01 00:00:00.123456+02' + interval '{number} hours'",
            "doc": f'\'{{"n": {number}, "t": ["a", null, 1.50], "o": {{}}}}\'',
            "bits": f"B'{number % 512:09b}'",
            "uid": f"md5('{number}')::uuid",
            "tags": f"ARRAY['a {number}', NULL, 'q\"{{,']",
            "big": f"{'9' * 30}{number % 10}",
        }
        if number % 5 == 0:
            for column in list(full)[1 + number % 4 :: 3]:
                full[column] = "NULL"
        return full

    def insert(self, *numbers: int, silent: bool = False) -> None:
        """Insert rows; silently is what no message tells of."""
        rows = ", ".join(f"({', '.join(self.row(n).values())})" for n in numbers)
        self._run(f"INSERT INTO {self.table} VALUES {rows} RETURNING *", "c", silent)

    def update(self, number: int, silent: bool = False, **values: str) -> None:
        sets = ", ".join(f'"{name}" = {value}' for name, value in values.items())
        self._run(f"UPDATE {self.table} SET {sets} WHERE id = {number} RETURNING *", "u", silent)

    def delete(self, number: int, silent: bool = False) -> None:
        self._run(f"DELETE FROM {self.table} WHERE id = {number} RETURNING *", "d", silent)

    def truncate(self) -> None:
        with self.lock:
            self.session.execute(f"TRUNCATE {self.table}")
            micros = self._clock()
            self.session.commit()
            self._lines.append(self._message(None, "t", micros))

    def say(self, number: int, **values: str) -> None:
        """Tell of a row that the database does not have."""
        chosen = {**self.row(number), **values}
        names = ", ".join(f"{value} AS {name}" for name, value in chosen.items())
        with self.lock:
            self._run(f"INSERT INTO {self.table} SELECT {names} RETURNING *", "c", False)
            self.delete(number, silent=True)

    def _run(self, statement: str, operation: str, silent: bool) -> None:
        with self.lock:
            cursor = self.session.execute(statement)
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            micros = self._clock()
            self.session.commit()
            if not silent:
                self._lines += [self._message(row, operation, micros) for row in rows]

    def _clock(self) -> int:
        found = self.session.execute(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchone()
        assert found is not None
        return int(found[0])

    def _message(self, row: dict[str, Any] | None, operation: str, micros: int) -> str:
        self._lsn += 8
        image = row and {
            name: value if value is None or TYPES[name][1] is None else TYPES[name][1](value)
            for name, value in row.items()
        }
        deleted = operation == "d"
        source = {
            "connector": "postgresql",
            "db": "waybill",
            "schema": "public",
            "table": self.table,
            "snapshot": "false",
            "sequence": f'["{self._lsn}","{self._lsn}"]',
            "ts_ms": micros // 1000,
            "ts_us": micros,
            "lsn": self._lsn,
            "txId": self._lsn,
        }
        payload = {
            "before": image if deleted else None,
            "after": None if deleted else image,
            "source": source,
            "op": operation,
            "ts_ms": micros // 1000,
        }
        return json.dumps({"schema": SCHEMA, "payload": payload})

    def flush(self) -> None:
        """Put what was said since into the topic, which has one partition."""
        with self.lock:
            lines, self._lines = self._lines, []
            if not lines:
                return
            payloads = [
                json.dumps(
                    {
                        "topic": f"shop_{self.table}",
                        "partition": 0,
                        "offset": offset,
                        "payload": line,
                    }
                )
                for offset, line in enumerate(lines, start=self._offset)
            ]
            self._offset += len(payloads)
            hidden = self.folder / f".{self.table}-{self._offset:08d}"
            hidden.write_text("\n".join(payloads) + "\n", encoding="utf-8")
            hidden.rename(self.folder / f"{self.table}-{self._offset:08d}.jsonl")

    def beat(self, number: int) -> None:
        """A change of another row, so that the topic brings something newer."""
        time.sleep(0.01)
        self.insert(number)

    def close(self) -> None:
        self.session.close()
