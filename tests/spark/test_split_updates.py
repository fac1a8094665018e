"""Updates of two messages: any cut into tasks, partitions and batches gives the same tables.

The property of merged histories (`test_merge_histories`) begins behind the joining of halves, so it
cannot see a half that went on alone. This one begins at the messages.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from tests.property.split_updates import cut, split_history
from tests.spark.merge_lake import let_pass, merge, rows_of
from tests.spark.seeds import SEEDS
from waybill.convert.stage import run_convert
from waybill.lake import Lake
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

BATCHES = 3


class Run:
    """One migration, and what it made of a topic."""

    def __init__(self, spark, spec, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.lake = Lake.open(spark, spec)

    def take(self, batches: list[list[list[dict]]]) -> None:
        for number, files in enumerate(batches):
            name = f"b{number}"
            for at, messages in enumerate(files):
                text = "\n".join(map(json.dumps, messages))
                (self.folder / f"{name}-{at}.jsonl").write_text(text)
            context = StageContext(self.lake.spark, self.lake, self.spec, name, Options())
            run_snapshot(self.spec, context)
            run_convert(self.spec, context)
            merge(self.lake, self.spec, name)
            let_pass(self.lake, name)

    def rows(self) -> dict[str, dict]:
        return {key: image for key, (_, image) in rows_of(self.lake, "shop.t").items()}

    def waiting(self) -> set[tuple[str, str]]:
        rows = self.lake.read(self.lake.log("changes")).where("outcome = 'waiting'").collect()
        return {(row.half, row.key) for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_any_cut_gives_the_tables_of_one_batch(spark, migration, tiny, tmp_path, seed) -> None:
    choose = random.Random(seed).randrange
    histories = [split_history(choose, 12, first=10 * n) for n in range(12)]
    wanted = {key: row for history in histories for key, row in history.rows.items()}
    found = []
    for name, batches in (("whole", 1), ("cut", BATCHES)):
        folder = tmp_path / name
        folder.mkdir()
        spec = migration(envelope=tiny)
        spec = spec.model_copy(
            update={
                "source": spec.source.model_copy(
                    update={"files": spec.source.files.model_copy(update={"path": str(folder)})}
                ),
                "name": f"{spec.name}_{name}",
            }
        )
        run = Run(spark, spec, folder)
        run.take(cut(choose, histories, batches, files=2))
        found.append((run.rows(), run.waiting()))
        assert run.rows() == wanted
    whole, parts = found
    assert whole == parts
    lost = {half for history in histories for half in history.alone}
    assert parts[1] == lost
