"""Runs one measure in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.goals.report import MEASURES
from bench.goals.session import Plan
from bench.measures import print_figures


def measure(plan: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """The figures of the measure that the command names."""
    return MEASURES[sys.argv[1]](Plan(**plan), scratch)


if __name__ == "__main__":
    print_figures(measure, sys.argv[2])
