"""A real browser, and Airflow with a home of its own before anything imports it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.airflow_home import PROJECT, remove_home

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
    remove_home()


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
        # Whose server has to share its processor with the other phases.
        context.set_default_navigation_timeout(90_000)
        contexts.append(context)
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()
