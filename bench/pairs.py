"""One pair of envelopes in memory, beside what it is measured against, in one process.

`python -m bench.pairs NAME ARGUMENTS` prints one JSON object: microseconds a message. Each round
runs both sides one after the other, and the best round of each counts, as the machine is noisy.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.baselines import AVRO, base_of
from bench.topics import DECLARED
from bench.written_topics import settings_to_read, settings_to_write

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES = 60_000
BATCH = 10_000
ROUNDS = 7


def batches_of(path: Path) -> list[pa.RecordBatch]:
    """The first messages of a topic, in batches as Spark hands them out."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return list(itertools.islice(file.iter_batches(BATCH), MESSAGES // BATCH))


def best(works: dict[str, Callable[[], Any]], count: int) -> dict[str, float]:
    """Microseconds a message of each work."""
    times: dict[str, float] = {}
    gc.disable()
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            took = (time.perf_counter() - start) / count * 1e6
            times[name] = min(took, times.get(name, took))
            gc.collect()
    return times


def pair(source: str, target: str, folder: str, name: str) -> dict[str, float]:
    """Microseconds a message: the conversion, its two halves, and the baseline of each side."""
    from bench.measures import converted, refuse
    from waybill.batches.messages import messages_of
    from waybill.inprocess.job import ConvertJob
    from waybill.spec.migration import Table, table_rules

    root = Path(folder)
    rules = table_rules({n: Table.model_validate(table) for n, table in DECLARED.items()})
    job = ConvertJob(
        source,
        target,
        "-",
        "-",
        settings_to_read(source, root),
        settings_to_write(source, target, root),
        rules,
    )
    batches = batches_of(root / source / f"{name}.parquet")
    count = sum(batch.num_rows for batch in batches)
    converter = job.converter(refuse, keep_halves=True)

    def convert() -> None:
        for _ in converted(job, iter(batches)):
            pass

    def one_by_one() -> None:
        for batch in batches:
            converter.convert(messages_of(batch), [], [])

    works = {"convert": convert, "alone": one_by_one, "base": _base(root, source, batches)}
    if source == "debezium-json" and target in AVRO:
        # Writing Avro is held against reading as much of it.
        written = batches_of(root / target / f"{name}.parquet")
        works["base"] = _base(root, target, written)
    return {"messages": count, **best(works, count)}


def _base(folder: Path, envelope: str, batches: list[pa.RecordBatch]) -> Callable[[], None]:
    work = base_of(folder, envelope)
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    there = [value for value in values if value is not None]

    def run() -> None:
        for value in there:
            work(value)

    return run


if __name__ == "__main__":
    print(json.dumps(pair(**json.loads(sys.argv[2]))))
