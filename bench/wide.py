"""What messages of very many columns cost: one of 100,000, and many that bring new ones each.

`python -m bench --only wide` prints the table: seconds of the processor and memory for reading and
for writing, beside `orjson.loads` of the same bytes. Schemas of Avro and Databus count among these.
Each is measured in a process of its own, so that neither takes memory that the other left behind.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.records import Change, Column, Message, TableSchema, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

WIDE = 100_000
"""Columns of the one message, ten times as many as are taken without `max_columns`."""
AVRO_WIDE = {
    "debezium-avro": 10_000,
    **dict.fromkeys(("ibmcdc-avro", "databus-binary", "databus-json"), 16_000),
}
"""Fewer where an Avro schema tells how the bytes are read, of which every column takes most."""
MESSAGES, NEW = 40, 300
"""So many messages bring so many columns that no other message has."""
ROUNDS = 20
"""So often the baseline is timed."""

CASES = {"wide": "One message of 100,000 columns", "new": "40 messages of 300 new columns each"}


def tables(name: str, case: str) -> Iterator[TableSchema]:
    """The table of each message of an envelope."""
    shapes = (
        [(AVRO_WIDE.get(name, WIDE), 0)]
        if case == "wide"
        else [(NEW + n, n) for n in range(MESSAGES)]
    )
    text, number = parse_type("string"), parse_type("int64")
    for width, n in shapes:
        columns = (Column(f"p{n}_{i}", text) for i in range(width - 1))
        yield intern_schema("shop", None, "wide", (Column("id", number), *columns), ("id",))


def settings_of(envelope: Any) -> tuple[Any, Any]:
    """What reading and writing are told: the same, as far as both can be."""
    written, settings = envelope.encode_settings(), {}
    for name in envelope.decode_settings.model_fields:
        try:
            one = {name: getattr(written, name)}
            envelope.decode_settings(**one)
        except (AttributeError, ValidationError):
            continue
        settings |= one
    return envelope.decode_settings(**settings), written


def measure(name: str, case: str) -> dict[str, float]:
    """Seconds and MiB of reading and writing, and seconds of the baseline."""
    envelope = registry.get(name)
    if envelope.decoder is None or envelope.encoder is None:
        raise ValueError(f"{name} is not both read and written")
    encoder = envelope.encoder(settings_of(envelope)[1])
    messages: list[Message] = []
    changes = 0
    started, before = time.process_time(), _peak()
    for n, schema in enumerate(tables(name, case)):
        origin = Message("topic", 0, n, 1_700_000_000_000, None, None)
        row = schema.Image("1", *("x" for _ in schema.columns[1:]))
        change = Change("insert", schema, origin, after=row, sequence=(n + 1,))
        changes += 1
        for one in encoder.encode(change, []):
            place = len(messages)
            sent = Message("topic", 0, place, origin.timestamp, one.key, one.value, one.headers)
            messages.append(sent)
    written, full = time.process_time() - started, _peak()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        read, seconds, grown = other.submit(read_measured, name, messages).result()
    if read != changes:
        raise ValueError(f"of {changes} changes in {name} {read} were read")
    values = [part for message in messages for part in _parts(message)]
    return {
        "columns": sum(len(schema.columns) for schema in tables(name, case)),
        "bytes": sum(map(len, values)),
        "write_seconds": written,
        "write_mb": full - before,
        "read_seconds": seconds,
        "read_mb": grown,
        "base": _base(values),
    }


def read_measured(name: str, messages: list[Message]) -> tuple[int, float, float]:
    """How many changes were read, in how many seconds, and MiB that it took."""
    envelope = registry.get(name)
    assert envelope.decoder is not None
    decoder = envelope.decoder(settings_of(envelope)[0], _rules())
    started, before, read = time.process_time(), _peak(), 0
    for message in messages:
        read += sum(change.outcome == "ok" for change in decoder.decode(message))
    return read, time.process_time() - started, _peak() - before


def _rules() -> TableRules:
    rules = TableRules({"shop.wide": TableRule(("id",), {})})
    rules.max_columns = WIDE
    return rules


def _parts(message: Message) -> Iterator[bytes]:
    """What of a message the baseline reads."""
    yield message.value or b""
    yield from (content for _, content in message.headers or () if content)


def _base(values: list[bytes]) -> float:
    """Seconds of `orjson.loads` of the same bytes; binary ones as a text of so many bytes."""
    texts = [value if _is_json(value) else orjson.dumps("x" * len(value)) for value in values]
    started = time.process_time()
    for _ in range(ROUNDS):
        for text in texts:
            orjson.loads(text)
    return (time.process_time() - started) / ROUNDS


def _is_json(value: bytes) -> bool:
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return True


def _peak() -> float:
    """The most memory that this process has taken, in MiB.

    What getrusage tells counts that of the process which started this one, too.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main(case: str, argument: str) -> None:
    """Measure one envelope and print the figures as JSON."""
    print(json.dumps(measure(json.loads(argument)["envelope"], case)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
