"""Runs a migration in a process that kills itself, or waits, at a named point.

    disturbed_run.py SPEC BATCH [--kill POINT | --pause POINT FOLDER]

A point is `table:method:when`: the short name of a table (or `*`), a method of the list below, and
`before`, `during` (shortly after its beginning) or `after` its first call. The kill is a real
SIGKILL of the whole process group: Python, the JVM and Spark's workers.
"""

from __future__ import annotations

import argparse
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
from waybill.lake import Lake, commit, new_branches
from waybill.lake.catalog import Catalog

registry.MODULES["tiny"] = "tests.spark.tiny_envelope"

METHODS: dict[str, list[tuple[Any, str]]] = {
    "branch": [(new_branches, "start_branch")],
    "append": [(commit.Branch, name) for name in ("append", "append_made", "append_rows")],
    "overwrite": [(commit.Branch, "overwrite")],
    "delete": [(commit.Branch, "delete_partition")],
    "sql": [(commit.Branch, "sql")],
    "stamp": [(commit.Branch, "commit")],
    "files": [(Catalog, "append_files"), (Catalog, "replace_rows")],
    "move": [(Catalog, "move")],
    "mark": [(Lake, "mark_read")],
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
    done: list[bool] = []

    def with_act(honest: Any) -> Any:
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

        return disturbed

    for owner, name in METHODS[method]:
        setattr(owner, name, with_act(getattr(owner, name)))


def kill() -> None:
    os.killpg(0, signal.SIGKILL)


def pause(folder: Path) -> None:
    (folder / "reached").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("batch")
    parser.add_argument("--kill")
    parser.add_argument("--pause", nargs=2)
    given = parser.parse_args()
    logging.basicConfig(format="%(asctime)s waybill %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("waybill").setLevel(logging.INFO)
    if given.kill:
        disturb(given.kill, kill)
    if given.pause:
        disturb(given.pause[0], lambda: pause(Path(given.pause[1])))
    try:
        run_migration(given.spec, batch=given.batch)
    except WaybillError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
