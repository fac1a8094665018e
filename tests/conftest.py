"""What holds for every test."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.contract.effort import EFFORT
from tests.nightly import mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.demo_process import Moved

PROJECT = Path(__file__).resolve().parents[1]

# The same cases every time, so that a failure comes from a change; WAYBILL_EFFORT=2 draws others.
settings.register_profile("waybill", derandomize=EFFORT == 1, deadline=None, database=None)
settings.load_profile("waybill")


# Airflow settles its configuration when it is imported: folders of tests that need it choose its
# home before (`tests/airflow_home.py`), and nothing of it may be imported for the others.


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with its database."""
    from airflow.utils.db import initdb

    from tests.airflow_home import HOME

    initdb()
    return HOME


@pytest.fixture(scope="session")
def moved_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    """A demo that has moved everything and stays up, for all tests that look at one."""
    from tests.demo_process import moved

    with moved(tmp_path_factory.mktemp("demo") / "state") as shown:
        yield shown


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run at night only, and put those of the demo that stays at the end.

    It takes its share of the processor for as long as it is there, also while nobody looks at it.
    """
    mark(items, PROJECT.as_posix())
    items.sort(key=lambda item: "moved_demo" in getattr(item, "fixturenames", ()))


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
