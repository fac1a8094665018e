"""A table of every type in a MariaDB or MySQL, and Canal's messages about what is done to it.

The messages are made from typed values as Canal prints them: numbers of an ENUM, bit masks of a
SET, a character for a byte, a TIMESTAMP in the time zone of its machine, floats as Java does.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pymysql

ZONE = "Asia/Shanghai"

COLUMNS = {
    "id": "bigint(20)",
    "tiny": "tinyint(1)",
    "big": "bigint(20) unsigned",
    "filled": "int(6) unsigned zerofill",
    "amount": "decimal(20,4)",
    "ratio": "float",
    "exact": "double",
    "name": "varchar(40)",
    "code": "char(6)",
    "body": "text",
    "kind": "enum('a','B','x y')",
    "rights": "set('r','w','x')",
    "raw": "varbinary(20)",
    "fixed": "binary(4)",
    "blob_": "blob",
    "bits": "bit(9)",
    "day": "date",
    "wall": "datetime(6)",
    "moment": "timestamp(6)",
    "clock": "time(3)",
    "born": "year(4)",
    "doc": "longtext",
    "place": "point",
    "wide": "varchar(20)",
    "unseen": "int(11)",
    "twice": "bigint(20)",
    "kept": "varchar(40)",
}
CHARSETS = {"name": "CHARACTER SET latin1 ", "wide": "CHARACTER SET utf16 "}
GENERATED = {
    "twice": "GENERATED ALWAYS AS (unseen * 2) VIRTUAL",
    "kept": "GENERATED ALWAYS AS (concat(unseen, ' kept')) STORED",
}
DETAILS = {"id": "PRIMARY KEY", "unseen": "NULL DEFAULT NULL INVISIBLE", **GENERATED}
WORDS = {"kind": ["a", "B", "x y"], "rights": ["r", "w", "x"]}


def _double(value: float) -> str:
    # Java writes 1.0E22 where Python writes 1e+22.
    mantissa, e, exponent = repr(value).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _clock(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    sign, micros = "-" if micros < 0 else "", abs(micros)
    seconds = micros // 1_000_000
    return (
        f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        f".{micros // 1000 % 1000:03}"
    )


def _wall(value: datetime | str) -> str:
    return value if isinstance(value, str) else f"{value:%Y-%m-%d %H:%M:%S.%f}"


def _moment(value: datetime | str) -> str:
    if isinstance(value, str):
        return value
    there = value.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo(ZONE))
    return f"{there:%Y-%m-%d %H:%M:%S.%f}"


PRINTED: dict[str, Any] = {
    "ratio": lambda value: str(np.float32(value)),
    "exact": _double,
    "kind": lambda value: str(WORDS["kind"].index(value) + 1) if value else "0",
    "rights": lambda value: str(
        sum(1 << WORDS["rights"].index(word) for word in value.split(",") if word)
    ),
    "raw": lambda value: value.decode("latin-1"),
    "fixed": lambda value: value.rstrip(b"\0").decode("latin-1"),
    "blob_": lambda value: value.decode("latin-1"),
    "place": lambda value: value.decode("latin-1"),
    "bits": lambda value: str(int.from_bytes(value, "big")),
    "wall": _wall,
    "moment": _moment,
    "clock": _clock,
}


class BinlogFeed:
    """The database, and the folder where Canal would put its messages.

    Attributes:
        columns: the table's columns and their types, as the server names them.
        printed: how Canal writes values of columns that Python prints otherwise.
    """

    columns = COLUMNS
    printed = PRINTED

    text = "body"
    """A column that may be anything."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.session = pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user=server.user,
            password=server.password,
            database=server.database,
            charset="utf8mb4",
        )
        self._execute("SET time_zone = '+00:00', sql_mode = ''")
        self._execute("DROP TABLE IF EXISTS typed")
        ddl = ", ".join(
            f"`{name}` {declared} {CHARSETS.get(name, '')}{DETAILS.get(name, 'NULL DEFAULT NULL')}"
            for name, declared in self.columns.items()
        )
        self._execute(f"CREATE TABLE typed ({ddl}) CHARACTER SET utf8mb4")
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self.lock = threading.RLock()
        self._lines: list[str] = []
        self._offset = 0

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self.session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def row(self, number: int) -> dict[str, str]:
        """Text of SQL for the values of a row, by column; some are null."""
        full = {
            "id": str(number),
            "tiny": str(number % 2),
            "big": str(2**64 - 1 - number),
            "filled": str(number),
            "amount": f"{number}.{number % 1000:04d}",
            "ratio": f"{number / 7:.9g}",
            "exact": f"{number / 3!r}" if number % 2 else f"{number}e22",
            "name": f"'n{number} é'",
            "code": f"'c{number % 100}'",
            "body": f"'Zeile {number} – \\'x\\' \\\\ tab\\t 😀'",
            "kind": f"'{WORDS['kind'][number % 3]}'",
            "rights": f"{number % 8}",
            "raw": f"X'{number % 256:02x}00ff20'",
            "fixed": f"X'{number % 256:02x}0000'",
            "blob_": f"X'00{number % 256:02x}80'",
            "bits": str(number % 512),
            "day": f"date '2020-01-01' + interval {number} day" if number % 3 else "'0000-00-00'",
            "wall": f"timestamp '1969-12-31 23:59:59.25' + interval {number} minute",
            "moment": f"timestamp '2001-01-01 00:00:00.123456' + interval {number} hour",
            "clock": "'-838:59:59'" if number % 4 == 0 else f"'{number}:00:00.5'",
            "born": str(1990 + number % 100) if number % 6 else "0",
            "doc": f'\'{{"n": {number}, "t": ["a", null, 1.50]}}\'',
            # MySQL takes the first number for a latitude.
            "place": f"ST_GeomFromText('POINT({number % 90} 1.5)', 4326)",
            "wide": f"'w{number} 😀'",
            "unseen": str(number),
        }
        if number % 5 == 0:
            for column in list(full)[1 + number % 4 :: 3]:
                full[column] = "NULL"
        return full

    def insert(self, *numbers: int, silent: bool = False) -> None:
        """Insert rows; silently is what no message tells of."""
        names = ", ".join(f"`{name}`" for name in self.columns if name not in GENERATED)
        rows = ", ".join(f"({', '.join(self.row(n).values())})" for n in numbers)
        with self.lock:
            self._execute(f"INSERT INTO typed ({names}) VALUES {rows}")
            self._tell("INSERT", numbers, silent)

    def update(self, number: int, silent: bool = False, **values: str) -> None:
        sets = ", ".join(f"`{name}` = {value}" for name, value in values.items())
        with self.lock:
            self._execute(f"UPDATE typed SET {sets} WHERE id = {number}")
            self._tell("UPDATE", (number,), silent)

    def delete(self, number: int, silent: bool = False) -> None:
        with self.lock:
            rows = self._rows((number,))
            self._execute(f"DELETE FROM typed WHERE id = {number}")
            self._tell("DELETE", (), silent, rows)

    def say(self, number: int) -> None:
        """Tell of a row that the database does not have."""
        with self.lock:
            self.insert(number)
            self.delete(number, silent=True)

    def _rows(self, numbers: Any) -> list[dict[str, Any]]:
        names = ", ".join(
            f"`{name}` * 1e0 AS `{name}`" if declared == "float" else f"`{name}`"
            for name, declared in self.columns.items()
        )
        listed = ", ".join(map(str, numbers))
        rows = self._execute(f"SELECT {names} FROM typed WHERE id IN ({listed}) ORDER BY id")
        return [dict(zip(self.columns, row, strict=True)) for row in rows]

    def _tell(
        self, kind: str, numbers: Any, silent: bool, rows: list[dict[str, Any]] | None = None
    ) -> None:
        found = self._rows(numbers) if rows is None else rows
        ((millis,),) = self._execute("SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000)")
        self.session.commit()
        if silent:
            return
        data = [
            {
                name: None if value is None else self.printed.get(name, str)(value)
                for name, value in row.items()
            }
            for row in found
        ]
        message = {
            "data": data,
            "database": "waybill",
            "es": int(millis),
            "id": 1,
            "isDdl": False,
            "mysqlType": self.columns,
            "old": [{} for _ in data] if kind == "UPDATE" else None,
            "pkNames": ["id"],
            "sql": "",
            "sqlType": {},
            "table": "typed",
            "ts": int(millis),
            "type": kind,
        }
        self._lines.append(json.dumps(message))

    def flush(self) -> None:
        """Put what was said since into the topic, which has one partition."""
        with self.lock:
            lines, self._lines = self._lines, []
            if not lines:
                return
            payloads = [
                json.dumps({"topic": "shop", "partition": 0, "offset": offset, "payload": line})
                for offset, line in enumerate(lines, start=self._offset)
            ]
            self._offset += len(payloads)
            hidden = self.folder / f".{self._offset:08d}"
            hidden.write_text("\n".join(payloads) + "\n", encoding="utf-8")
            hidden.rename(self.folder / f"{self._offset:08d}.jsonl")

    def beat(self, number: int) -> None:
        """A change of another row, so that the topic brings something newer."""
        time.sleep(0.01)
        self.insert(number)

    def close(self) -> None:
        self.session.close()


class MariaDBFeed(BinlogFeed):
    """The database is a MariaDB, whose JSON is a text."""


class MySQLFeed(BinlogFeed):
    """The database is a MySQL, which has no widths of integers, and a JSON of its own."""

    columns = COLUMNS | {
        "id": "bigint",
        "big": "bigint unsigned",
        "born": "year",
        "doc": "json",
        "unseen": "int",
        "twice": "bigint",
    }
    printed = PRINTED | {"doc": lambda text: json.dumps(json.loads(text), sort_keys=True)}
