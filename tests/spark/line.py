"""A migration whose messages are refused until a declaration is mended, over the real stages."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.merge.test_full_loads import oms
from waybill import jobs
from waybill.lake import Lake
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waybill.report import Waybill

ID = {"id": "bigint"}
TEXT = {"id": "bigint", "code": "string"}


def insert(number: int, code: bool | None = None, table: str = "orders") -> bytes:
    """A message; one with a code is refused while its table declares that it is text."""
    row = {"id": number} if code is None else {"id": number, "code": code}
    return oms(10 + number, "INSERT", None, row).replace(b"orders", table.encode())


class Killed(BaseException):
    """Stands for a SIGKILL: nothing in the product catches it."""


def kill(*_: object, **__: object) -> None:
    """Instead of what a run would have done next."""
    raise Killed


class Line:
    """The migration, its source and what came of it.

    Args:
        spark: the session.
        folder: of its own.
        broken: the table whose declaration is wrong, None once it is mended.
        limit: the share of messages that may be refused.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, broken: str | None = "orders", limit: float = 0.1
    ) -> None:
        self.spark, self.folder = spark, folder
        self.broken, self.limit = broken, limit
        (folder / "in").mkdir(parents=True, exist_ok=True)

    @property
    def spec(self) -> Migration:
        """The migration as it is now."""
        wrong = {} if self.broken is None else {self.broken: TEXT}
        tables = {"orders": ID, **wrong}
        data = {
            "name": "demo",
            "source": {
                "files": {"path": str(self.folder / "in"), "topic": "shop"},
                "envelope": "oms-default",
            },
            "publish": [{"envelope": "canal", "files": {"path": str(self.folder / "out")}}],
            "quality": {"max_refused_share": self.limit},
            "tables": {
                f"shop.{name}": {"key": ["id"], "columns": columns}
                for name, columns in tables.items()
            },
            "lake": {"warehouse": str(self.folder / "lake")},
            "spark": {"spark.sql.shuffle.partitions": "1"},
        }
        return Migration.model_validate(data)

    def mend(self) -> None:
        """Take the wrong declaration back."""
        self.broken = None

    def feed(self, name: str, *messages: bytes) -> None:
        """Put messages into a new file of the source."""
        (self.folder / "in" / f"{name}.jsonl").write_bytes(b"\n".join(messages))

    def run(self, batch: str, mode: str = "incremental", **options: Any) -> Waybill:
        """Run a batch."""
        return jobs.run_migration(self.spec, batch=batch, mode=mode, spark=self.spark, **options)

    def rows(self, table: str = "shop.orders") -> list[str | None]:
        """Ids in a merged table."""
        return [row["id"] for row in jobs.read_table(self.spec, table, spark=self.spark)]

    @property
    def sent(self) -> list[str]:
        """Ids of the published messages."""
        return sorted(self.counted.elements())

    @property
    def counted(self) -> Counter[str]:
        """How often each id was published."""
        files = sorted((self.folder / "out").rglob("*.jsonl"))
        return Counter(json.loads(line)["data"][0]["id"] for f in files for line in f.open())

    @property
    def lake(self) -> Lake:
        """Its lake."""
        return Lake.open(self.spark, self.spec)

    def batches(self, table: str, stage: str) -> list[str]:
        """Batches that a stage has committed to a batch table, oldest first."""
        lake = self.lake
        return [c.batch for c in lake.commits(lake.log(table)) if c.stage == stage][::-1]
