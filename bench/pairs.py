"""One pair of envelopes in memory, beside what it is measured against, in one process.

`python -m bench.pairs NAME ARGUMENTS` prints one JSON object: microseconds a message. Each round
runs both sides one after the other, and the best round of each counts, as the machine is noisy.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.baselines import AVRO, base_of
from bench.topics import DECLARED
from bench.written_topics import settings

if TYPE_CHECKING:
    from waybill.records import Message

MESSAGES = 30_000
ROUNDS = 7


def messages_of(path: Path) -> list[Message]:
    """The first messages of a topic."""
    from waybill.inprocess.kafka_files import read_messages

    found: list[Message] = []
    for some in read_messages(str(path), "bench", lambda _: None):
        found += some
        if len(found) >= MESSAGES:
            break
    return found[:MESSAGES]


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
    from waybill.inprocess.job import ConvertJob
    from waybill.spec import Table, table_rules

    root = Path(folder)
    rules = table_rules({n: Table.model_validate(table) for n, table in DECLARED.items()})
    job = ConvertJob(
        source,
        target,
        "-",
        "-",
        settings(source, root)[0],
        settings(target, root)[1],
        rules,
    )
    messages = messages_of(root / source / f"{name}.parquet")
    converter = job.converter(_refuse, keep_halves=True)

    def convert() -> None:
        converter.convert(messages, [], [])

    decoder = converter.decoder

    def decode() -> None:
        for message in messages:
            decoder.decode(message)

    works = {"convert": convert, "decode": decode, "base": _base(root, source, messages)}
    if source == "debezium-json" and target in AVRO:
        # Writing Avro is held against reading as much of it.
        written = messages_of(root / target / f"{name}.parquet")
        works["base"] = _base(root, target, written)
    return {"messages": len(messages), **best(works, len(messages))}


def _base(folder: Path, envelope: str, messages: list[Message]) -> Callable[[], None]:
    work = base_of(folder, envelope)
    values = [message.value for message in messages if message.value is not None]

    def run() -> None:
        for value in values:
            work(value)

    return run


def _refuse(message: Message, index: int, kind: str, sentence: str) -> None:
    text = f"offset {message.offset}, row {index}: {kind}: {sentence}"
    raise AssertionError(text)


if __name__ == "__main__":
    print(json.dumps(pair(**json.loads(sys.argv[2]))))
