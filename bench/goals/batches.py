"""What every batch costs at least: one of very many tables, and one of a few messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.cpu import cpu_seconds
from bench.goals.session import Plan, published, spec_of
from bench.topics import DECLARED, canal
from bench.topics import changes as written

MANY, EACH = 40, 500
"""Tables of a batch that touches many, and changes of each of them."""

FEW, FEW_TURNS = 100, 8
"""Messages of a small batch, and how many of them are run; the last half counts."""


def many_tables(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Merge and gate of changes to many tables, beside as many changes to one; tables are new."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session

    spark = start_session(spec_of("first", scratch), "bench")
    many, used = plan.of(MANY), {"many": 0.0, "one": 0.0}
    for turn in range(plan.turns + 1):
        for name, tables in (("many", many), ("one", 1)):
            path = scratch / f"{name}{turn}.jsonl"
            path.write_bytes(b"".join(interleaved(tables, many * EACH // tables, turn)))
            names = {f"bench.{table_name(i)}": DECLARED["bench.orders"] for i in range(tables)}
            spec = spec_of(f"{name}{turn}", scratch, str(path), tables=names)
            for stage in ("snapshot", "convert", "merge", "validate"):
                before = cpu_seconds()
                run_stage(stage, spec, "b1", spark)
                if turn and stage in ("merge", "validate"):
                    used[name] += cpu_seconds() - before
    spark.stop()
    return {"G5": {"one": used["many"], "other": used["one"]}, "counted": plan.turns}


def small_batch(_: Plan, scratch: Path) -> dict[str, Any]:
    """Seconds of the clock that a small batch takes through five stages of a warm session."""
    from waybill.jobs import run_migration
    from waybill.lake.session import start_session

    folder = scratch / "few"
    folder.mkdir()
    spec = published("few", scratch, str(folder))
    spark = start_session(spec, "bench")
    taken, used, stages = [], [], []
    for turn in range(FEW_TURNS):
        (folder / f"{turn:03d}.jsonl").write_bytes(b"".join(interleaved(1, FEW, turn)))
        before, start = cpu_seconds(), time.monotonic()
        done = run_migration(spec, batch=f"b{turn:03d}", spark=spark)
        taken.append(time.monotonic() - start)
        used.append(cpu_seconds() - before)
        stages.append({stage.stage: stage.seconds for stage in done.stages})
    spark.stop()
    half = FEW_TURNS // 2
    return {
        "G9": {"value": median(taken[half:]), "cpu": median(used[half:])},
        "seconds": {name: median(one[name] for one in stages[half:]) for name in stages[0]},
    }


def table_name(number: int) -> str:
    return f"orders_{number:03d}"


def interleaved(tables: int, each: int, turn: int) -> Iterator[bytes]:
    """Lines of a topic of several tables, whose changes take turns."""
    streams = [written(each, max(10, each // 10), 1000 * turn + i) for i in range(tables)]
    for several in zip(*streams, strict=True):
        for i, (number, before, after) in enumerate(several):
            for line in canal(number, before, after):
                named = f'"table":"{table_name(i)}"'.encode()
                yield line.replace(b'"table":"orders"', named) + b"\n"
