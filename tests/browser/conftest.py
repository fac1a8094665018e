"""A real browser, and Airflow with a home of its own before anything imports it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from waybill.lake.settings import SHORT_RUNS

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="waybill-airflow-"))

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    "SPARK_SUBMIT_OPTS": SHORT_RUNS,
}
os.environ.pop("WAYBILL_MIGRATIONS", None)

QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
"""A browser that asks no other host for anything."""


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with its database; made here, where Airflow is imported already."""
    from airflow.utils.db import initdb

    initdb()
    return HOME


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium with an empty profile of its own."""
    script = [PROJECT / "scripts" / "browser.sh", "find"]
    found = subprocess.run(script, check=False, capture_output=True, text=True)
    assert found.returncode == 0, f"{found.stderr.strip()} `make browser` does it."
    with sync_playwright() as driver:
        # Without its sandbox: Chromium has none for root, whom build servers often are.
        started = driver.chromium.launch(
            executable_path=found.stdout.strip(), args=QUIET, chromium_sandbox=False
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page with cookies of its own; takes the arguments of Playwright's `new_context`."""
    contexts = []

    def opened(**given: Any) -> Page:
        context = browser.new_context(**given)
        context.set_default_timeout(30_000)
        contexts.append(context)
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()
