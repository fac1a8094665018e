"""How measures are run, each in a process of its own, and how their figures are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from bench.topics import Topic

ROOT = Path(__file__).parent.parent
console = Console(width=150)


def measure(name: str, topic: Topic, **arguments: Any) -> dict[str, float] | None:
    """Figures of one measure, None (with a line that says why) if it failed."""
    given = {
        "topic": {
            "envelope": topic.envelope,
            "lines": str(topic.lines),
            "parquet": str(topic.parquet),
            "messages": topic.messages,
            "bytes": topic.bytes,
        },
        **arguments,
    }
    figures = in_its_own_process(f"{name} {topic.envelope} {arguments}", "measures", name, given)
    if figures is not None:
        figures["rate"] = figures["messages"] / figures["seconds"]
    return figures


def in_its_own_process(
    title: str, module: str, name: str, argument: Any, alone: bool = False
) -> dict[str, float] | None:
    """What a module of this package prints as JSON; None, and a line that says why, if it fails.

    Args:
        title: names it in that line.
        module: the module.
        name: which of its measures.
        argument: that of the measure.
        alone: it has one measure only, and takes no name.
    """
    path = os.pathsep.join(map(str, (ROOT, ROOT / "spark_jobs", ROOT / "plugins")))
    argument_text = argument if isinstance(argument, str) else json.dumps(argument)
    run = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", *([] if alone else [name]), argument_text],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    if run.returncode:
        why = run.stderr.strip().splitlines()[-1:] or ["no output"]
        console.print(f"{title}: {why[0]}", style="red")
        return None
    figures: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    return figures


def cell(figures: dict[str, float] | None, base: dict[str, float] | None = None) -> str:
    """Thousand messages a second, and the ratio to `base`."""
    if figures is None:
        return "failed"
    text = f"{figures['rate'] / 1000:.0f}"
    return text if base is None else f"{text} ({figures['rate'] / base['rate']:.2f})"


def memory(figures: dict[str, float] | None) -> str:
    """Peak memory in MiB."""
    return "" if figures is None else f"{figures['peak_mb']:.0f}"
