"""The walk through in the docs, as it stands there: against the MariaDB that made the stream.

Its commands run in one process, so that they share a Spark; everything else is what `make stack
EXAMPLE=branches` starts.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from stack import branches
from stack.branches import PAGE, RECORDED, Branches, week
from stack.dag_runs import run_dag
from stack.page import Done, steps_of, take
from stack.server import ServerError
from waybill import cli
from waybill.lake import Lake
from waybill.lake.session import start_session
from waybill.spec.file import load_migration
from waybill_airflow.free_ports import free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.airflow,
    pytest.mark.databases,
    pytest.mark.spark,
    pytest.mark.timeout(1500),
]

MIGRATION = "migrations/branches.yaml"
STATEMENT = "UPDATE shop_1.customers SET name = '{}' WHERE id = 1"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Branches]:
    with Branches(tmp_path_factory.mktemp("branches"), free_port(), print) as example:
        before = dict(os.environ)
        os.environ.update(example.environment, COLUMNS="200")
        yield example
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def spark(example: Branches) -> Iterator[Any]:
    session = start_session(name="tests")
    # Commands end the session that they are given.
    end, session.stop = session.stop, lambda: None
    yield session
    session.stop = end
    session.stop()


def here(command: str, folder: Path) -> Done:
    """Run a command of the page in this process."""
    program, *words = shlex.split(command)
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        if program != "waybill":
            return Done(branches.main([str(folder), program, *words]), printed.getvalue())
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
    return Done(int(ended.value.code or 0), printed.getvalue())


@pytest.fixture(scope="module")
def told(example: Branches, spark: Any) -> dict[str, str]:
    """What the commands of the page printed, all that are in a block together."""
    before = Path.cwd()
    os.chdir(example.folder)
    try:
        return {step.text: take(step, example.folder, print, here) for step in steps_of(PAGE)}
    finally:
        os.chdir(before)


def block(told: dict[str, str], start: str) -> str:
    """What the only block printed that begins so."""
    (found,) = (printed for text, printed in told.items() if text.startswith(start))
    return found


def rows_of(spark: Any, example: Branches, table: str) -> list[Any]:
    lake = Lake.open(spark, load_migration(example.folder / MIGRATION))
    return list(lake.read(lake.merged_tables()[table]).where("NOT _waybill_deleted").collect())


def published(example: Branches, target: str) -> list[list[dict[str, Any]]]:
    """The messages of a target, batch by batch; what it began with is one before all others."""
    found = []
    folders = (example.folder / "out" / target).iterdir()
    for folder in sorted(folders, key=lambda path: ("bootstrap" not in path.name, path.name)):
        lines = [
            line
            for part in sorted(folder.glob("part-*"))
            for line in part.read_bytes().split(b"\n")
        ]
        found.append([json.loads(line) for line in lines if line])
    return found


def test_the_tables_are_those_of_the_database(told, example, spark):
    orders = {
        (row.branch, row.id): str(row.total) for row in rows_of(spark, example, "shop.orders")
    }
    assert orders == {
        ("shop_1.orders_1", 1): "12.0000",
        ("shop_1.orders_1", 2): "99.9900",
        ("shop_1.orders_1", 3): "12345678901.2345",
        ("shop_2.orders_2", 3): "8.0025",
    }
    customers = {row.id: row for row in rows_of(spark, example, "shop.customers")}
    assert {number: row.name for number, row in customers.items()} == {
        1: "Anna",
        2: "Benjamin",
        3: "Chloé",
        4: "Dai",
    }
    assert customers[1].email == hashlib.sha256(b"anna@example.org").hexdigest()
    assert customers[3].email is None


def test_what_the_page_says_is_printed(told):
    assert "debezium-json" in block(told, "waybill init")
    assert "shop_1.orders_1 becomes shop.orders" in block(told, "waybill check")
    first = block(told, "waybill run")
    assert "not selected" in first
    assert "12.00" in first
    assert "none differs" in first
    assert "not compared" not in first
    waits = block(told, "week 3")
    assert "retype: rewrite" in waits
    assert "decimal(15,4)" in waits
    # Without the row that was overwritten.
    assert re.search(r"^ shop\.customers +4 ", waits, re.MULTILINE), waits
    assert "shop.orders of shop_2.orders_2" in waits


def test_verification_finds_what_nobody_told_and_nothing_else(told):
    assert "1 row not decided" in block(
        told, f'sql "SET sql_log_bin = 0" "{STATEMENT.format("Anne")}'
    )
    found = block(told, "waybill verify")
    assert "Anne" in found
    assert "none differs" in block(told, f'sql "SET sql_log_bin = 0" "{STATEMENT.format("Anna")}')


def test_both_consumers_get_what_belongs_to_them(told, example):
    first, second, third, *_ = published(example, "canal")
    assert {(m["database"], m["table"]) for m in first} == {
        ("shop", "orders"),
        ("shop", "customers"),
    }
    begun, *batches = published(example, "maxwell")
    assert [m["type"] for m in begun] == ["bootstrap-insert"] * 7
    assert [
        (m["type"], m["table"], m["data"]["id"], m["data"].get("branch")) for m in batches[0]
    ] == [
        ("delete", "orders", 2, "shop_2.orders_2"),
        ("update", "customers", 2, None),
        ("delete", "orders", 1, "shop_2.orders_2"),
        ("delete", "orders", 2, "shop_2.orders_2"),
        ("insert", "orders", 3, "shop_2.orders_2"),
    ]
    assert [len(batch) for batch in (second, third)] == [5, 3]
    assert [len(batch) for batch in batches[:2]] == [5, 3]
    for path in (example.folder / "out").rglob("part-*"):
        assert b"@example.org" not in path.read_bytes()


def test_airflow_verifies_with_the_same_connection(told, example):
    airflow = example.airflow
    airflow.wait_for({"branches", "branches_verify"}, 120)
    assert run_dag(airflow, "branches_verify", 420) == "success"


def test_the_shell_of_people_has_what_the_page_uses(example):
    assert (example.folder / "env").stat().st_mode & 0o077 == 0
    text = ". ./env; command -v waybill && week 9"
    done = subprocess.run(
        ["sh", "-c", text], cwd=example.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith("/waybill")
    assert done.stderr.startswith("the shop is in week ")


def test_weeks_come_in_their_order(example):
    with pytest.raises(ServerError, match="the shop is in week"):
        week(example.owner, example.folder, len([*RECORDED.glob("*.sql")]) + 1)
