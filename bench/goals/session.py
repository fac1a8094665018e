"""The migrations that goals are measured with, and how large everything is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.topics import DECLARED

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

ENVELOPE = "debezium-json"
"""What topics of Canal become."""


class Plan(NamedTuple):
    """What a measure gets.

    Attributes:
        lines: a topic of Canal messages.
        twice: one of twice as many.
        scale: tables, batches and their number are so large, of what the goals say.
        turns: how often both sides are measured; the first time warms up.
    """

    lines: str = ""
    twice: str = ""
    scale: float = 1.0
    turns: int = 3

    def of(self, size: int, least: int = 2) -> int:
        """So many of what a goal says to be `size`."""
        return max(least, round(size * self.scale))


def spec_of(name: str, scratch: Path, path: str = "nowhere", **more: Any) -> Migration:
    """A migration from files of a Canal topic, whose lake stands in `scratch`."""
    from waybill.spec.migration import Migration

    return Migration.model_validate(
        {
            "name": name,
            "source": {"files": {"path": path, "topic": "bench"}, "envelope": "canal"},
            "tables": DECLARED,
            "lake": {"warehouse": str(scratch / "lake")},
            "order": {"ambiguous": "partition"},
            "spark": {
                "spark.master": "local[2]",
                "spark.local.dir": str(scratch),
                "spark.driver.memory": "4g",
            },
            **more,
        }
    )


def published(name: str, scratch: Path, path: str, **more: Any) -> Migration:
    """The same with one target, in files."""
    target = {"envelope": ENVELOPE, "files": {"path": str(scratch / "out" / name)}}
    return spec_of(name, scratch, path, publish=[target], **more)


def first_of(lines: str, count: int, scratch: Path) -> str:
    """A file of the first messages of a topic."""
    few = scratch / "few.jsonl"
    with Path(lines).open("rb") as source:
        few.write_bytes(b"".join(line for line, _ in zip(source, range(count), strict=False)))
    return str(few)


def live_rows(spark: Any, table: str) -> int:
    """How many rows a merged table has."""
    rows: int = spark.table(table).where("NOT _waybill_deleted").count()
    return rows
