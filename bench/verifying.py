"""Verifying a large table against its database: time, memory, and what the database has of it.

`python -m bench.verifying '{"server": "mariadb", "rows": 5000000}'` starts a MariaDB (or
`postgres`, or `mysql` where this machine has one) on this machine, fills a table there, puts the
same rows into a lake, and verifies them by every method. It prints one JSON object: for each,
seconds, processor seconds of the verification and of the server, peak memory by process, and how
many rows the server read in its busiest second, where it tells that (MariaDB, MySQL).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from bench.cpu import cpu_seconds, keep_ended_processes
from bench.memory import PeakByProcess
from bench.merging import SHAPES, changes, merged, put
from bench.sampler import Sampler
from stack.binlog_server import BinlogServer
from stack.mariadb import MariaDBServer
from stack.mysql import MySQLServer
from stack.postgres import PostgresServer
from waybill_airflow.free_ports import LOOPBACK

if TYPE_CHECKING:
    from stack.databases import DatabaseServer
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.spec.verification import Method

ROWS, CHANGED = 5_000_000, 20_000
UNLIMITED = 10**9
COLUMNS = SHAPES["plain"]

BINLOG_ROW = (
    "SELECT n, concat(n, '.', lpad(n % 100, 2, '0')), '2026-01-02 03:04:05.678901', "
    "concat('text 0 of ', n), concat('text 1 of ', n)"
)
MARIADB = {
    "database": "CREATE DATABASE bench",
    "table": (
        "CREATE TABLE bench.`rows` (c0 bigint PRIMARY KEY, c1 decimal(18,2), c2 datetime(6), "
        "c3 varchar(40), c4 varchar(40))"
    ),
    "rows": (
        f"INSERT INTO bench.`rows` {BINLOG_ROW} "
        "FROM (SELECT seq AS n FROM bench.seq_0_to_{last}) numbers"
    ),
    "changes": (
        "UPDATE bench.`rows` SET c1 = concat(c0 + {rows}, '.', lpad((c0 + {rows}) % 100, 2, '0')), "
        "c3 = concat('text 0 of ', c0 + {rows}), c4 = concat('text 1 of ', c0 + {rows}) "
        "WHERE c0 < {changed}"
    ),
}
MYSQL = MARIADB | {
    "rows": (
        "INSERT /*+ SET_VAR(cte_max_recursion_depth = 4294967295) */ INTO bench.`rows` "
        "WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers "
        f"WHERE n < {{last}}) {BINLOG_ROW} FROM numbers"
    ),
}
POSTGRES = {
    "table": (
        'CREATE TABLE "rows" (c0 bigint PRIMARY KEY, c1 decimal(18,2), c2 timestamp(6), '
        "c3 varchar(40), c4 varchar(40))"
    ),
    "rows": (
        "INSERT INTO \"rows\" SELECT n, (n || '.' || lpad((n % 100)::text, 2, '0'))::numeric, "
        "timestamp '2026-01-02 03:04:05.678901', 'text 0 of ' || n, 'text 1 of ' || n "
        "FROM generate_series(0, {last}) n"
    ),
    "changes": (
        "UPDATE \"rows\" SET c1 = (c0 + {rows} || '.' || lpad(((c0 + {rows}) % 100)::text, 2, "
        "'0'))::numeric, c3 = 'text 0 of ' || c0 + {rows}, c4 = 'text 1 of ' || c0 + {rows} "
        "WHERE c0 < {changed}"
    ),
}

SERVERS: dict[str, tuple[type[DatabaseServer], dict[str, str]]] = {
    "mariadb": (MariaDBServer, MARIADB),
    "mysql": (MySQLServer, MYSQL),
    "postgres": (PostgresServer, POSTGRES),
}
"""The servers that can be measured, and the statements that fill them."""


class Source:
    """A database of this machine, filled by its own means.

    Args:
        server: a running server.
        texts: its statements, by name.
        figures: how many rows the table has, and how many of them change.
    """

    def __init__(self, server: DatabaseServer, texts: dict[str, str], **figures: int) -> None:
        self._server = server
        self._counts = isinstance(server, BinlogServer)
        self._texts = texts
        self._figures = figures
        self._session = self._open()

    def _open(self) -> Any:
        to = {"host": LOOPBACK, "port": self._server.port, "user": self._server.user}
        if self._counts:
            import pymysql

            return pymysql.connect(**to, password=self._server.password, autocommit=True)
        import psycopg

        login = {"password": self._server.password, "dbname": self._server.database}
        return psycopg.connect(**to, **login, autocommit=True)

    @property
    def pid(self) -> int:
        """Number of the server's process."""
        return int(self._server.pid)

    def run(self, *names: str) -> None:
        """Run the statements of these names, as far as this kind of server has them."""
        with self._session.cursor() as cursor:
            for name in names:
                if name in self._texts:
                    cursor.execute(self._texts[name].format(**self._figures))

    def rows_read(self) -> tuple[int, float] | None:
        """How many rows the server has read since its start, and its clock; None where it does not
        tell."""
        if not self._counts:
            return None
        with self._session.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Handler\\_read%\\_next'")
            rows = sum(int(number) for _, number in cursor.fetchall())
            cursor.execute("SELECT unix_timestamp(sysdate(6))")
            ((clock,),) = cursor.fetchall()
            return rows, float(clock)

    def seconds(self) -> float:
        """Processor seconds of the server and its children."""
        server = psutil.Process(self._server.pid)
        times = [p.cpu_times() for p in (server, *server.children())]
        # Sessions of PostgreSQL are processes, whose time their parent has once they have ended.
        own = times[0].children_user + times[0].children_system
        return own + sum(t.user + t.system for t in times)


class Busiest(Sampler):
    """The most rows that a source read in a second, sampled."""

    def __init__(self, source: Source) -> None:
        super().__init__(1.0)
        self._source = source
        self._before: tuple[int, float] | None = None
        self.rows = 0.0

    def __enter__(self) -> Self:
        self._before = self._source.rows_read()
        return super().__enter__()

    def sample(self) -> None:
        """See `Sampler`; a source that does not count its rows is left alone."""
        before = self._before
        if before is None:
            return
        now = self._source.rows_read()
        assert now is not None, "it told before"
        self.rows = max(self.rows, (now[0] - before[0]) / (now[1] - before[1]))
        self._before = now


def spec_of(scratch: Path, rows_per_second: int) -> Migration:
    """A migration whose lake stands in `scratch`, and that reads so many rows a second."""
    from waybill.spec.migration import Migration

    return Migration.model_validate(
        {
            "name": "bench",
            "source": {"files": {"path": "nowhere"}, "envelope": "canal"},
            "lake": {"warehouse": str(scratch / "lake")},
            "verify": {"database": "source", "rows_per_second": rows_per_second},
            "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
        }
    )


def fill(lake: Lake, spec: Migration, batch: str, first: int, rows: int) -> None:
    """Merge a batch of rows, whose numbers in the texts begin with `first`."""
    from pyspark.sql import functions as F

    numbers = lake.spark.range(0, rows, 1, 8)
    new = numbers.select("id", (F.col("id") + first).alias("n"), F.lit(False).alias("gone"))
    order = 2 * 10**9 if first else 10**9
    put(lake, batch, COLUMNS, changes(lake.spark, COLUMNS, new, order, batch))
    merged(lake, spec, batch)


def measured(verify: Callable[[], Any], source: Source) -> dict[str, Any]:
    """Figures of one verification, which must find nothing."""
    busy, used, start = source.seconds(), cpu_seconds(), time.monotonic()
    with PeakByProcess(apart=source.pid) as memory, Busiest(source) as busiest:
        result, *numbers = verify()
    seconds = time.monotonic() - start
    busy, used = source.seconds() - busy, cpu_seconds() - used
    assert all((one.differing, one.undecided) == (0, 0) for one in (result, *numbers)), result
    found = {
        "method": result.method,
        "seconds": round(seconds, 1),
        "read": result.in_database,
        "processor": round(used - busy, 1),
        "server's processor": round(busy, 1),
        "peak_mb": {name: round(peak) for name, peak in memory.peaks.items()},
    }
    return {**found, "busiest second": round(busiest.rows)} if busiest.rows else found


def verified(
    source: Source, rows: int, changed: int, limits: list[int], scratch: Path
) -> dict[str, Any]:
    """Every method, one after the other, in one session."""
    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.verify.run import VerifyRequest, run_verify

    spec = spec_of(scratch, UNLIMITED)
    start = time.monotonic()
    source.run("database", "table", "rows")
    found: dict[str, Any] = {"rows": rows, "database": round(time.monotonic() - start)}
    spark = start_session(spec, "bench")
    lake = Lake.open(spark, spec)

    def verify(spec: Migration, method: Method) -> Any:
        return run_verify(spec, lake, VerifyRequest(method=method))

    start = time.monotonic()
    fill(lake, spec, "b1", 0, rows)
    found["lake"] = round(time.monotonic() - start)
    found["counts"] = measured(lambda: verify(spec, "counts"), source)
    for limit in (UNLIMITED, *limits):
        slow = spec_of(scratch, limit)
        name = "full" if limit == UNLIMITED else f"full, {limit} rows a second"
        found[name] = measured(partial(verify, slow, "full"), source)
    source.run("changes")
    fill(lake, spec, "b2", rows, changed)
    found["changed"] = measured(lambda: verify(spec, "changed"), source)
    spark.stop()
    return found


def main(argument: str) -> None:
    """Run the measure and print its figures; `argument` is JSON."""
    keep_ended_processes()
    given = json.loads(argument)
    rows, changed = given.get("rows", ROWS), given.get("changed", CHANGED)
    kind = given.get("server", "mariadb")
    made, texts = SERVERS[kind]
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, made() as server:
        source = Source(server, texts, rows=rows, last=rows - 1, changed=changed)
        to = {"host": LOOPBACK, "port": server.port, **server.connection()}
        schema = {"schema": server.database} if kind == "postgres" else {}
        os.environ["AIRFLOW_CONN_SOURCE"] = json.dumps({**to, **schema})
        figures = verified(source, rows, changed, given.get("limits", [50_000]), Path(folder))
    sys.stdout.write(json.dumps({"server": kind, **figures}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
