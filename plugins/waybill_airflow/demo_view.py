"""What the demo shows: on a terminal with movement, in a pipe as plain lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from waybill.counting import counted
from waybill.made_ids import made_ids_lines
from waybill.report import STAGES, StageReport, Waybill
from waybill_airflow.links import MIGRATIONS

if TYPE_CHECKING:
    from rich.console import Console

    from waybill.spec.migration import Migration

ASKS = "awaiting_input"
"""The state of a task that waits for a person's answer, in Airflow's words."""

FAILS = "demo-fails"
"""The tag of migrations that are there to fail."""

_SIGNS = {
    "success": ("✓", "green"),
    "running": ("…", "cyan"),
    "failed": ("✗", "red"),
    "upstream_failed": ("-", "red"),
    "up_for_retry": ("again", "yellow"),
    "skipped": ("skipped", "magenta"),
    ASKS: ("asks", "magenta"),
}
_SHOWN_ROWS = 3
_SHOWN_MESSAGES = 2


@dataclass
class Run:
    """One run of one migration, as far as it is known."""

    spec: Migration
    file: Path
    run_id: str
    state: str = "queued"
    states: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    reports: dict[str, StageReport | None] = field(default_factory=dict)

    @property
    def dag_id(self) -> str:
        """The DAG's id."""
        return self.spec.name

    @property
    def asks(self) -> bool:
        """Whether it waits for a person, as its migration wants it to."""
        return self.spec.quality.on_failure == "ask" and ASKS in self.states.values()

    @property
    def fails(self) -> bool:
        """Whether it has failed, as its migration is there to show."""
        return FAILS in self.spec.tags and self.state == "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come by itself."""
        return self.state in ("success", "failed") or self.asks

    def take(self, task: dict[str, Any]) -> None:
        """Note what Airflow says about one stage."""
        stage = task["task_id"]
        self.states[stage] = task["state"] or "waiting"
        self.seconds[stage] = task["duration"] or 0.0
        self.tries[stage] = task["try_number"] or 1

    def cell(self, stage: str) -> Text:
        """The state of one stage in a few characters."""
        state = self.states.get(stage, "waiting")
        sign, style = _SIGNS.get(state, ("·", "dim"))
        report = self.reports.get(stage)
        took = f" {self.seconds[stage]:.0f} s" if self.seconds.get(stage) else ""
        rows = f" {counted(report.rows_out, 'row', style=',')}" if report else ""
        return Text(f"{sign}{rows}{took}", style=style)


class View:
    """Writes to one console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._reported: dict[tuple[str, str], str] = {}

    def says(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False, style="dim", soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show that something takes its time, and how long it took."""
        began = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(f"{text} …"):
                yield
        else:
            yield
        self.console.print(f"{text}: {time.monotonic() - began:.0f} s", markup=False)

    def where(self, url: str, user: str, password: str) -> None:
        """Where to look and how to log in."""
        self.console.print(
            f"\nMigrations: [bold]{url}{MIGRATIONS}[/bold]   user [bold]{user}[/bold]   "
            f"password [bold]{password}[/bold]\n"
        )

    @contextmanager
    def following(self, runs: list[Run]) -> Iterator[None]:
        """Keep a table of the stages up to date."""
        if not self.console.is_terminal:
            yield
            return
        with Live(_stages(runs), console=self.console, refresh_per_second=4) as self._live:
            yield
        self._live = None

    def update(self, runs: list[Run]) -> None:
        """Show what is new."""
        if self._live is not None:
            self._live.update(_stages(runs))
            return
        for run in runs:
            for stage in STAGES:
                state = run.states.get(stage, "waiting")
                if state in _SIGNS and self._reported.get((run.dag_id, stage)) != state:
                    self._reported[run.dag_id, stage] = state
                    line = f"{run.dag_id} {stage}: {state} {run.cell(stage).plain}"
                    self.console.print(line, markup=False)

    def waybill(self, waybill: Waybill) -> None:
        """The account of one batch."""
        title = f"Waybill of {waybill.migration}, batch {waybill.batch}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("stage")
        for name in ("in", "also in", "out", "refused", "superseded", "skipped", "waiting", "s"):
            table.add_column(name, justify="right")
        for report in waybill.stages:
            table.add_row(
                report.stage,
                f"{report.rows_in:,}",
                _counts(report.extra_in),
                f"{report.rows_out:,}",
                _counts(report.refused),
                f"{report.superseded:,}" if report.superseded else "",
                _counts(report.skipped),
                f"{report.waiting:,}" if report.waiting else "",
                f"{report.seconds:.1f}",
            )
        self.console.print(table)
        for report in waybill.stages:
            for target, lost in report.losses.items():
                named = ", ".join(f"{name} {count:,}" for name, count in lost.items() if count)
                if named:
                    self.console.print(f"  not carried by {target}: {named}", style="dim")
            for line in made_ids_lines(report):
                self.console.print(f"  {line}", style="dim", markup=False)

    def rows(self, dag_id: str, table: str, file: Path) -> None:
        """A few rows of a merged table."""
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        rows = counted(len(lines), "row", style=",")
        self.console.print(f"\n{dag_id}: table {table} has {rows}", markup=False)
        self._lines(lines[:_SHOWN_ROWS])

    def messages(self, dag_id: str, target: str, folder: Path) -> None:
        """A few messages of a published topic."""
        files = [path for path in sorted(folder.rglob("*.jsonl")) if path.is_file()]
        for path in files[:1]:
            with path.open(encoding="utf-8", newline="\n") as file:
                lines = [line.rstrip("\n") for line in islice(file, _SHOWN_MESSAGES)]
            self.console.print(
                f"\n{dag_id}: published as {target} in {path}", markup=False, soft_wrap=True
            )
            self._lines(lines)

    def _lines(self, lines: list[str]) -> None:
        width = max(60, self.console.width - 4)
        for line in lines:
            shown = "".join(sign if sign.isprintable() else " " for sign in line)
            text = shown if len(shown) <= width else shown[: width - 1] + "…"
            self.console.print(f"  {text}", markup=False, no_wrap=True, style="dim")

    def failure(self, run: Run, logs: Path) -> None:
        """Why a run failed, as its first failed stage says it."""
        text = f"the run is {run.state}"
        for stage in STAGES:
            if run.states.get(stage) == "failed":
                folder = logs / f"dag_id={run.dag_id}" / f"run_id={run.run_id}"
                log = folder / f"task_id={stage}" / f"attempt={run.tries[stage]}.log"
                text = f"{stage} failed: {_last_error(log)}; its log is {log}"
                break
        if run.fails:
            self.console.print(f"{run.dag_id}: {text}", markup=False, soft_wrap=True)
        else:
            self.complaint(run, text)

    def complaint(self, run: Run, text: str) -> None:
        """Something that is not as it should be."""
        self.console.print(f"{run.dag_id}: {text}", markup=False, style="red", soft_wrap=True)

    def verdict(self, good: bool, runs: Sequence[Run] = ()) -> None:
        """How it went; which runs wait for an answer, and which failed as they are meant to."""
        asking = [run for run in runs if run.asks]
        failed = [run for run in runs if run.fails]
        for run in asking:
            text = "the gate holds its batch and asks what to do: see Required actions"
            self.console.print(f"\n{run.dag_id}: {text}", markup=False, style="magenta")
        for run in failed:
            text = "it fails on purpose: its page shows what to do"
            self.console.print(f"\n{run.dag_id}: {text}", markup=False, style="magenta")
        if not good:
            self.console.print("\nThe demo did not succeed.", style="bold red")
            return
        others = ["asks a person"] * bool(asking) + ["failed on purpose"] * bool(failed)
        ends = ", ".join(["succeeded", *others[:-1]]) + "".join(f" or {e}," for e in others[-1:])
        self.console.print(f"\nEvery run {ends} and every count reconciles.", style="bold green")


def _stages(runs: list[Run]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("migration")
    for stage in STAGES:
        table.add_column(stage)
    for run in runs:
        table.add_row(run.dag_id, *(run.cell(stage) for stage in STAGES))
    return table


def _counts(counts: dict[str, int]) -> str:
    return "\n".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _last_error(log: Path) -> str:
    """The last error of a task's log, one JSON object a line."""
    try:
        lines = log.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "it left no log"
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        details = event.get("error_detail") if isinstance(event, dict) else None
        if details:
            return str(details[0].get("exc_value") or details[0].get("exc_type"))
    return "it gave no reason"
