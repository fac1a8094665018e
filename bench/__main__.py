"""The figures of docs/performance.md, side by side, each in a process of its own.

`make bench` measures `PARTS`; those of `AT_REQUEST` are named with `--only`. What verifying costs
is measured by `bench.verifying` alone. Where nobody says how large a topic is, it is as large as
those of the goals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bench.conversions import (
    convert_in_process,
    convert_in_spark,
    every_envelope,
    very_many_columns,
)
from bench.figures import ROOT, console, in_its_own_process, measure, memory
from bench.goals.report import GOALS, reached
from bench.topics import WRITERS, Topic, write_topics
from waybill.envelopes import registry
from waybill.report import STAGES
from waybill.suggestions import unknown

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PARTS = ("spark", "process", "pairs", "json", "lake", "kafka", "line", "merge", "upkeep", "looks")
AT_REQUEST = ("goals", "storage", "cluster", "tables", "memory", "pages", "wide")
"""What is measured by default, and what only if it is asked for."""


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


def tables(number: int) -> None:
    """A topic of very many tables."""
    from bench.many_tables import table_of

    given = {"tables": number, "touched": 50}
    if figures := in_its_own_process("tables", "many_tables", "", given, alone=True):
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
    names = ("seconds", "thousand messages/s", "processor µs a message", "this process, MiB")
    for name in ("stage", *names, "JVM", "largest worker"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    lines = str(topics["canal"].lines)
    figures: Any = in_its_own_process("line", "line", "", json.dumps(lines), alone=True)
    if figures is None:
        return
    messages = figures["messages"]
    rows = [(stage, figures["seconds"][stage], figures["cpu"][stage]) for stage in figures["cpu"]]
    rows.append(("all of them", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    for stage, seconds, used in rows:
        peaks = figures["memory"].get(stage, {})
        table.add_row(
            stage,
            f"{seconds:.1f}",
            f"{messages / seconds / 1000:.0f}",
            f"{used / messages * 1e6:.1f}",
            *(f"{peaks[kind]:,}" if peaks.get(kind) else "" for kind in ("own", "jvm", "worker")),
        )
    console.print(table)
    console.print(f"{messages:,} messages")


def on_a_cluster(topics: dict[str, Topic]) -> None:
    """One topic through all stages on local cores, and on a cluster of two workers."""
    lines = str(topics["canal"].lines)
    figures: Any = in_its_own_process("cluster", "cluster", "", json.dumps(lines), alone=True)
    if figures is None:
        return
    ways = {way: found for way, found in figures.items() if isinstance(found, dict)}
    table = Table(title="Canal to Debezium, files to files, seconds (of the processor)")
    for name in ("stage", *ways):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in STAGES:
        both = [(found["seconds"][stage], found["cpu"][stage]) for found in ways.values()]
        table.add_row(stage, *(f"{seconds:.1f} ({used:.1f})" for seconds, used in both))
    sums = [[sum(found[kind].values()) for kind in ("seconds", "cpu")] for found in ways.values()]
    table.add_row("all of them", *(f"{seconds:.1f} ({used:.1f})" for seconds, used in sums))
    console.print(table)
    console.print(f"{figures['messages']:,} messages")


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


def goals(topic: Topic, folder: Path, keys: int, only: list[str], scale: float, turns: int) -> None:
    """What the line is to cost."""
    twice = topic
    if not only or {"G2", "G11"} & set(only):
        writers = {"canal": WRITERS["canal"]}
        twice = write_topics(folder, 2 * topic.messages, 4 * keys, writers)["canal"]
    console.print(reached(topic, twice, folder, in_its_own_process, only, scale, turns))


def chosen(option: str, what: str, given: list[str] | None, known: Collection[str]) -> list[str]:
    """The names that an option was given, one at a time or several with commas between them.

    Raises:
        typer.BadParameter: one of them is none of those known.
    """
    names = [name.strip() for text in given or () for name in text.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(unknown(what, name, known), param_hint=f"--{option}")
    return names


@app.command()
def main(
    messages: Annotated[int, typer.Option(help="Changes in each generated topic.")] = 1_000_000,
    keys: Annotated[int, typer.Option(help="Rows that they change.")] = 50_000,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{', '.join(PARTS)}, or {', '.join(AT_REQUEST[:-1])} and {AT_REQUEST[-1]} "
            "(not by default)."
        ),
    ] = None,
    envelope: Annotated[list[str] | None, typer.Option(help="Only these envelopes.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the topics are kept.")] = ROOT / ".bench",
    size: Annotated[
        list[int] | None, typer.Option(help="Inputs for memory, in MB: 200 and 2000.")
    ] = None,
    batches: Annotated[int, typer.Option(help="Small batches before upkeep.")] = 100,
    many: Annotated[
        int, typer.Option("--tables", min=50, help="Tables of the topic that has very many.")
    ] = 1_000,
    goal: Annotated[list[str] | None, typer.Option(help="Only these goals, as G5.")] = None,
    scale: Annotated[
        float, typer.Option(help="Tables and batches of goals are so large, of what they say.")
    ] = 1.0,
    turns: Annotated[
        int, typer.Option(help="How often goals are measured, the first time to warm up.")
    ] = 3,
) -> None:
    """Measure conversion and stages beside the alternatives, on generated topics."""
    parts = chosen("only", "part", only, [*PARTS, *AT_REQUEST]) or list(PARTS)
    envelope = chosen("envelope", "envelope", envelope, registry.names())
    wanted = chosen("goal", "goal", goal, GOALS)
    without_topics: dict[str, Callable[[], object]] = {
        "memory": lambda: peak_memory(folder, size or [200, 2_000]),
        "upkeep": lambda: after_upkeep(batches),
        "wide": lambda: very_many_columns(envelope or registry.names()),
        "looks": looks,
        "tables": lambda: tables(many),
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
    if set(parts) <= {"goals", "storage", "cluster", "kafka", "line"}:
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
        "cluster": lambda: on_a_cluster(topics),
        "storage": lambda: in_the_lake(topics),
        "goals": lambda: goals(topics["canal"], folder, keys, wanted, scale, turns),
    }
    for part, run in runs.items():
        if part in parts:
            run()


if __name__ == "__main__":
    app()
