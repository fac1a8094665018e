"""Which goals there are, and whether a run has reached them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from bench import line
from bench.goals.batches import EACH, FEW, MANY, many_tables, small_batch
from bench.goals.growth import TIMES, gate_of_larger_table, increments, wide_table
from bench.goals.newest import newest_rows
from bench.goals.session import Plan
from bench.goals.topic import whole_topic

if TYPE_CHECKING:
    from bench.topics import Topic


class Goal(NamedTuple):
    """Something that is to cost so much at most.

    Attributes:
        what: what is measured, and beside what.
        most: what the value may be.
        unit: of the value; nothing of a ratio.
    """

    what: str
    most: float
    unit: str = ""


def kafka_to_kafka(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Processor time of a message from one topic to another, without the broker's."""
    found = line.measure(plan.lines, scratch, turns=2)
    each = {stage: used * 1e6 / found["messages"] for stage, used in found["cpu"].items()}
    return {"G7": {"value": sum(each.values())}, "seconds": found["seconds"], "microseconds": each}


GOALS = {
    "G1": Goal("snapshot to validate : the same by hand in Spark SQL", 1.0),
    "G2": Goal("decode, log and merge of twice the messages : by hand in Spark SQL", 0.75),
    "G3a": Goal("increment of 50,000 into 8 million rows : MERGE by hand", 0.6),
    "G3b": Goal("increment of 50,000 into 8 million rows : into half a million", 1.5),
    "G4": Goal("validate : convert", 0.5),
    "G5": Goal(f"merge and gate, {MANY} tables of {EACH} changes : one of as many", 1.5),
    "G6": Goal("the JVM's part of a batch", 0.2),
    "G7": Goal("Kafka to Kafka, of the processor a message", 30.0, "µs"),
    "G8": Goal(f"the gate, its table {TIMES} times as large : as it is", 1.2),
    "G9": Goal(f"{FEW} messages through five stages, of the clock", 3.0, "s"),
    "G10": Goal("merge of 50,000 changes of 320 columns, of the clock", 5.0, "s"),
    "G11": Goal("decode, log and merge of twice the messages : DuckDB's arg_max", 4.0),
}
"""By name. Where nothing else is said a value is a ratio of processor seconds."""

MEASURES: dict[str, Callable[[Plan, Path], dict[str, Any]]] = {
    "G9": small_batch,
    "G5": many_tables,
    "G8": gate_of_larger_table,
    "G10": wide_table,
    "G1 G4 G6": whole_topic,
    "G2 G11": newest_rows,
    "G3a G3b": increments,
    "G7": kafka_to_kafka,
}
"""What measures goals, each in a process of its own; by the names of the goals."""


def reached(
    topic: Topic,
    twice: Topic,
    folder: Path,
    measured: Callable[..., Any],
    only: Collection[str] = (),
    scale: float = 1.0,
    turns: int = 3,
) -> Table:
    """Every goal as a row of a table; beside it `goals.json`, with name, value, goal and met.

    `goals-figures.json` has all that was measured, also what each stage took.

    Args:
        topic: of Canal messages.
        twice: of twice as many.
        folder: where the file goes; what it says of other goals than those measured is kept.
        measured: what a measure of a module prints, see `bench.__main__.in_its_own_process`.
        only: names of goals; all if empty. Those that are measured together come with them.
        scale: tables and batches are so large, of what the goals say.
        turns: how often both sides are measured; the first time warms up.
    """
    table = Table(title=f"Goals, {topic.messages:,} Canal messages, tables times {scale:g}")
    for title in ("goal", "what", "processor s", "value", "at most", "met"):
        table.add_column(title, justify="left" if title in ("goal", "what") else "right")
    plan = Plan(str(topic.lines), str(twice.lines), scale, turns)._asdict()
    file, details = folder / "goals.json", folder / "goals-figures.json"
    rows = {row["name"]: row for row in json.loads(file.read_text())} if file.exists() else {}
    every = json.loads(details.read_text()) if details.exists() else {}
    for names in MEASURES:
        if only and not set(only) & set(names.split()):
            continue
        figures = measured(names, "goals", names, plan)
        if figures is None:
            continue
        every[names] = figures
        details.write_text(json.dumps(every, indent=1) + "\n")
        for name in names.split():
            rows[name] = _row(name, figures[name])
            counted = figures.get("counted", 1)
            table.add_row(*_cells(name, figures[name], rows[name], counted))
    ordered = [rows[name] for name in GOALS if name in rows]
    file.write_text(json.dumps(ordered, indent=1) + "\n")
    return table


def _row(name: str, found: dict[str, float]) -> dict[str, Any]:
    """What the file says of a goal."""
    most = GOALS[name].most
    value = found["value"] if "value" in found else found["one"] / found["other"]
    return {"name": name, "value": round(value, 3), "goal": most, "met": value <= most}


def _cells(
    name: str, found: dict[str, float], row: dict[str, Any], counted: int
) -> tuple[str, ...]:
    """What the table says of a goal; `one` and `other` are the sums of so many turns."""
    goal = GOALS[name]
    seconds = f"{found['cpu']:.1f}" if "cpu" in found else ""
    if "one" in found:
        seconds = f"{found['one'] / counted:.1f} : {found['other'] / counted:.1f}"
    unit = f" {goal.unit}" if goal.unit else ""
    value, most = f"{row['value']:.2f}{unit}", f"{goal.most:g}{unit}"
    return name, goal.what, seconds, value, most, "yes" if row["met"] else "no"
