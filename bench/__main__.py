"""`make bench`: every figure of docs/performance.md, side by side, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.baselines import AVRO
from bench.goals.report import reached
from bench.topics import WRITERS, Topic, write_topics
from bench.written_topics import write_all
from waybill.envelopes import registry

ROOT = Path(__file__).parent.parent
console = Console(width=150)
BRIDGE = "debezium-json"
"""What every other envelope is converted to and from."""
app = typer.Typer(add_completion=False, rich_markup_mode=None)


def measure(name: str, topic: Topic, **arguments: Any) -> dict[str, float] | None:
    """Figures of one measure, None (with a line that says why) if it failed."""
    given = {
        "topic": {
            "envelope": topic.envelope,
            "lines": str(topic.lines),
            "parquet": str(topic.parquet),
            "messages": topic.messages,
            "bytes": topic.bytes,
        },
        **arguments,
    }
    figures = in_its_own_process(f"{name} {topic.envelope} {arguments}", "measures", name, given)
    if figures is not None:
        figures["rate"] = figures["messages"] / figures["seconds"]
    return figures


def in_its_own_process(
    title: str, module: str, name: str, argument: Any, alone: bool = False
) -> dict[str, float] | None:
    """What a module of this package prints as JSON; None, and a line that says why, if it fails.

    Args:
        title: names it in that line.
        module: the module.
        name: which of its measures.
        argument: that of the measure.
        alone: it has one measure only, and takes no name.
    """
    path = os.pathsep.join(map(str, (ROOT, ROOT / "spark_jobs", ROOT / "plugins")))
    argument_text = argument if isinstance(argument, str) else json.dumps(argument)
    run = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", *([] if alone else [name]), argument_text],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    if run.returncode:
        why = run.stderr.strip().splitlines()[-1:] or ["no output"]
        console.print(f"{title}: {why[0]}", style="red")
        return None
    figures: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    return figures


def cell(figures: dict[str, float] | None, base: dict[str, float] | None = None) -> str:
    """Thousand messages a second, and the ratio to `base`."""
    if figures is None:
        return "failed"
    text = f"{figures['rate'] / 1000:.0f}"
    return text if base is None else f"{text} ({figures['rate'] / base['rate']:.2f})"


def memory(figures: dict[str, float] | None) -> str:
    """Peak memory in MiB."""
    return "" if figures is None else f"{figures['peak_mb']:.0f}"


def convert_in_spark(topics: dict[str, Topic], envelopes: list[str]) -> None:
    """Every pair inside mapInArrow, beside orjson and the JVM."""
    table = Table(title="Convert in Spark, local[2], thousand messages/s (ratio to orjson alone)")
    for name in ("from", "orjson", "JVM json", *(f"to {e}" for e in envelopes), "peak MiB"):
        table.add_column(name, justify="left" if name == "from" else "right")
    for source in envelopes:
        topic = topics[source]
        base = measure("spark_orjson", topic)
        jvm = measure("spark_jvm", topic) if source in ("canal", "debezium-json") else None
        ours = [measure("spark_convert", topic, target=target) for target in envelopes]
        table.add_row(
            source,
            cell(base),
            cell(jvm, base) if jvm else "",
            *(cell(figures, base) for figures in ours),
            memory(max((f for f in ours if f), key=lambda f: f["peak_mb"], default=None)),
        )
    console.print(table)


def convert_in_process(topics: dict[str, Topic], envelopes: list[str]) -> None:
    """`waybill convert`, lines to lines, beside orjson and DuckDB."""
    table = Table(title="Convert in process, lines to lines, thousand messages/s (ratio to orjson)")
    names = ("from", "orjson", "DuckDB, 2 threads", "processes", *(f"to {e}" for e in envelopes))
    for name in (*names, "peak MiB"):
        table.add_column(name, justify="left" if name == "from" else "right")
    other_way = {"canal": "debezium-json", "debezium-json": "canal"}
    for source in envelopes:
        topic = topics[source]
        base = measure("orjson_lines", topic)
        duck = measure("duckdb_convert", topic) if source in other_way else None
        for processes in (1, 2):
            ours = {
                target: measure("in_process", topic, target=target, processes=processes)
                for target in envelopes
            }
            table.add_row(
                source if processes == 1 else "",
                cell(base) if processes == 1 else "",
                cell(duck) if duck and processes == 1 else "",
                str(processes),
                *(cell(figures, base) for figures in ours.values()),
                memory(max((f for f in ours.values() if f), key=lambda f: f["peak_mb"])),
            )
            mirror = ours.get(other_way.get(source, ""))
            if duck and mirror and processes == 2:
                ratio = mirror["rate"] / duck["rate"]
                console.print(f"{source} -> {other_way[source]}: {ratio:.2f} of DuckDB")
    console.print(table)


def pairs_in_memory(folder: Path, envelopes: list[str], name: str) -> None:
    """Every envelope into Debezium and out of it, in one process, nothing read or written."""
    table = Table(title="Pairs in memory, microseconds a message (ratio to the baseline)")
    table.add_column("envelope")
    names = ("baseline", "one by one", "to debezium-json", "from debezium-json", "its baseline")
    for title in names:
        table.add_column(title, justify="right")
    for envelope in envelopes:
        there, back = (
            in_its_own_process(
                f"{source} to {target}",
                "pairs",
                "pair",
                {"source": source, "target": target, "folder": str(folder), "name": name},
            )
            for source, target in ((envelope, BRIDGE), (BRIDGE, envelope))
        )
        cells = ["failed"] * 3 if there is None else _times(there, "base", "alone", "convert")
        cells += ["failed"] * 2 if back is None else _times(back, "convert", "base")
        table.add_row(envelope, *cells)
    console.print(table)


def _times(figures: dict[str, float], *names: str) -> list[str]:
    """Times, with the ratio to the baseline where they are of a conversion."""
    base = figures["base"]
    return [
        f"{figures[name]:.1f} ({base / figures[name]:.2f})"
        if name == "convert"
        else f"{figures[name]:.1f}"
        for name in names
    ]


def pairs_in_spark(topics: dict[str, Topic], envelopes: list[str]) -> None:
    """The same inside mapInArrow, beside orjson, or fastavro where values are Avro."""
    table = Table(title="Pairs in Spark, local[2], thousand messages/s (ratio to the baseline)")
    for name in ("envelope", "baseline", f"to {BRIDGE}", f"from {BRIDGE}", "its baseline"):
        table.add_column(name, justify="left" if name == "envelope" else "right")
    plain = measure("spark_orjson", topics[BRIDGE])
    for envelope in envelopes:
        topic = topics[envelope]
        avro = envelope in AVRO
        base = measure("spark_fastavro" if avro else "spark_orjson", topic)
        back = base if avro else plain
        table.add_row(
            envelope,
            cell(base),
            cell(measure("spark_convert", topic, target=BRIDGE), base),
            cell(measure("spark_convert", topics[BRIDGE], target=envelope), back),
            cell(back),
        )
    console.print(table)


def json_pairs_in_spark(folder: Path, envelopes: list[str], every: list[str], name: str) -> None:
    """Every JSON envelope into every other one, the ratio to orjson beside it."""
    title = "JSON to JSON in Spark, local[2], ratio to orjson's loads and dumps"
    table = Table(title=title, padding=0)
    texts = [envelope for envelope in every if envelope not in AVRO]
    table.add_column("from", min_width=max(map(len, texts)))
    for target in texts:
        table.add_column(target, justify="right", overflow="fold")
    for source in (envelope for envelope in envelopes if envelope in texts):
        given = {"source": source, "targets": texts, "folder": str(folder), "name": name}
        arguments_text = json.dumps(given)
        figures: Any = in_its_own_process(
            f"{source} to JSON", "json_pairs", "", arguments_text, alone=True
        )
        if figures is None:
            continue
        times = [figures[target] for target in texts]
        ratios = [one["base"] / one["convert"] for one in times]
        table.add_row(source, *(f"{ratio:.2f}" for ratio in ratios))
        console.print(f"{source} to JSON: {min(ratios):.2f} to {max(ratios):.2f} of orjson")
    console.print(table)


def every_envelope(
    parts: list[str], folder: Path, messages: int, keys: int, only: list[str] | None
) -> None:
    """The parts `pairs` and `json`, on topics of all envelopes."""
    every, name = write_all(folder, messages, keys), f"{messages}-{keys}"
    chosen = only or list(every)
    if "pairs" in parts:
        pairs_in_memory(folder, chosen, name)
        pairs_in_spark(every, chosen)
    if "json" in parts:
        json_pairs_in_spark(folder, chosen, list(every), name)


def lake_stages(topics: dict[str, Topic]) -> None:
    """Archive, convert and merge of a whole batch through the lake."""
    table = Table(title="Stages over the lake, local[2], thousand rows/s")
    for name in ("topic", "snapshot", "convert", "merge", "peak MiB"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for source in ("canal", "datahub-blob"):
        topic = topics[source]
        figures = measure("stages", topic)
        if figures is None:
            continue
        rates = [
            f"{topic.messages / figures[s] / 1000:.0f}" for s in ("snapshot", "convert", "merge")
        ]
        table.add_row(source, *rates, memory(figures))
    console.print(table)


def increments() -> None:
    """Increments of one size into tables of several, skewed keys, and a wide table."""
    from bench.merging import CHANGES

    table = Table(title=f"Merging {CHANGES:,} changes, local[2], seconds")
    for name in ("table", "rows", "load", "increments 2, 3, 4", "best of them", "peak MiB"):
        table.add_column(name, justify="left" if name == "table" else "right")
    cases = [
        ("4 columns", 500_000, "plain", False),
        ("4 columns", 8_000_000, "plain", False),
        ("4 columns, one key has half the changes", 500_000, "plain", True),
        ("320 columns", 50_000, "wide", False),
    ]
    best = []
    for title, base, shape, skewed in cases:
        given = {"base": base, "shape": shape, "skewed": skewed}
        figures: Any = in_its_own_process(title, "merging", "", given, alone=True)
        if figures is None:
            continue
        later = figures["increments"][1:]
        best.append(min(later))
        table.add_row(
            title,
            f"{base:,}",
            f"{figures['load']:.1f}",
            " ".join(f"{seconds:.1f}" for seconds in later),
            f"{min(later):.1f}",
            f"{figures['peak_mb']:.0f}",
        )
    console.print(table)
    if len(best) == len(cases):
        console.print(f"8 M rows take {best[1] / best[0]:.2f} times as long as 0.5 M")


def after_upkeep(batches: int) -> None:
    """Reading what many small batches made, before and after upkeep, beside one big batch."""
    title = f"Reading a table that {batches} batches made, local[2]"
    figures: Any = in_its_own_process(title, "upkeep", "", {"batches": batches}, alone=True)
    if figures is None:
        return
    table = Table(title=title)
    names = ("table", "rows", "seconds", "times one batch", "data files", "delete files")
    for name in (*names, "manifests"):
        table.add_column(name, justify="left" if name == "table" else "right")
    base = figures["one batch"]["seconds"]
    for title in ("before", "after", "one batch"):
        found = figures[title]
        table.add_row(
            title if title == "one batch" else f"{title} upkeep",
            f"{found['rows']:,}",
            f"{found['seconds']:.2f}",
            f"{found['seconds'] / base:.2f}",
            *(str(found[kind]) for kind in ("data_files", "delete_files", "manifests")),
        )
    console.print(table)
    console.print(f"batches: {figures['filled']} s, upkeep: {figures['upkeep']} s")


def looks() -> None:
    """Commands that look into a lake of a thousand batches, before and after upkeep."""
    from bench.many_batches import table_of

    if figures := in_its_own_process("looks", "many_batches", "", {"upkeep": True}, alone=True):
        console.print(table_of(figures))


def pages() -> None:
    """The pages in Airflow, with lakes on a disk and in object storage."""
    from bench.pages import STORES, table_of

    arguments = ({"store": store} for store in STORES)
    found: Any = (in_its_own_process("pages", "pages", "", one, alone=True) for one in arguments)
    console.print(table_of(list(filter(None, found))))


def from_kafka(topics: dict[str, Topic]) -> None:
    """A topic of a broker into the archive, beside the bare client."""
    table = Table(title="Kafka to the archive, local[2], broker on the same cores")
    for name in ("way", "seconds", "processor s", "thousand messages/s", "times the client"):
        table.add_column(name, justify="left" if name == "way" else "right")
    lines = str(topics["canal"].lines)
    figures: Any = in_its_own_process("kafka", "kafka", "", json.dumps(lines), alone=True)
    if figures is None:
        return
    for title, name in (("client alone, into Arrow", "alone"), ("stage snapshot", "stage")):
        seconds, cost = figures[name]
        rate, ratio = figures["messages"] / seconds / 1000, figures["alone"][0] / seconds
        table.add_row(title, f"{seconds:.1f}", f"{cost:.1f}", f"{rate:.0f}", f"{ratio:.2f}")
    console.print(table)


def to_kafka(topics: dict[str, Topic]) -> None:
    """An outbox into a topic, beside the bare client."""
    table = Table(title="Outbox to Kafka, exactly once, local[2], broker on the same cores")
    for name in ("way", "seconds", "thousand messages/s", "times the client", "peak MiB"):
        table.add_column(name, justify="left" if name == "way" else "right")
    lines = str(topics["canal"].lines)
    figures = in_its_own_process("kafka", "kafka_publish", "", json.dumps(lines), alone=True)
    if figures is None:
        return
    alone, sink = figures["alone"], figures["sink"]
    for title, seconds in (("client alone, from memory", alone), ("the sink", sink)):
        rate = figures["messages"] / seconds / 1000
        peak = memory(figures) if seconds is sink else ""
        table.add_row(title, f"{seconds:.1f}", f"{rate:.0f}", f"{alone / seconds:.2f}", peak)
    console.print(table)


def end_to_end(topics: dict[str, Topic]) -> None:
    """One topic through all stages into another, both of a broker."""
    table = Table(title="Canal to Debezium, topic to topic, local[2], broker on the same cores")
    for name in ("stage", "seconds", "thousand messages/s"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    lines = str(topics["canal"].lines)
    figures: Any = in_its_own_process("line", "line", "", json.dumps(lines), alone=True)
    if figures is None:
        return
    whole = sum(figures["seconds"].values())
    for stage, seconds in (*figures["seconds"].items(), ("all of them", whole)):
        table.add_row(stage, f"{seconds:.1f}", f"{figures['messages'] / seconds / 1000:.0f}")
    console.print(table)
    console.print(f"{figures['messages']:,} messages, peak {memory(figures)} MiB")


def in_the_lake(topics: dict[str, Topic]) -> None:
    """What a topic takes in the lake."""
    from bench.storage import table_of

    lines = str(topics["canal"].lines)
    for setting in ("all", "needed"):
        given = json.dumps([lines, setting])
        if figures := in_its_own_process("storage", "storage", "", given, alone=True):
            console.print(table_of(figures))


def by_hand(topics: dict[str, Topic]) -> None:
    """Decoding and merging a topic, beside Spark SQL written by hand and DuckDB."""
    table = Table(title="Decode and merge a Canal topic into an empty table, local[2]")
    for name in ("way", "seconds", "thousand messages/s", "times Spark SQL", "peak MiB"):
        table.add_column(name, justify="left" if name == "way" else "right")
    topic = topics["canal"]
    base = measure("sql_merge", topic)
    ways = {
        "Waybill: log, tombstones, exact numbers": measure("decode_and_merge", topic),
        "Spark SQL: from_json, max_by, Iceberg MERGE": base,
        "DuckDB: arg_max": measure("duckdb_merge", topic),
    }
    for title, figures in ways.items():
        if figures is not None:
            times = f"{figures['rate'] / base['rate']:.2f}" if base else ""
            rate = f"{figures['rate'] / 1000:.0f}"
            table.add_row(title, f"{figures['seconds']:.1f}", rate, times, memory(figures))
    console.print(table)


def peak_memory(folder: Path, sizes: list[int]) -> None:
    """Peaks of each process for inputs of several sizes."""
    from bench.memory import WAYS, topic_of

    table = Table(title="Canal to Debezium, peak resident memory in MiB by size of the input")
    table.add_column("conversion")
    for name in ("input MB", "messages", "seconds", "this process", "JVM", "largest worker"):
        table.add_column(name, justify="right")
    for size in sizes:
        with topic_of(folder / "memory", size) as (path, messages):
            for way in WAYS:
                figures = in_its_own_process(f"memory {way} {size} MB", "memory", way, str(path))
                if figures is not None:
                    peaks = [figures[name] for name in ("own", "jvm", "worker")]
                    shown = [f"{peak:,.0f}" if peak else "" for peak in peaks]
                    title = way.replace("_", " ")
                    table.add_row(
                        title, f"{size:,}", f"{messages:,}", f"{figures['seconds']:.0f}", *shown
                    )
    console.print(table)


def very_many_columns(envelopes: list[str]) -> None:
    """What messages of very many columns cost, beside orjson on the same bytes."""
    from bench.wide import CASES

    for case, title in CASES.items():
        table = Table(title=f"{title}: processor seconds (times orjson.loads), MiB")
        for name in ("envelope", "columns", "bytes", "orjson", "read", "MiB", "written", "MiB "):
            table.add_column(name, justify="left" if name == "envelope" else "right")
        for envelope in envelopes:
            arguments = {"envelope": envelope}
            figures = in_its_own_process(f"{envelope} {case}", "wide", case, arguments)
            if figures is not None:
                base, cells = figures["base"], []
                for way in ("read", "write"):
                    seconds = figures[f"{way}_seconds"]
                    cells += [
                        f"{seconds:.2f} ({seconds / base:.0f})",
                        f"{figures[way + '_mb']:.0f}",
                    ]
                sizes = (f"{figures[name]:,.0f}" for name in ("columns", "bytes"))
                table.add_row(envelope, *sizes, f"{base:.4f}", *cells)
        console.print(table)


def goals(topic: Topic, folder: Path, keys: int, only: list[str], scale: float, turns: int) -> None:
    """What the line is to cost."""
    twice = topic
    if not only or {"G2", "G11"} & set(only):
        writers = {"canal": WRITERS["canal"]}
        twice = write_topics(folder, 2 * topic.messages, 4 * keys, writers)["canal"]
    console.print(reached(topic, twice, folder, in_its_own_process, only, scale, turns))


@app.command()
def main(
    messages: Annotated[int, typer.Option(help="Changes in each generated topic.")] = 1_000_000,
    keys: Annotated[int, typer.Option(help="Rows that they change.")] = 100_000,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="spark, process, pairs, json, lake, kafka, line, merge, upkeep, looks, or goals, "
            "storage, memory, pages and wide (not by default)."
        ),
    ] = None,
    envelope: Annotated[list[str] | None, typer.Option(help="Only these envelopes.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the topics are kept.")] = ROOT / ".bench",
    size: Annotated[
        list[int] | None, typer.Option(help="Inputs for memory, in MB: 200 and 2000.")
    ] = None,
    batches: Annotated[int, typer.Option(help="Small batches before upkeep.")] = 100,
    goal: Annotated[list[str] | None, typer.Option(help="Only these goals, as G5.")] = None,
    scale: Annotated[
        float, typer.Option(help="Tables and batches of goals are so large, of what they say.")
    ] = 1.0,
    turns: Annotated[
        int, typer.Option(help="How often goals are measured, the first time to warm up.")
    ] = 3,
) -> None:
    """Measure conversion and stages beside the alternatives, on generated topics."""
    parts = only or [
        *("spark", "process", "pairs", "json", "lake", "kafka", "line", "merge", "upkeep", "looks")
    ]
    without_topics: dict[str, Callable[[], object]] = {
        "memory": lambda: peak_memory(folder, size or [200, 2_000]),
        "upkeep": lambda: after_upkeep(batches),
        "wide": lambda: very_many_columns(envelope or registry.names()),
        "looks": looks,
        "pages": pages,
    }
    for part in without_topics.keys() & set(parts):
        without_topics[part]()
    if set(parts) <= without_topics.keys():
        return
    if {"pairs", "json"} & set(parts):
        every_envelope(parts, folder, messages, keys, envelope)
    if set(parts) <= {"pairs", "json"}:
        return
    envelopes = [name for name in WRITERS if name in envelope] if envelope else list(WRITERS)
    writers = {name: WRITERS[name] for name in envelopes} if parts == ["process"] else WRITERS
    if set(parts) <= {"goals", "storage"}:
        writers = {"canal": WRITERS["canal"]}
    topics = write_topics(folder, messages, keys, writers)
    for topic in topics.values():
        size = topic.bytes / topic.messages
        console.print(f"{topic.envelope}: {topic.messages:,} messages, {size:.0f} bytes each")
    runs = {
        "spark": lambda: convert_in_spark(topics, envelopes),
        "process": lambda: convert_in_process(topics, envelopes),
        "lake": lambda: lake_stages(topics),
        "kafka": lambda: (from_kafka(topics), to_kafka(topics)),
        "line": lambda: end_to_end(topics),
        "merge": lambda: (by_hand(topics), increments()),
        "storage": lambda: in_the_lake(topics),
        "goals": lambda: goals(topics["canal"], folder, keys, goal or [], scale, turns),
    }
    for part, run in runs.items():
        if part in parts:
            run()


if __name__ == "__main__":
    app()
