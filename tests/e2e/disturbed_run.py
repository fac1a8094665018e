"""Runs a migration in a process that kills itself, or waits, at a named point.

    disturbed_run.py run SPEC BATCH [--kill POINT | --pause POINT FOLDER]
    disturbed_run.py show SPEC

A point is `table:method:when`: the short name of a table (or `*`), a method of the list below, and
`before`, `during` (shortly after its beginning) or `after` its first call. The kill is a real
SIGKILL of the whole process group: Python, the JVM and Spark's workers. `show` prints the lake as
JSON without what differs from run to run.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from waybill.envelopes import registry
from waybill.errors import WaybillError
from waybill.jobs import run_migration
from waybill.lake import Lake, commit
from waybill.lake.catalog import Catalog
from waybill.lake.session import start_session
from waybill.spec_file import load_migration

registry.MODULES["tiny"] = "tests.spark.tiny_envelope"

METHODS = {
    "branch": (commit, "start_branch"),
    "append": (commit.Branch, "append"),
    "overwrite": (commit.Branch, "overwrite"),
    "delete": (commit.Branch, "delete_partition"),
    "sql": (commit.Branch, "sql"),
    "stamp": (commit.Branch, "commit"),
    "move": (Catalog, "move"),
    "mark": (Lake, "mark_read"),
}


def table_of(args: tuple[Any, ...]) -> str:
    """The short name of the table that a call of one of the methods is about."""
    first = args[0]
    if isinstance(first, commit.Branch):
        return first.table.split(".")[-1]
    if isinstance(first, Catalog) and "." not in args[1]:
        return args[2]
    return args[1].split(".")[-1]


def disturb(point: str, act) -> None:
    """Call `act` at a point."""
    table, method, when = point.split(":")
    owner, name = METHODS[method]
    honest = getattr(owner, name)
    done = []

    def disturbed(*args: Any, **kwargs: Any) -> Any:
        if done or table not in ("*", table_of(args)):
            return honest(*args, **kwargs)
        done.append(True)
        if when == "before":
            act()
        if when == "during":
            threading.Timer(0.15, act).start()
        result = honest(*args, **kwargs)
        if when == "after":
            act()
        return result

    setattr(owner, name, disturbed)


def kill() -> None:
    os.killpg(0, signal.SIGKILL)


def pause(folder: Path) -> None:
    (folder / "reached").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)


VOLATILE = {"runs": {"time", "report", "result"}}


def show(path: str) -> dict[str, Any]:
    """Rows, stamps and branches of every table."""
    spec = load_migration(path)
    session = start_session(spec)
    lake = Lake.open(session, spec)
    shown: dict[str, Any] = {}
    for space, names in lake.tables().items():
        for name in names:
            table = f"lake.{space}.{name}"
            rows = lake.read(table)
            kept = [column for column in rows.columns if column not in VOLATILE.get(name, ())]
            shown[name] = {
                "rows": sorted(rows.select(kept).toJSON().collect()),
                "stamps": sorted(f"{c.stage} {c.batch}" for c in lake.commits(table)),
                "branches": [
                    b.name
                    for s in ("snapshot", "convert", "publish", "validate")
                    for b in lake.waiting(table, s)
                ],
            }
    session.stop()
    return shown


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("spec")
    parser.add_argument("batch", nargs="?")
    parser.add_argument("--kill")
    parser.add_argument("--kill-after", type=float)
    parser.add_argument("--pause", nargs=2)
    given = parser.parse_args()
    logging.basicConfig(format="%(asctime)s waybill %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("waybill").setLevel(logging.INFO)
    if given.what == "show":
        sys.stdout.write(json.dumps(show(given.spec)))
        return
    if given.kill:
        disturb(given.kill, kill)
    if given.kill_after:
        threading.Timer(given.kill_after, kill).start()
    if given.pause:
        disturb(given.pause[0], lambda: pause(Path(given.pause[1])))
    try:
        run_migration(given.spec, batch=given.batch)
    except WaybillError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
