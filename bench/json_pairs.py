"""One JSON envelope into every other one inside `mapInArrow`, in one Spark session.

`python -m bench.json_pairs ARGUMENTS` prints one JSON object: seconds of orjson's loads and dumps,
and of the conversion beside it, for every target. A small part warms up what a target needs, then
each round runs both, one after the other, and the best of each counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import baselines
from bench.measures import convert_job, converted, spark_session
from bench.topics import Topic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = 500_000
"""At most so many of a topic, half of them in a task: about what a task of a large batch has."""
FEW = 10_000
ROUNDS = 3
COLUMNS = "key binary, value binary"


def frame_of(spark: SparkSession, topic: Topic, messages: int) -> DataFrame:
    """The first messages of a topic in their order, one part for each core, in memory."""
    rows = spark.read.parquet(str(topic.parquet)).where(f"offset < {messages}")
    frame = rows.repartitionByRange(2, "offset").sortWithinPartitions("offset").cache()
    frame.count()
    return frame


def pairs(source: str, targets: list[str], folder: str, name: str) -> dict[str, Any]:
    """Seconds of both sides for every target."""
    from waybill.task_start import light

    path = Path(folder) / source / f"{name}.parquet"
    topic = Topic(source, path.with_suffix(".jsonl"), path, 0, 0)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as scratch:
        spark = spark_session(Path(scratch))
        few, whole = (frame_of(spark, topic, messages) for messages in (FEW, MESSAGES))
        base = whole.mapInArrow(baselines.identity_json, COLUMNS)
        baselines.drain(base)
        found = {}
        for target in targets:
            job = convert_job(topic, target)

            def run(batches: Iterator[pa.RecordBatch], job: Any = job) -> Iterator[pa.RecordBatch]:
                return converted(job, batches)

            baselines.drain(few.mapInArrow(light(run), COLUMNS))
            made = whole.mapInArrow(light(run), COLUMNS)
            sides = {"base": base, "convert": made}
            times = [
                {side: baselines.timed(partial(baselines.drain, sides[side])) for side in sides}
                for _ in range(ROUNDS)
            ]
            found[target] = {side: min(one[side] for one in times) for side in sides}
        return {"messages": whole.count(), "targets": found}


if __name__ == "__main__":
    print(json.dumps(pairs(**json.loads(sys.argv[1]))))
