"""One JSON envelope into every other one inside `mapInArrow`, in one Spark session.

`python -m bench.json_pairs ARGUMENTS` prints one JSON object: seconds of orjson's loads and dumps,
and of the conversion beside it, for every target. A small part warms up what a target needs, then
each round runs both, one after the other, and the best of each counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bench import baselines
from bench.measures import made_in_tasks, spark_session
from bench.topics import Topic

MESSAGES = 500_000
"""At most so many of a topic, half of them in a task: about what a task of a large batch has."""
FEW = 10_000
ROUNDS = 3


def pairs(source: str, targets: list[str], folder: str, name: str) -> dict[str, Any]:
    """Seconds of both sides for every target."""
    path = Path(folder) / source / f"{name}.parquet"
    topic = Topic(source, path.with_suffix(".jsonl"), path, 0, 0)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as scratch:
        spark = spark_session(Path(scratch))
        few, whole = (baselines.read(spark, topic, 2, messages) for messages in (FEW, MESSAGES))
        base = whole.mapInArrow(baselines.identity_json, baselines.COLUMNS)
        baselines.drain(base)
        found = {}
        for target in targets:
            baselines.drain(made_in_tasks(few, topic, target))
            sides = {"base": base, "convert": made_in_tasks(whole, topic, target)}
            times = [
                {side: baselines.timed(partial(baselines.drain, sides[side])) for side in sides}
                for _ in range(ROUNDS)
            ]
            found[target] = {side: min(one[side] for one in times) for side in sides}
        return found


if __name__ == "__main__":
    print(json.dumps(pairs(**json.loads(sys.argv[1]))))
