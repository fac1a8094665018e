"""Cases that show once more what others show, on other data: they run in `make test-nightly`."""

from __future__ import annotations

from typing import Any

import pytest


def nightly(*values: Any) -> list[Any]:
    """Values of a parameter with which a test runs only at night."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]
