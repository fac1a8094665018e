"""One measure per call, in a process of its own, so that time and memory are its own.

`python -m bench.measures NAME ARGUMENTS…` prints one JSON object: messages, seconds, peak_mb.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench import baselines
from bench.cpu import keep_ended_processes
from bench.sampler import Sampler
from bench.topics import DECLARED, Topic
from bench.written_topics import settings_to_read, settings_to_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

REPEATS = 3
"""The first run warms up; the best of the others counts, as the machine is noisy."""


class PeakMemory(Sampler):
    """Peak resident memory of this process and its children, sampled, in MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0.0

    def sample(self) -> None:
        """See `Sampler`."""
        me, total = psutil.Process(), 0
        for process in [me, *me.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        self.peak = max(self.peak, total / 2**20)


def spark_session(scratch: Path) -> SparkSession:
    """A local session on two cores, set up as the stages set it up."""
    from pyspark.sql import SparkSession

    from waybill.lake.settings import ANY_BYTES, ARROW_BYTES, ARROW_ROWS
    from waybill.lake.sizing import MOST_ROWS

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.local.dir", str(scratch))
        .config("spark.log.level", "ERROR")
        .config(ARROW_ROWS, str(MOST_ROWS))
        .config(ARROW_BYTES, ANY_BYTES)
        # A stage lets tasks read and write files; here everything goes to Python and back, and
        # TCP was seen to stall for ever where both sides send as much as they can.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.unix.domain.socket.dir", str(scratch))
        .getOrCreate()
    )


def best(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The shortest of the runs after the first, in seconds."""
    times = []
    for _ in range(repeats + 1):
        start = time.monotonic()
        work()
        times.append(time.monotonic() - start)
    return min(times[1:])


def convert_job(topic: Topic, target: str, output: Path | None = None) -> Any:
    """The conversion of a topic, as `waybill convert` is told it."""
    from waybill.inprocess.job import ConvertJob
    from waybill.spec.migration import Table, table_rules

    tables = {name: Table.model_validate(table) for name, table in DECLARED.items()}
    folder = topic.parquet.parent.parent
    return ConvertJob(
        source=topic.envelope,
        target=target,
        input=str(topic.lines),
        output=str(output or "-"),
        decode_settings=settings_to_read(topic.envelope, folder),
        encode_settings=settings_to_write(topic.envelope, target, folder),
        rules=table_rules(tables),
    )


def refuse(message: Any, index: int, kind: str, sentence: str) -> None:
    """A benchmark's topics hold nothing to refuse."""
    text = f"offset {message.offset}, row {index}: {kind}: {sentence}"
    raise AssertionError(text)


def converted(job: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keys and values in the target envelope, batch by batch."""
    import pyarrow as pa

    from waybill.batches.arrow_blocks import messages_block
    from waybill.batches.messages import messages_of

    # Halves whose partner is in another task are the stage's business, not the conversion's.
    converter = job.converter(refuse, keep_halves=True)
    bulk = job.bulk(converter) if job.by_bulk else None
    lead = 0 if bulk is None else bulk.lead
    for batch in batches:
        for part in (batch.slice(0, lead), batch.slice(lead)) if lead else (batch,):
            if bulk is not None:
                keys, values = bulk.convert(messages_block(part)).arrays()
            else:
                out: list[Any] = []
                converter.convert(messages_of(part), out, [])
                keys = pa.array([encoded.key for encoded in out], pa.binary())
                values = pa.array([encoded.value for encoded in out], pa.binary())
            arrays = [keys.cast(pa.binary()), values.cast(pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, names=["key", "value"])
        lead = 0


def made_in_tasks(frame: DataFrame, topic: Topic, target: str) -> DataFrame:
    """Messages of a topic through `Conversion` inside mapInArrow, as the stages have it."""
    from waybill.spark_tasks.worker_startup import light

    job = convert_job(topic, target)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return converted(job, batches)

    return frame.mapInArrow(light(run), baselines.COLUMNS)


def spark_convert(topic: Topic, target: str, scratch: Path) -> dict[str, float]:
    """The conversion of a whole topic in Spark."""
    spark = spark_session(scratch)
    made = made_in_tasks(baselines.read(spark, topic), topic, target)
    return {"seconds": best(lambda: baselines.drain(made))}


def spark_orjson(topic: Topic, scratch: Path) -> dict[str, float]:
    """The baseline (a): orjson loads and dumps inside mapInArrow."""
    spark = spark_session(scratch)
    frame = baselines.read(spark, topic)
    work = baselines.identity_json
    seconds = best(lambda: baselines.drain(frame.mapInArrow(work, baselines.COLUMNS)))
    return {"seconds": seconds}


def spark_fastavro(topic: Topic, scratch: Path) -> dict[str, float]:
    """The baseline of Avro: fastavro's schemaless reader and orjson dumps inside mapInArrow."""
    spark = spark_session(scratch)
    frame = baselines.read(spark, topic)
    folder, envelope = topic.parquet.parent.parent, topic.envelope

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return baselines.identity_avro(folder, envelope, batches)

    seconds = best(lambda: baselines.drain(frame.mapInArrow(work, baselines.COLUMNS)))
    return {"seconds": seconds}


def spark_jvm(topic: Topic, scratch: Path) -> dict[str, float]:
    """The baseline (c): from_json and to_json in the JVM."""
    spark = spark_session(scratch)
    frame = baselines.read(spark, topic)
    seconds = best(lambda: baselines.drain(baselines.spark_json(frame, topic.envelope)))
    return {"seconds": seconds}


def duckdb_convert(topic: Topic, scratch: Path) -> dict[str, float]:
    """The baseline (d): DuckDB, lines to lines."""
    work = {
        "canal": baselines.duckdb_canal_to_debezium,
        "debezium-json": baselines.duckdb_debezium_to_canal,
    }[topic.envelope]
    out = scratch / "duckdb"

    def run() -> None:
        shutil.rmtree(out, ignore_errors=True)
        work(topic.lines, out)

    return {"seconds": best(run)}


def in_process(topic: Topic, target: str, processes: int, scratch: Path) -> dict[str, float]:
    """`waybill convert`, lines to lines, its start-up left out."""
    from waybill.inprocess.run import convert_file

    job = convert_job(topic, target, scratch / "out.jsonl")
    return {"seconds": best(lambda: convert_file(job, processes=processes))}


def orjson_lines(topic: Topic, scratch: Path) -> dict[str, float]:
    """orjson loads and dumps, lines to lines, in one process."""
    import orjson

    def run() -> None:
        with topic.lines.open("rb") as source, (scratch / "out.jsonl").open("wb") as out:
            for line in source:
                out.write(orjson.dumps(orjson.loads(line)) + b"\n")

    return {"seconds": best(run)}


def stages(topic: Topic, scratch: Path) -> dict[str, float]:
    """Archive, convert and merge of the topic as one batch, each stage as its job runs it.

    A small batch over a lake of its own goes first, as starting Spark is no part of a stage.
    """
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    few = scratch / "few.jsonl"
    with topic.lines.open("rb") as source:
        few.write_bytes(b"".join(line for line, _ in zip(source, range(2_000), strict=False)))

    def spec(path: Path, name: str) -> Migration:
        target = "debezium-json" if topic.envelope == "canal" else "canal"
        return Migration.model_validate(
            {
                "name": name,
                "source": {
                    "files": {"path": str(path), "topic": "bench"},
                    "envelope": topic.envelope,
                    "settings": settings_to_read(topic.envelope, topic.parquet.parent.parent),
                },
                "tables": DECLARED,
                "publish": [{"envelope": target, "files": {"path": str(scratch / "out")}}],
                "lake": {"warehouse": str(scratch / name)},
                "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
            }
        )

    warm, whole = spec(few, "warm"), spec(topic.lines, "whole")
    spark = start_session(whole, "bench")
    figures = {}
    for name in ("snapshot", "convert", "merge"):
        run_stage(name, warm, "b1", spark)
    for name in ("snapshot", "convert", "merge"):
        start = time.monotonic()
        run_stage(name, whole, "b1", spark)
        figures[name] = time.monotonic() - start
    return {"seconds": sum(figures.values()), **figures}


def decode_and_merge(topic: Topic, scratch: Path) -> dict[str, float]:
    """Convert without targets and merge, from the archive, each time into a lake of its own."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    def spec(name: str) -> Migration:
        return Migration.model_validate(
            {
                "name": name,
                "source": {
                    "files": {"path": str(topic.lines), "topic": "bench"},
                    "envelope": topic.envelope,
                },
                "lake": {"warehouse": str(scratch / name)},
                "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
            }
        )

    spark = start_session(spec("lake"), "bench")
    times = []
    for turn in range(REPEATS):
        lake = spec(f"lake_{turn}")
        run_stage("snapshot", lake, "b1", spark)
        start = time.monotonic()
        run_stage("convert", lake, "b1", spark)
        convert = time.monotonic() - start
        run_stage("merge", lake, "b1", spark)
        times.append((time.monotonic() - start, convert))
        shutil.rmtree(scratch / lake.name)
    seconds, convert = min(times[1:])
    return {"seconds": seconds, "convert": convert}


def sql_merge(topic: Topic, scratch: Path) -> dict[str, float]:
    """The same by hand: from_json, the newest row of each key, one MERGE into an Iceberg table."""
    from waybill.lake.session import lake_session, start_session
    from waybill.spec.migration import Migration

    spec = Migration.model_validate(
        {
            "name": "sql",
            "source": {"files": {"path": "nowhere"}, "envelope": "canal"},
            "lake": {"warehouse": str(scratch / "lake")},
            "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
        }
    )
    spark = lake_session(start_session(spec, "bench"), spec)
    frame = spark.read.parquet(str(topic.parquet)).cache()
    frame.count()
    turns = iter(range(REPEATS))
    return {"seconds": best(lambda: baselines.merge_by_sql(spark, frame, next(turns)), 2)}


def duckdb_merge(topic: Topic, scratch: Path) -> dict[str, float]:
    """DuckDB reads the lines with a typed schema and keeps the newest row of each key."""
    return {"seconds": best(lambda: baselines.duckdb_newest(topic.lines, scratch / "out.parquet"))}


MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "spark_convert": spark_convert,
    "spark_orjson": spark_orjson,
    "spark_fastavro": spark_fastavro,
    "spark_jvm": spark_jvm,
    "duckdb_convert": duckdb_convert,
    "in_process": in_process,
    "orjson_lines": orjson_lines,
    "stages": stages,
    "decode_and_merge": decode_and_merge,
    "sql_merge": sql_merge,
    "duckdb_merge": duckdb_merge,
}


def print_figures(measure: Callable[[Any, Path], dict[str, Any]], argument: str) -> None:
    """Run the measure of a module of its own and print its figures; `argument` is JSON."""
    keep_ended_processes()
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, PeakMemory() as memory:
        figures = measure(json.loads(argument), Path(folder))
    print(json.dumps({**figures, "peak_mb": round(memory.peak)}))


def main(name: str, arguments: str) -> None:
    """Run one measure and print its figures."""
    given = json.loads(arguments)
    topic = given.pop("topic")
    topic = Topic(**{**topic, "lines": Path(topic["lines"]), "parquet": Path(topic["parquet"])})
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, PeakMemory() as memory:
        figures = MEASURES[name](topic=topic, scratch=Path(folder), **given)
    print(json.dumps({"messages": topic.messages, **figures, "peak_mb": round(memory.peak)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
