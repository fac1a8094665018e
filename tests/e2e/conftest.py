"""Airflow gets a home of its own before anything imports it."""

from __future__ import annotations

from tests.airflow_home import remove_home


def pytest_unconfigure() -> None:
    remove_home()
