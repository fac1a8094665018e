"""What the pages in Airflow take with many migrations of many batches, page by page.

`python -m bench.pages '{"migrations": 200, "batches": 1000, "store": "files"}'` makes the files
that stages leave, fills Airflow's database with the runs, starts Airflow's web application in this
process with the plugin mounted, and asks for every page with a login. It prints one JSON object:
the 95th percentile and the median of each page in milliseconds, the median of the processor's, and
the page's size. With
`"store": "s3"` lakes are in an S3 server on the loopback address, and the catalog of the one whose
tables are read is in a PostgreSQL. What is filled in there goes through both servers, so that it
takes some minutes.
"""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from rich.table import Table

from bench.filled_lake import CHANGES, KEYS, Place, beside, filled_lake
from waybill.report import STAGES

if TYPE_CHECKING:
    from waybill.overview.schema import BatchAccount, Index
    from waybill.spec.migration import Migration

PROJECT = Path(__file__).resolve().parent.parent
MIGRATIONS, BATCHES, ASKED, FEW, WARM = 200, 1000, 100, 20, 3
WITH_ACCOUNTS = 5
"""So many migrations have the files of every batch and their tasks; the others have their index and
their runs. Pages of batches are asked of these."""

STORES = ("files", "s3")
"""Where lakes are: on a disk, or in object storage."""

TABLES = 20
GOAL = 300
"""Milliseconds; for all pages but `ROWS`, which wait for the lake."""

ROWS = ("refused messages", "a refused message", "a row")
"""Pages that read tables of a lake of as many batches. They are asked for `FEW` times, and so is
`LATER`."""

LATER = "migrations, a minute later"
"""The list where what it knows of lakes is old."""

FILE = """\
name: {name}
description: A migration of the benchmark.
schedule: "@hourly"
source: {{files: {{path: in/{name}, topic: shop}}, envelope: oms-default}}
publish:
  - {{envelope: canal, files: {{path: out/{name}}}}}
lake: {{warehouse: "{warehouse}"}}
"""

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "a secret of the benchmark, which signs its only login and nothing else"


def name_of(number: int) -> str:
    """Of a migration."""
    return f"migration_{number:03d}"


def run_of(number: int) -> datetime:
    """When a batch began."""
    return START + timedelta(hours=number)


def run_id(number: int) -> str:
    """Of a run, as Airflow names one that it has scheduled."""
    return f"scheduled__{run_of(number).isoformat()}"


def batch_of(name: str, number: int) -> str:
    """The batch of a run, as the DAG names it."""
    from waybill_airflow.params import batch_of as named

    run = SimpleNamespace(dag_id=name, run_id=run_id(number), run_after=run_of(number))
    return named(run)


def account(name: str, number: int, drawn: random.Random) -> BatchAccount:
    """The account of a batch that went through."""
    from waybill.overview.schema import (
        DONE,
        PUBLISHED,
        VERSION,
        BatchAccount,
        GateVerdict,
        StageAccount,
        TableAccount,
        TargetAccount,
    )

    rows, refused = drawn.randrange(30_000, 60_000), drawn.randrange(3)
    began = int(run_of(number).timestamp() * 1000)
    stages = [
        StageAccount(
            stage,
            DONE,
            time=began + at * 60_000,
            seconds=round(drawn.uniform(5, 90), 1),
            rows_in=rows,
            rows_out=rows - refused,
            refused={"json": refused} if refused and stage == "convert" else {},
            file="0123456789abcdef",
        )
        for at, stage in enumerate(STAGES)
    ]
    tables = [
        TableAccount(
            f"shop.table_{at:02d}", {"insert": 9, "update": 7}, 16, 16, complete=str(run_of(number))
        )
        for at in range(TABLES)
    ]
    limits = {"refused_share": [0.0, 0.05], "messages_off": [1.2, 6.0], "messages": [rows, 1, 9e4]}
    return BatchAccount(
        VERSION,
        name,
        batch_of(name, number),
        PUBLISHED,
        stages,
        [TargetAccount("canal", rows, rows, places=["out/manifest.json"])],
        tables,
        GateVerdict("passed", checked=24, limits=limits),
    )


def index_of(name: str, accounts: list[BatchAccount]) -> Index:
    """The index of a migration whose last batches these are, oldest first."""
    from waybill.overview.commits import LAST
    from waybill.overview.schema import (
        VERSION,
        BatchLine,
        EndpointPlace,
        Index,
        StageWaiting,
        TableLine,
    )

    lines = [
        BatchLine(
            one.batch,
            "0123456789abcdef",
            one.state,
            one.stages[0].time or 0,
            one.stages[-1].time or 0,
            one.stages[0].rows_in,
            one.stages[-1].rows_out,
            sum(one.stages[1].refused.values()),
            [stage.seconds for stage in one.stages],
            "passed",
            one.verdict.limits if one.verdict is not None else {},
            "0123456789abcdef",
        )
        for one in accounts[-LAST:]
    ]
    return Index(
        VERSION,
        name,
        int(time.time() * 1000),
        EndpointPlace("oms-default", "oms-default", "in"),
        [EndpointPlace("canal", "canal", "out")],
        lines[::-1],
        [StageWaiting(stage, 0, 0) for stage in STAGES[1:]],
        archived=1,
        tables=[
            TableLine(table.table, 100_000, accounts[-1].batch, table.operations)
            for table in accounts[-1].tables
        ],
    )


def fill_lake(spec: Migration, number: int, batches: int) -> None:
    """What stages have left of a migration."""
    from waybill.overview.files import ACCOUNT, INDEX, SOURCE, reports
    from waybill.overview.schema import VERSION, SourceLook, encoded
    from waybill.storage.file_store import file_name, open_store

    drawn = random.Random(number)
    kept = range(batches) if number < WITH_ACCOUNTS else range(max(0, batches - 200), batches)
    accounts = [account(spec.name, at, drawn) for at in kept]
    store = open_store(reports(spec))
    look = SourceLook(VERSION, spec.name, int(time.time() * 1000), "files", 3, archive=1)
    for name, content in ((INDEX, index_of(spec.name, accounts)), (SOURCE, look)):
        with store.write(name) as stream:
            stream.write(encoded(content))
    if number >= WITH_ACCOUNTS:
        return
    for one in accounts:
        folder = open_store(f"{reports(spec)}/{file_name(one.batch)}")
        with folder.write(ACCOUNT) as stream:
            stream.write(encoded(one))
    open_store(f"{reports(spec)}/_files").create("0123456789abcdef.txt", b"name: shop\n" * 60)
    _gate(spec, accounts[-1].batch)


def _gate(spec: Migration, batch: str) -> None:
    """A gate's report with its trend."""
    from waybill.validate.measured import Earlier, Point, Trend
    from waybill.validate.result import Checked, GateResult
    from waybill.validate.results import keep

    rules = [
        Checked(
            *("changes", "changes", "expect_column_values_to_be_between"),
            {"column": f"figure_{at}", "max_value": 9},
            *("critical", f"Figure {at} is not above nine.", "waybill status FILE", True, []),
        )
        for at in range(30)
    ]
    rows = [
        {"topic": f"shop {at}", **{f"figure_{column}": at for column in range(30)}}
        for at in range(8)
    ]
    profiles = {"changes": rows}
    result = GateResult(spec.name, batch, "2026-01-02T03:04:05+00:00", rules, profiles)
    earlier = [
        Earlier(batch_of(spec.name, at), "passed", "2026-01-02T03:04:05+00:00") for at in range(30)
    ]
    keep(spec, result, Trend(earlier, [[Point(float(at % 7), True) for at in range(30)]] * 30))


def fill_airflow(migrations: int, batches: int) -> None:
    """Airflow's database: a DAG for each migration, a run for each batch, tasks of some."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    names = [name_of(number) for number in range(migrations)]
    with create_session() as session:
        if session.get(DagBundleModel, "bench") is None:
            session.add(DagBundleModel(name="bench"))
            session.flush()
        for name in names:
            session.add(DagModel(dag_id=name, bundle_name="bench", is_paused=False))
        session.flush()
        for name in names:
            runs = [
                {
                    "dag_id": name,
                    "run_id": run_id(at),
                    "logical_date": run_of(at),
                    "run_after": run_of(at),
                    "run_type": "scheduled",
                    "state": "success",
                    "conf": {},
                    # Else one is looked up for each.
                    "log_template_id": None,
                }
                for at in range(batches)
            ]
            session.execute(insert(DagRun.__table__), runs)
        _fill_tasks(session, insert, TaskInstance, names[:WITH_ACCOUNTS], batches)


def _fill_tasks(session: Any, insert: Any, kind: Any, names: list[str], batches: int) -> None:
    from airflow.models.dag_version import DagVersion

    columns = {column.name for column in kind.__table__.columns}
    for name in names:
        version = DagVersion(dag_id=name, version_number=1, bundle_name="bench")
        session.add(version)
        session.flush()
        rows = [
            {
                "dag_id": name,
                "task_id": stage,
                "run_id": run_id(at),
                "map_index": -1,
                "pool": "default_pool",
                "state": "success",
                "dag_version_id": version.id,
            }
            for at in range(batches)
            for stage in STAGES
        ]
        assert rows[0].keys() <= columns, "what is filled in is there"
        session.execute(insert(kind.__table__), rows)


@contextmanager
def stored(kind: str, scratch: Path) -> Iterator[tuple[str, Place]]:
    """Where lakes are: the URL or path of a folder, and the place of the one with tables."""
    if kind == "files":
        yield str(scratch / "lake"), beside(scratch / "rows")
        return
    from stack.postgres import PostgresServer
    from stack.s3 import S3Server

    with S3Server(scratch / "s3") as server, PostgresServer() as database:
        (server.folder / "objects" / "lakes").mkdir()
        os.environ["AIRFLOW_CONN_STORE"] = json.dumps(server.connection())
        os.environ["AIRFLOW_CONN_LAKE_CATALOG"] = json.dumps(database.connection())
        named = {"type": "jdbc", "uri": database.uri, "connection": "lake_catalog"}
        lake = {"warehouse": "s3://store@lakes/rows", "catalog": named}
        address = urlsplit(database.uri.removeprefix("jdbc:"))
        login = f"{database.user}:{quote(database.password, safe='')}@{address.netloc}"
        catalog = {
            "uri": f"postgresql+psycopg://{login}{address.path}",
            "warehouse": "s3://lakes/rows",
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": server.key_id,
            "s3.secret-access-key": server.secret,
            "s3.region": "us-east-1",
        }
        yield "s3://store@lakes/lake", Place(lake, catalog)


def measured(folder: Path, migrations: int, batches: int, store: str) -> dict[str, Any]:
    """Figures of every page."""
    files = folder / "migrations"
    files.mkdir()
    os.environ |= {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API_AUTH__JWT_SECRET": SECRET,
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "WAYBILL_MIGRATIONS": str(files),
    }
    (folder / "dags").mkdir()
    started = time.monotonic()
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, check=True, capture_output=True)
    with stored(store, folder) as (warehouse, with_tables):
        _fill(files, warehouse, migrations, batches)
        filled_lake(files, batches, with_tables)
        filled = round(time.monotonic() - started)
        pages = _asked(migrations, batches, store)
    settings = {"migrations": migrations, "batches": batches, "store": store, "filled": filled}
    return {**settings, "goal": GOAL, "pages": pages}


def _fill(files: Path, warehouse: str, migrations: int, batches: int) -> None:
    from waybill.spec.file import load_migration
    from waybill_airflow.lake_access import in_lake_of

    for number in range(migrations):
        name = name_of(number)
        file = files / f"{name}.yaml"
        file.write_text(FILE.format(name=name, warehouse=warehouse))
        in_lake_of(load_migration(file), lambda spec, at=number: fill_lake(spec, at, batches))
    fill_airflow(migrations, batches)


def _asked(migrations: int, batches: int, store: str) -> dict[str, dict[str, float]]:
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    logging.disable(logging.WARNING)
    drawn = random.Random(7)
    few = min(WITH_ACCOUNTS, migrations)

    def one() -> str:
        return name_of(drawn.randrange(few))

    def batch() -> int:
        return drawn.randrange(max(0, batches - 200), batches)

    def about_batch(name: str, number: int) -> str:
        return f"batches/{name}/{batch_of(name, number)}"

    def report(name: str) -> str:
        return f"gate/{name}/{batch_of(name, batches - 1)}"

    paths: dict[str, Callable[[], str]] = {
        "migrations": lambda: "migrations",
        LATER: _a_minute_later,
        "a migration": lambda: f"dags/{name_of(drawn.randrange(migrations))}",
        "a batch": lambda: about_batch(one(), batch()),
        "a batch, by its run": lambda: f"runs/{one()}/{quote(run_id(batch()))}",
        "a gate report": lambda: report(one()),
        "envelopes": lambda: "formats?source=canal&target=debezium-json",
        "refused messages": lambda: "quarantine/shop",
        "a refused message": lambda: (
            f"quarantine/shop/message?topic=shop&partition=0&offset={CHANGES * 7 + 7}"
        ),
        "a row": lambda: f"rows/shop?table=shop.orders&key={drawn.randrange(KEYS)}",
    }
    if store == "files":
        # A disk is looked at for every page.
        del paths[LATER]
    with TestClient(create_app(apps="core")) as client:
        answer = client.get("/auth/token")
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        found = {}
        for title, path in paths.items():
            found[title] = _times(client, path, FEW if title in (*ROWS, LATER) else ASKED)
            sys.stderr.write(f"{title}: {found[title]}\n")
        return found


def _a_minute_later() -> str:
    """The list, of whose lakes in object storage all were asked a minute ago."""
    from waybill_airflow.web import lake_outlines

    while not lake_outlines._behind.is_idle:
        time.sleep(0.01)
    for folder, (asked, said) in list(lake_outlines._away.items()):
        lake_outlines._away[folder] = asked - 60, said
    return "migrations"


def _times(client: Any, path: Callable[[], str], count: int) -> dict[str, float]:
    """Milliseconds from the question to the whole answer, and those of the processor."""
    times, used = [], []
    for at in range(WARM + count):
        asked = f"/waybill/{path()}"
        start, before = time.perf_counter(), time.process_time()
        answer = client.get(asked)
        if at >= WARM:
            times.append(1000 * (time.perf_counter() - start))
            used.append(1000 * (time.process_time() - before))
        if answer.status_code != 200:
            message = f"{asked} answers {answer.status_code}: {answer.text[-500:]}"
            raise RuntimeError(message)
    times.sort()
    worst = times[int(0.95 * len(times))]
    return {
        "p95": round(worst, 1),
        "median": round(median(times), 1),
        "cpu": round(median(used), 1),
        "kib": round(len(answer.content) / 1024),
    }


def table_of(found: list[dict[str, Any]]) -> Table:
    """The figures of several stores beside each other."""
    lake_of = found[0] if found else {"migrations": MIGRATIONS, "batches": BATCHES}
    title = f"Pages of {lake_of['migrations']} migrations of {lake_of['batches']:,} batches"
    table = Table(title=f"{title}, milliseconds (goal {GOAL})")
    table.add_column("page")
    for one in found:
        for name in ("95th percentile", "median", "processor"):
            table.add_column(f"{one['store']}: {name}", justify="right")
    table.add_column("KiB", justify="right")
    for page in dict.fromkeys(page for one in found for page in one["pages"]):
        known = [one["pages"].get(page) for one in found]
        cells = [
            "" if figures is None else f"{figures[name]:.0f}"
            for figures in known
            for name in ("p95", "median", "cpu")
        ]
        size = next(figures["kib"] for figures in known if figures is not None)
        table.add_row(page, *cells, f"{size:.0f}")
    return table


def main(document: str) -> None:
    """Run the measure and print its figures."""
    given = json.loads(document)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as scratch:
        figures = measured(
            Path(scratch),
            given.get("migrations", MIGRATIONS),
            given.get("batches", BATCHES),
            given.get("store", "files"),
        )
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
