"""What conversions cost, of every envelope beside the alternatives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.baselines import AVRO
from bench.figures import cell, console, in_its_own_process, measure, memory
from bench.written_topics import write_all

if TYPE_CHECKING:
    from bench.topics import Topic

BRIDGE = "debezium-json"
"""What every other envelope is converted to and from."""


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
