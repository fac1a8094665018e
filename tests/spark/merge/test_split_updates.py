"""Updates of two messages: any cut into tasks, partitions and batches gives the same tables.

The property of merged histories (`test_merge_histories`) begins behind the joining of halves, so it
cannot see a half that went on alone. This one begins at the messages, and at what can become of
them: they are damaged, and taken once more when they are mended.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark.sql import functions as F

from tests.property.split_updates import SplitHistory, came, cut, plain, split_history
from tests.spark.merge.merge_lake import digest, let_pass, merge, refused_by_gate
from tests.spark.seeds import SEEDS
from waybill.convert.stage import run_convert
from waybill.lake import Lake
from waybill.order import read_order_key
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

BATCHES = 3
Batches = list[list[list[dict[str, Any]]]]


class Run:
    """One migration, and what it made of a topic."""

    def __init__(self, spark, migration, folder: Path, **fields: Any) -> None:
        folder.mkdir()
        self.migration, self.folder, self.fields = migration, folder, fields
        self.lake = Lake.open(spark, self.spec())
        self.taken = 0

    def spec(self, mended: bool = False, **fields: Any) -> Any:
        source = {"files": {"path": str(self.folder), "topic": "shop"}, "envelope": "tiny"}
        source["settings"] = {"mended": mended}
        return self.migration(self.folder.name, source=source, **self.fields, **fields)

    def take(
        self, files: list[list[dict[str, Any]]], mode: str = "incremental", **spec: Any
    ) -> None:
        """Run a batch up to the gate, which lets it pass."""
        name, spec_ = f"b{self.taken}", self.spec(**spec)
        self.taken += 1
        for at, messages in enumerate(files):
            text = "\n".join(map(json.dumps, messages))
            (self.folder / f"{name}-{at}.jsonl").write_text(text)
        context = StageContext(self.lake.spark, self.lake, spec_, name, Options(mode=mode))
        run_snapshot(spec_, context)
        run_convert(spec_, context)
        merge(self.lake, spec_, name, mode=mode).reconcile()
        assert refused_by_gate(self.lake, name) == []
        let_pass(self.lake, name)

    def rows(self, table: str) -> Counter[Any]:
        """The rows that people see, and of a table without key those that it owes, by digest."""
        merged = self.lake.merged_tables().get(f"shop.{table}")
        found: Counter[Any] = Counter()
        everything = None if merged is None else self.lake.read(merged, self.lake.head(merged))
        for row in [] if everything is None else everything.collect():
            key = msgspec.json.decode(row["_waybill_key"])
            if not row["_waybill_deleted"]:
                found[plain(msgspec.json.decode(row["_waybill_image"]))] += 1
            elif "row" in key:
                found[key["row"]] -= 1
        return found

    def waiting(self, table: str) -> set[tuple[str, int]]:
        """Half and sequence id of the halves that wait."""
        rows = self.lake.read(self.lake.log("changes")).where("outcome = 'waiting'")
        mine = rows.where(F.col("table") == table).select("half", "order_key").collect()
        return {(row.half, (read_order_key(row.order_key)[0] or (0,))[0]) for row in mine}


def owed_by_digest(rows: Counter[Any]) -> Counter[Any]:
    """The lake names what is owed by its digest alone."""
    return Counter({row if n > 0 else digest(row): n for row, n in rows.items()})


def check(run: Run, histories: list[SplitHistory], batches: Batches, mended: bool = False) -> None:
    """Hold the lake against what has come, with `mended` also what was damaged."""
    wanted: dict[str, Counter[Any]] = {}
    waiting: dict[str, set[tuple[str, int]]] = {}
    for history in histories:
        there = came(history, batches, mended)
        rows = history.rows(history.changes(there))
        wanted.setdefault(history.table, Counter()).update(owed_by_digest(rows))
        waiting.setdefault(history.table, set()).update(history.waiting(there))
    for table, rows in wanted.items():
        assert run.rows(table) == rows, f"{table} after {run.taken} batches"
        assert run.waiting(table) == waiting[table], f"{table} after {run.taken} batches"


@pytest.mark.parametrize("seed", SEEDS)
def test_any_cut_gives_the_tables_of_one_batch(spark, migration, tiny, tmp_path, seed) -> None:
    """Damaged messages are taken up once they are mended, after what is newer, each once."""
    choose = random.Random(seed).randrange
    histories = [split_history(choose, 12, first=10 * n) for n in range(12)]
    for number in range(2):
        for keyed in (True, False):
            table = f"own{number}" if keyed else f"heap{number}"
            made = split_history(choose, 16, table=table, statements=True, keyed=keyed)
            histories.append(made)
    kept = {"quality": {"max_refused_share": 1}}
    whole = Run(spark, migration, tmp_path / "whole", **kept)
    once = cut(choose, histories, 1, files=2)
    whole.take(once[0])
    check(whole, histories, once)
    parts = Run(spark, migration, tmp_path / "cut", **kept)
    batches = cut(choose, histories, BATCHES, files=2, damaged=True)
    for number, files in enumerate(batches, 1):
        parts.take(files)
        check(parts, histories, batches[:number])
    # To try again what is not mended changes nothing.
    parts.take([], "replay")
    check(parts, histories, batches)
    parts.take([], "replay", mended=True)
    check(parts, histories, batches, mended=True)
