"""What looking into a lake costs that a thousand batches have written, command by command.

`python -m bench.many_batches '{"batches": 1000}'` makes such a lake with PyIceberg, as the stages
leave it, and prints one JSON object: wall and CPU seconds of every command, imports and all, the
best of several. With `"upkeep": true` Spark keeps the lake up, and the commands are measured once
more.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.filled_lake import filled_lake

BATCHES, TRIES = 1000, 3

COMMANDS = {
    "status": ["status"],
    "quarantine list": ["quarantine", "list"],
    "quarantine show": ["quarantine", "show", "shop/0/147"],
    "changes": ["changes"],
    "table": ["table", "shop.orders"],
    "table --held": ["table", "shop.orders", "--held"],
    "changes of a row": ["changes", "--table", "shop.orders", "--key", "7"],
}
"""What is measured: the words before and after the migration's file."""


def looks(file: Path) -> dict[str, dict[str, float]]:
    """Wall and CPU seconds of every command, the best of several."""
    return {name: _best(file, words) for name, words in COMMANDS.items()}


def _best(file: Path, words: list[str]) -> dict[str, float]:
    at = 2 if words[0] == "quarantine" else 1
    command = [sys.executable, "-m", "waybill.cli", *words[:at], str(file), *words[at:], "--json"]
    wall, cpu = [], []
    for _ in range(TRIES):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall.append(time.monotonic() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"seconds": round(min(wall), 2), "cpu": round(min(cpu), 2)}


def measured(folder: Path, batches: int, upkeep: bool) -> dict[str, Any]:
    """Figures of a lake that is made in a folder."""
    start = time.monotonic()
    file = filled_lake(folder, batches)
    found: dict[str, Any] = {"batches": batches, "filled": round(time.monotonic() - start)}
    found["before upkeep"] = looks(file)
    if upkeep:
        subprocess.run(
            [sys.executable, "-m", "waybill.cli", "upkeep", str(file)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found["after upkeep"] = looks(file)
    return found


def table_of(figures: dict[str, Any]) -> Table:
    """The figures of every command, before upkeep and after it."""
    table = Table(title="Looking into a lake of 1,000 batches, seconds (processor seconds)")
    table.add_column("command")
    for when in ("before upkeep", "after upkeep"):
        table.add_column(when, justify="right")
    for command in figures["before upkeep"]:
        found = [figures[when][command] for when in ("before upkeep", "after upkeep")]
        table.add_row(command, *(f"{one['seconds']:.2f} ({one['cpu']:.2f})" for one in found))
    return table


def main(document: str) -> None:
    """Run the measure and print its figures."""
    given = json.loads(document)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as scratch:
        figures = measured(Path(scratch), given.get("batches", BATCHES), given.get("upkeep", False))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
