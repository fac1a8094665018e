"""The demo: Airflow on this machine moves the example migrations, and shows what came of it.

    python -m waybill_airflow.demo [--once]

Starts Airflow's components on the loopback address, triggers every migration with the tag `demo`
through the REST API, shows each stage as it goes, and prints what was published. Stays up until
Ctrl-C; with `--once` it ends by itself, with status 0 only if every run succeeded, or asks a person
or fails as its migration says, and every count reconciles. However it ends, nothing is left
running. The state is in `.waybill/demo` and made again each time, so that there is always something
to move.

Of a migration that has the tag `demo-late` too, a further run is planned for tomorrow: Airflow has
one run of it at a time, so that those of its schedule do not begin. One with the tag `demo-by-hand`
is left for people to start, and one with `demo-fails` has to fail. A file that cannot be used is
reported and shown; `STOCK_ENVELOPE` is set so that there is one.

Environment: WAYBILL_PORT (8080) is the port of Airflow's web pages, WAYBILL_DEMO the folder of the
state, WAYBILL_MIGRATIONS the folder of the migrations.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

from waybill.errors import ConfigurationError, WaybillError
from waybill.report import StageReport, Waybill
from waybill_airflow import places
from waybill_airflow.demo_view import FAILS, Run, View
from waybill_airflow.local_airflow import USER, LocalAirflow, LocalAirflowError
from waybill_airflow.migration_files import read_migrations
from waybill_airflow.rest import RestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.spec.migration import Migration

PATIENCE = 180.0
"""Seconds that Airflow may take to come up."""
LONGEST = 1800.0
"""Seconds that the runs may take."""
_GLANCE = 1.0
"""Seconds between two looks at the runs."""

SHOWN, LATE, BY_HAND = "demo", "demo-late", "demo-by-hand"
"""Tags of migrations, see above."""

BROKEN = {"STOCK_ENVELOPE": "no such envelope"}
"""What the environment has so that a migration's file is broken."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Stopped(BaseException):
    """Somebody asked the demo to end."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="make demo", description="Show Waybill at work.")
    parser.add_argument("--once", action="store_true", help="end when the runs have ended")
    once = parser.parse_args(arguments).once
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    stop_on_signals()
    airflow: LocalAirflow | None = None
    try:
        home = Path(os.environ.get("WAYBILL_DEMO") or places.CHECKOUT / ".waybill" / "demo")
        airflow = LocalAirflow(home, port_of())
        os.environ |= {"WAYBILL_DEMO": str(airflow.home), **BROKEN}
        return _show(airflow, View(console), once)
    except WaybillError as error:
        console.print(f"waybill: {error}", style="red", markup=False, soft_wrap=True)
        return error.exit_code
    except Stopped:
        return 130
    finally:
        if airflow is not None:
            _end(airflow, console)


def stop_on_signals() -> None:
    """Make every way of asking this process to end raise `Stopped`."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def ignore_signals() -> None:
    """Let the end be reached, however often it is asked for."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(_number: int, _frame: object) -> NoReturn:
    raise Stopped


def _end(airflow: LocalAirflow, console: Console) -> None:
    ignore_signals()
    if airflow.running:
        console.print("\nEnding Airflow …", style="dim")
        airflow.stop()


def port_of() -> int:
    """The port of the web pages, from the environment.

    Raises:
        ConfigurationError: it is not a port number.
    """
    text = os.environ.get("WAYBILL_PORT") or "8080"
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        message = f"WAYBILL_PORT is {text!r}: set it to a port number, e.g. 8081"
        raise ConfigurationError(message)
    return int(text)


def _show(airflow: LocalAirflow, view: View, once: bool) -> int:
    migrations, by_hand = _migrations(view)
    view.says(f"State in {airflow.home}, logs in its folder logs")
    with view.waiting("Making Airflow's database"):
        airflow.start()
    with view.waiting("Starting Airflow"):
        dags = {spec.name for _, spec in migrations} | set(by_hand)
        airflow.wait_for(dags, PATIENCE, broken=True)
    view.where(airflow.url, USER, airflow.password)
    for name in by_hand:
        _unpause(airflow, name)
    runs = [_trigger(airflow, spec, file) for file, spec in migrations]
    with view.following(runs):
        _follow(airflow, runs, view)
    accounts = [_account(airflow, run, view) for run in runs]
    good = all(accounts)
    good = good and _samples(airflow, runs, view)
    view.verdict(good, runs)
    if once:
        return 0 if good else 1
    view.where(airflow.url, USER, airflow.password)
    view.says("Airflow stays up. Ctrl-C ends it.")
    try:
        while True:
            airflow.check()
            time.sleep(0.5)
    except Stopped:
        return 0 if good else 1


def _migrations(view: View) -> tuple[list[tuple[Path, Migration]], list[str]]:
    """The migrations to run, and the names of those that people start.

    Files that cannot be used are reported, and do not stop the others.

    Raises:
        ConfigurationError: there is none.
    """
    folder = places.migrations_folder()
    found, problems = read_migrations(folder)
    for problem in problems:
        view.says(f"left out: {problem}")
    shown = [(file, spec) for file, spec in found if SHOWN in spec.tags]
    if not shown:
        message = f"no migration in {folder} has the tag demo: give one `tags: [demo]`"
        raise ConfigurationError(message)
    return shown, [spec.name for _, spec in found if BY_HAND in spec.tags]


def _trigger(airflow: LocalAirflow, spec: Migration, file: Path) -> Run:
    if LATE in spec.tags:
        return Run(spec, file, _scheduled_once(airflow, spec.name))
    _unpause(airflow, spec.name)
    run_id = f"manual__{datetime.now(UTC).isoformat()}"
    body = {"logical_date": None, "dag_run_id": run_id}
    _patiently(airflow, lambda: airflow.client.post("dags", spec.name, "dagRuns", body=body))
    return Run(spec, file, run_id)


def _scheduled_once(airflow: LocalAirflow, name: str) -> str:
    """Let Airflow begin one run by its schedule, and none after it; the id of that run.

    Raises:
        LocalAirflowError: it does not begin.
    """
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    planned = {"logical_date": None, "run_after": tomorrow, "note": "Planned by the demo."}
    planned["dag_run_id"] = f"manual__{tomorrow}"
    _patiently(airflow, lambda: airflow.client.post("dags", name, "dagRuns", body=planned))
    _unpause(airflow, name)
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        airflow.check()
        runs = airflow.client.get("dags", name, "dagRuns")["dag_runs"]
        for run in runs:
            if run["run_type"] == "scheduled":
                return str(run["dag_run_id"])
        time.sleep(0.4)
    message = f"Airflow has begun no run of {name} by its schedule after {PATIENCE:.0f} seconds"
    raise LocalAirflowError(message)


def _unpause(airflow: LocalAirflow, name: str) -> None:
    body = {"is_paused": False}
    _patiently(airflow, lambda: airflow.client.patch("dags", name, body=body))


def _patiently(airflow: LocalAirflow, ask: Callable[[], Any]) -> None:
    """Ask again while Airflow's database is locked: SQLite lets one process write at a time.

    So also where the answer does not come in time, as a locked database lets it wait, too.

    Raises:
        RestError: it answers otherwise, or is locked all the time.
    """
    limit = time.monotonic() + PATIENCE
    again = False
    while True:
        try:
            ask()
        except RestError as error:
            if again and error.status == 409:
                return  # it had done what was asked, and could not say so
            if error.status not in (0, 500) or time.monotonic() > limit:
                raise
        else:
            return
        again = True
        airflow.check()
        time.sleep(0.5)


def _follow(airflow: LocalAirflow, runs: list[Run], view: View) -> None:
    """Look at the runs until all have ended, or wait for an answer."""
    limit = time.monotonic() + LONGEST
    while not all(run.ended for run in runs):
        if time.monotonic() > limit:
            message = f"the runs have not ended after {LONGEST / 60:.0f} minutes"
            raise LocalAirflowError(message)
        airflow.check()
        _look(airflow, [run for run in runs if not run.ended])
        view.update(runs)
        time.sleep(_GLANCE)


def _look(airflow: LocalAirflow, runs: list[Run]) -> None:
    """Take what Airflow says of the runs: with two questions, as each takes its server's time.

    They are reads: those that Airflow takes by POST are noted in its database, which may be locked.
    """
    places = {(run.dag_id, run.run_id): run for run in runs}
    # Before the tasks, so that those of a run that has ended are as they stay.
    states = airflow.client.listed("dags", "~", "dagRuns", entries="dag_runs")
    place = ("dags", "~", "dagRuns", "~", "taskInstances")
    for task in airflow.client.listed(*place, entries="task_instances"):
        run = places.get((task["dag_id"], task["dag_run_id"]))
        if run is None:
            continue
        run.take(task)
        if task["state"] == "success" and run.reports.get(task["task_id"]) is None:
            run.reports[task["task_id"]] = _report(airflow, run, task["task_id"])
    for answer in states:
        run = places.get((answer["dag_id"], answer["dag_run_id"]))
        if run is not None:
            run.state = answer["state"]


def _report(airflow: LocalAirflow, run: Run, stage: str) -> StageReport:
    place = ("dags", run.dag_id, "dagRuns", run.run_id, "taskInstances", stage)
    entry = airflow.client.get(*place, "xcomEntries", "return_value")
    return StageReport.from_dict(entry["value"])


def _account(airflow: LocalAirflow, run: Run, view: View) -> bool:
    """Print the waybill of a run; whether the run is as it should be."""
    reports = [report for report in run.reports.values() if report is not None]
    batch = reports[0].batch if reports else run.run_id
    view.waybill(Waybill(run.dag_id, batch, reports))
    if run.state != "success" and not run.asks:
        view.failure(run, airflow.home / "airflow" / "logs")
    if not (run.state == "success" or run.asks or run.fails):
        return False
    if FAILS in run.spec.tags and not run.fails:
        view.complaint(run, "it should fail, but did not")
        return False
    moved = run.reports.get("snapshot")
    if moved is None or moved.rows_out == 0:
        view.complaint(run, "no message was published")
        return False
    try:
        for report in reports:
            report.reconcile()
    except WaybillError as error:
        view.complaint(run, str(error))
        return False
    return True


def _samples(airflow: LocalAirflow, runs: list[Run], view: View) -> bool:
    """Print a few messages of every target and a few rows of a merged table; whether they exist."""
    for run in runs:
        for target in run.spec.publish:
            if target.files is not None:
                view.messages(run.dag_id, target.label, Path(target.files.path))
    with_tables = [run for run in runs if run.spec.tables]
    for run in with_tables[:1]:
        table = next(iter(run.spec.tables))
        output = airflow.home / "out" / "rows.jsonl"
        command = [sys.executable, "-m", "waybill.cli", "table", str(run.file), table]
        try:
            with view.waiting("Reading a merged table"):
                airflow.run("table", [*command, "--output", str(output), "--force"])
        except LocalAirflowError as error:
            airflow.check()
            view.complaint(run, str(error))
            return False
        view.rows(run.dag_id, table, output)
    return True


if __name__ == "__main__":
    sys.exit(main())
