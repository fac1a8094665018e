"""A topic through the stages, beside the same work by hand: the whole, the gate, and Java's part.

Both begin with the lines of a file. By hand ends with lines of the other envelope and a table.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench import by_hand
from bench.cpu import cost, cpu_seconds, jvm_seconds
from bench.goals.session import Plan, first_of, live_rows, published

WARM = 20_000
"""Messages of the batch that warms the stages up."""

STAGES = ("snapshot", "convert", "merge", "validate", "publish")


def whole_topic(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Processor seconds by stage of the turns that count, and of the same by hand."""
    from waybill.jobs import run_stage
    from waybill.lake import Lake
    from waybill.lake.session import start_session

    few = first_of(plan.lines, plan.of(WARM), scratch)
    spark = start_session(published("warm", scratch, few), "bench")
    used: dict[str, float] = defaultdict(float)
    lines = [few, *[plan.lines] * plan.turns]
    for turn, path in enumerate(lines):
        spec = published(f"turn{turn}", scratch, path)
        for stage in STAGES:
            before, java = cpu_seconds(), jvm_seconds()
            run_stage(stage, spec, "b1", spark)
            if turn > 1:
                used[stage] += cpu_seconds() - before
                used["jvm"] += jvm_seconds() - java
        lake = Lake.open(spark, spec)
        session = lake.spark
        text = session.read.text(f"file://{path}")
        out, table = scratch / "hand", f"orders_{turn}"

        def convert(text: Any = text, out: Path = out) -> None:
            by_hand.canal_to_debezium(by_hand.canal_messages(text), out)

        def merge(session: Any = session, text: Any = text, table: str = table) -> None:
            by_hand.merge_messages(session, by_hand.canal_messages(text), table)

        for name, work in (("convert by hand", convert), ("merge by hand", merge)):
            taken = cost(work)
            used[name] += taken if turn > 1 else 0
        rows = session.table(f"lake.hand.{table}").count()
        there = live_rows(session, lake.merged("bench.orders"))
        assert rows == there, f"{rows} rows by hand, {there} in the merged table"
        shutil.rmtree(out)
        shutil.rmtree(scratch / "out")
    spark.stop()
    ours = sum(used[stage] for stage in STAGES)
    hand = used["convert by hand"] + used["merge by hand"]
    return {
        "G1": {"one": ours - used["publish"], "other": hand},
        "G4": {"one": used["validate"], "other": used["convert"]},
        "G6": {"one": used["jvm"], "other": ours},
        "counted": plan.turns - 1,
        "seconds": {name: round(taken / (plan.turns - 1), 2) for name, taken in used.items()},
    }
