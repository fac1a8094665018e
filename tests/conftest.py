"""What holds for every test."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from hypothesis import settings

from tests.contract.effort import EFFORT
from tests.nightly import mark

if TYPE_CHECKING:
    import pytest

PROJECT = Path(__file__).resolve().parents[1]

# The same cases every time, so that a failure comes from a change; WAYBILL_EFFORT=2 draws others.
settings.register_profile("waybill", derandomize=EFFORT == 1, deadline=None, database=None)
settings.load_profile("waybill")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run at night only."""
    mark(items, PROJECT.as_posix())


def pytest_collection_finish() -> None:
    """Let Python not look for garbage among what stays until the end.

    Modules and collected tests are some million objects: to look through all of them again and
    again was a tenth of the time that the fast tests take.
    """
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add what failed to the file that WAYBILL_FAILURES names, for the end of a run of phases."""
    path = os.environ.get("WAYBILL_FAILURES")
    if path is None or hasattr(terminalreporter.config, "workerinput"):
        return
    with Path(path).open("a", encoding="utf-8") as file:
        for outcome in ("error", "failed"):
            for report in terminalreporter.getreports(outcome):
                crash = getattr(report.longrepr, "reprcrash", None)
                why = (
                    report.longreprtext
                    if crash is None
                    else f"{crash.path}:{crash.lineno}: {crash.message}"
                )
                file.write(f"{report.nodeid} ({report.when})\n    {shorten(why, 600)}\n")
