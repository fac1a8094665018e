"""The examples of docs/verify.md do what the page says, against a real server."""

from __future__ import annotations

import io
import json
import shlex
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from stack.page import Step, steps_of
from waybill import cli, jobs

if TYPE_CHECKING:
    from stack.binlog_server import BinlogServer

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
FILE = """name: shop
source: {files: {path: ../in, layout: kcat}, envelope: canal}
lake: {warehouse: ../lake}
"""
MISTAKE = """map:
  - {tables: shop.orders, columns: {mask: {note: null}}}
"""


class Shop:
    """One table in a database, and the folder with Canal's messages about it."""

    def __init__(self, server: BinlogServer, folder: Path) -> None:
        self._folder = folder
        self._session = pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user=server.user,
            password=server.password,
            autocommit=True,
        )
        for statement in (
            "DROP DATABASE IF EXISTS shop",
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id bigint(20) PRIMARY KEY, note varchar(40))",
        ):
            self._run(statement)

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        with self._session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def insert(self, number: int) -> None:
        """A row, and a message about it that is newer than everything before."""
        time.sleep(0.01)
        self._run(f"INSERT INTO shop.orders VALUES ({number}, 'note {number}')")
        ((millis,),) = self._run("SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000)")
        message = {
            "data": [{"id": str(number), "note": f"note {number}"}],
            "database": "shop",
            "table": "orders",
            "type": "INSERT",
            "es": int(millis),
            "ts": int(millis),
            "id": number,
            "isDdl": False,
            "mysqlType": {"id": "bigint(20)", "note": "varchar(40)"},
            "sqlType": {},
            "pkNames": ["id"],
            "old": None,
            "sql": "",
        }
        line = {"topic": "shop", "partition": 0, "offset": number, "payload": json.dumps(message)}
        (self._folder / f"{number}.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def shop(server, tmp_path: Path, monkeypatch, spark) -> Iterator[Shop]:
    for name in ("in", "migrations"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    # Commands end the session that they are given.
    monkeypatch.setattr(spark, "stop", lambda: None)
    login = {"host": "127.0.0.1", "port": server.port, "schema": "shop", **server.connection()}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SOURCE", json.dumps(login))
    made = Shop(server, tmp_path / "in")
    yield made
    made.close()


def done(step: Step, batch: str = "") -> str:
    """Run the commands of a step; returns what they printed."""
    printed = io.StringIO()
    commands = step.text.replace("BATCH", batch).splitlines()
    for number, command in enumerate(commands, start=1):
        program, *words = shlex.split(command, comments=True)
        assert program == "waybill"
        with (
            redirect_stdout(printed),
            redirect_stderr(printed),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main(words)
        expected = step.exits if number == len(commands) else 0
        assert int(ended.value.code or 0) == expected, printed.getvalue()
    return printed.getvalue()


def test_the_page_does_what_it_says(shop: Shop, spark, tmp_path: Path):
    setting, first, finds = steps_of(PAGE)
    file = tmp_path / setting.file
    right = FILE + setting.text
    file.write_text(right, encoding="utf-8")
    for number in (1, 2):
        shop.insert(number)
    jobs.run_migration(file, batch="b1", spark=spark)
    found = done(first, "b1")
    assert found.count("2 rows in the database, 2 in the lake: none differs") == 3, found

    file.write_text(right + MISTAKE, encoding="utf-8")
    shop.insert(3)
    jobs.run_migration(file, batch="b2", spark=spark)
    file.write_text(right, encoding="utf-8")
    undecided = done(finds._replace(exits=0))
    assert "1 row not decided" in undecided
    shop.insert(4)
    jobs.run_migration(file, batch="b3", spark=spark)
    found = done(finds)
    assert "shop.orders id=3: differs" in found
    assert "'note 3' in the database" in found
    assert "insert of 20" in found, "the history stands beside it"
