"""Converting many messages at once gives what converting them one by one does, counts included."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import EFFORT, properties
from tests.contract.outcomes import good_streams
from tests.contract.roundtrip import read_settings, rules_for, write_settings
from tests.contract.settings import chosen
from tests.histories import SOURCE_TYPES, column_of, image
from tests.value_texts import HARD, edges_of
from waybill.bulk.block import Block, lines_block
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.inprocess.line_blocks import without_broken
from waybill.records import Change, Message, intern_schema
from waybill.sources.streams import BLANKS

if TYPE_CHECKING:
    from waybill.tables import TableRules

BINARY = ("avro", "binary")
"""How names of envelopes end whose messages are no lines; `test_bulk_avro` is for these."""
IN_HEADERS = "databus-json"
"""Its messages bring their schema in headers, which lines have none of; `test_bulk_databus`."""
LINES = [name for name in registry.names() if not name.endswith(BINARY) and name != IN_HEADERS]
READ = [name for name in LINES if registry.get(name).bulk_reader is not None]
WRITTEN = [name for name in LINES if registry.get(name).bulk_writer is not None]


def some_pairs(*steps: int) -> Any:
    """Every envelope read, and written, as often as there are steps; with more effort all pairs.

    What is read and what is written meet in `Rows` only, so that a pair has little of its own.
    """
    found = [
        (source, WRITTEN[(place + step) % len(WRITTEN)])
        for place, source in enumerate(READ)
        for step in steps
    ]
    if EFFORT > 1:
        found = list(itertools.product(READ, WRITTEN))
    return pytest.mark.parametrize(("source", "target"), found)


pairs = some_pairs(0, len(WRITTEN) // 2)


class Outcome:
    """What a converter made, refused and counted."""

    def __init__(
        self, source: str, target: str, rules: TableRules, read: Any = None, written: Any = None
    ) -> None:
        reads, writes = registry.get(source), registry.get(target)
        self.refused: list[tuple[int, int, str, str]] = []
        self.values: list[bytes | None] = []
        self.converter = Converter(
            reads,
            writes,
            rules,
            reads.decode_settings() if read is None else read,
            writes.encode_settings() if written is None else written,
            lambda message, index, kind, why: self.refused.append(
                (message.offset, index, kind, why)
            ),
        )
        self.bulk = BulkConverter(reads, writes, self.converter, fewest=1)

    def finish(self) -> dict[str, Any]:
        self.converter.finish()
        account = self.converter.account
        return {
            "values": self.values,
            "refused": sorted(self.refused),
            "losses": +account.losses,
            "skipped": +account.skipped,
            "extra": +account.extra,
        }


def one_by_one(outcome: Outcome, lines: list[bytes]) -> dict[str, Any]:
    out: list[Any] = []
    origins: list[Message] = []
    messages = [
        Message("topic", 0, offset, None, None, line)
        for offset, line in enumerate(lines)
        if line not in BLANKS
    ]
    outcome.converter.convert(messages, out, origins)
    out, _ = without_broken(out, origins, outcome.converter)
    outcome.values = [encoded.value for encoded in out]
    return outcome.finish()


def in_bulk(outcome: Outcome, lines: list[bytes], blocks: int = 8) -> dict[str, Any]:
    size = max(len(lines) // blocks, 1)
    for first in range(0, len(lines), size):
        text = b"\n".join(lines[first : first + size])
        block, _ = lines_block(text, "topic", first, BLANKS)
        converted = outcome.bulk.convert(
            block, lambda out, origins: without_broken(out, origins, outcome.converter)
        )
        text = converted.lines(0, len(converted))
        found = bytes(text).split(b"\n")[:-1]
        assert len(found) == len(converted)
        outcome.values += found
    return outcome.finish()


def agree(
    source: str,
    target: str,
    lines: list[bytes],
    rules: TableRules,
    read: Any = None,
    written: Any = None,
) -> int:
    """Hold both ways against each other; returns how many messages were written at once."""
    expected = one_by_one(Outcome(source, target, rules, read, written), lines)
    outcome = Outcome(source, target, rules, read, written)
    found = in_bulk(outcome, lines)
    for place, (one, other) in enumerate(
        itertools.zip_longest(expected["values"], found["values"])
    ):
        assert one == other, f"message {place} written"
    assert found == expected
    return outcome.bulk.in_bulk


KINDS = {
    dialect: [kind for kind in kinds if kind not in ("interval", "geometry")]
    for dialect, kinds in SOURCE_TYPES.items()
}


def text_of(dice: random.Random, column: Any, hard: bool) -> str:
    texts = edges_of(column.type)
    if hard and column.type.kind in HARD:
        texts = texts + HARD[column.type.kind]
    return dice.choice(texts)


def stream(
    source: str, dice: random.Random, size: int, settings: Any = None
) -> tuple[list[bytes], TableRules]:
    """Lines of one table as the envelope writes them, most of one shape, and its declaration."""
    dialect = dice.choice(["mysql", "mysql", "postgresql", ""])
    names = ["id", *dice.sample(["name", "amount", "at", "列", "a b", "op", "f0", "x:y"], 4)]
    kinds = ["bigint" if dialect else "int64", *(dice.choice(KINDS[dialect]) for _ in names[1:])]
    columns = [column_of(name, kind, dialect) for name, kind in zip(names, kinds, strict=True)]
    schema = intern_schema("shop", None, "orders", tuple(columns), ("id",), dialect)
    envelope = registry.get(source)
    encoder = envelope.encoder(settings or write_settings(envelope))  # type: ignore[misc]
    hard = dice.random() < 0.3
    sequenced, timed = dice.random() < 0.6, dice.random() < 0.9
    sparse = dice.random() < 0.3
    transaction = dice.choice([None, None, "gtid:7", 'a"b'])

    def row(key: int) -> dict[str, str | None]:
        values: dict[str, str | None] = {"id": str(key)}
        for column in columns[1:]:
            values[column.name] = None if dice.random() < 0.1 else text_of(dice, column, hard)
        return values

    lines: list[bytes] = []
    stored: dict[int, dict[str, str | None]] = {}
    changes: list[Change] = []
    for number in range(size):
        key = dice.randrange(6)
        was, now = stored.get(key), row(key)
        operation = "insert" if was is None else dice.choice(["update", "update", "delete"])
        if operation == "update" and was is not None:
            kept = dice.sample(names, dice.randrange(len(names)))
            now = {**now, **{name: was[name] for name in kept}}
            if dice.random() < 0.05:
                now = {**now, "id": str(key + 100)}
        shown = now
        if sparse and operation == "update" and was is not None:
            same = [name for name in names[1:] if now[name] == was[name]]
            left_out = dice.sample(same, dice.randrange(len(same) + 1))
            shown = {name: text for name, text in now.items() if name not in left_out}
        moment = 1_700_000_000_123_456 + number * dice.choice([1, 1000, 1_000_000])
        change = Change(
            operation,
            schema,
            Message("topic", 0, number, None if timed else 1_700_000_000_000, None, None),
            before=None if was is None else image(schema, **was),
            after=None if operation == "delete" else image(schema, **shown),
            sequence=(1_700_000_000_000_000_000 + number,) if sequenced else None,
            source_time=moment if timed else None,
            transaction=transaction,
        )
        stored.pop(key, None)
        if operation != "delete":
            stored[key] = now
        changes.append(change)
        try:
            lines += [e.value for e in encoder.encode(change, []) if e.value is not None]
        except Refusal:
            continue
    return [line for line in lines if b"\n" not in line], rules_for(envelope, [schema])


def settings_for(source: str) -> Any:
    envelope = registry.get(source)
    return read_settings(envelope, write_settings(envelope))


@pairs
@properties(4)
@given(seed=st.integers(0, 2**32))
def test_streams(source, target, seed):
    dice = random.Random(seed)
    lines, rules = stream(source, dice, 60)
    agree(source, target, lines, rules, settings_for(source))


NEEDS_A_SCHEMA = "shape"
"""A setting whose messages are read with the topic's schema only."""


@pairs
@properties(3)
@given(seed=st.integers(0, 2**32))
def test_streams_under_any_settings(source, target, seed):
    dice = random.Random(seed)
    reads, writes = registry.get(source), registry.get(target)
    settings = reads.encode_settings(**chosen(reads, dice, (NEEDS_A_SCHEMA,)))
    written = writes.encode_settings(**chosen(writes, dice, (NEEDS_A_SCHEMA,)))
    lines, rules = stream(source, dice, 60, settings)
    agree(source, target, lines, rules, read_settings(reads, settings), written)


@pairs
@properties(3)
@given(seed=st.integers(0, 2**32))
def test_damaged_streams(source, target, seed):
    """Some lines are damaged, doubled, missing, blank, or written with blanks between."""
    dice = random.Random(seed)
    lines, rules = stream(source, dice, 60)
    lines = list(itertools.chain.from_iterable(damaged(dice, line) for line in lines))
    agree(source, target, lines, rules, settings_for(source))


def damaged(dice: random.Random, line: bytes) -> list[bytes]:
    how = dice.randrange(24)
    at = dice.randrange(len(line) + 1)
    if how == 0:
        return [line[:at] + dice.randbytes(dice.randrange(3)).replace(b"\n", b"") + line[at + 1 :]]
    if how == 1:
        return [line[:at]]
    others = {
        2: [line, line],
        3: [],
        4: [line, b"", b"\r"],
        8: [line + dice.choice([b" ", b"\t ", b"\r", b"  \r"])],
        9: [dice.choice([b" ", b"\t\t", b"        "]) + line],
    }
    if how in others:
        return others[how]
    if how == 5:
        return [line.replace(b":", b": ", 1)]
    if how == 6:
        digits = [i for i, byte in enumerate(line) if chr(byte).isdigit()]
        return [line[: (i := dice.choice(digits))] + dice.choice(DIGITS) + line[i + 1 :]]
    if how == 7:
        words = [b"null", b"true", b'""', b'"x"', b"1", b"1.0", b"1e2", b"-0", b"[]", b"{}"]
        at = line.find(b":", at)
        end = min(i for i in (line.find(b",", at), len(line) - 1) if i >= 0)
        return [line[: at + 1] + dice.choice(words) + line[end:]]
    return [line]


DIGITS = [
    b"0",
    b"9",
    b"00",
    b"-",
    b"99999999999999999999",
    b".",
    b"e1",
    b"\xff",
    "é".encode(),
    b"\\",
]


@some_pairs(1)
def test_golden_messages(source, target):
    """Every golden message several times, so that its form is known when it comes again."""
    for messages, rules, settings in good_streams(source):
        lines = [m.value for m in messages if m.value and b"\n" not in m.value]
        agree(source, target, lines * 6, rules, settings)


@pairs
def test_most_messages_are_converted_at_once(source, target):
    """What the bench measures: a plain table, no sequence of several parts, no transactions."""
    dice = random.Random(7)
    columns = [("id", "bigint"), ("name", "varchar(20)"), ("n", "int"), ("at", "datetime(6)")]
    made = [column_of(name, kind, "mysql") for name, kind in columns]
    schema = intern_schema("shop", None, "people", tuple(made), ("id",), "mysql")
    envelope = registry.get(source)
    encoder = envelope.encoder(write_settings(envelope))  # type: ignore[misc]
    lines: list[bytes] = []
    for number in range(400):
        row = {
            "id": str(number),
            "name": dice.choice(["Ann", "Bob"]),
            "n": str(dice.randrange(100)),
            "at": f"2024-02-29T23:59:59.{number:06}",
        }
        now = {**row, "name": "Cleo", "at": f"2024-03-01T00:00:00.{number:06}"}
        operation = ("insert", "update", "delete")[number % 3]
        change = Change(
            operation,
            schema,
            Message("topic", 0, number, None, None, None),
            before=None if operation == "insert" else image(schema, **row),
            after=None if operation == "delete" else image(schema, **now),
            # As the number of a binlog file, too, it has room in every target.
            sequence=(1_700 + number,),
            source_time=1_700_000_000_000_000 + number * 1_000_000,
        )
        lines += [e.value for e in encoder.encode(change, []) if e.value is not None]
    written = agree(source, target, lines, rules_for(envelope, [schema]), settings_for(source))
    # Decoders that remember tables read the first blocks on their own.
    assert written >= 250


@pytest.mark.parametrize("target", WRITTEN)
def test_what_a_row_lacks_is_null_in_the_row_before(target):
    """Then no message tells the type of the column, which is counted."""
    columns = [column_of(name, "string", "") for name in ("id", "note")]
    schema = intern_schema("shop", None, "people", tuple(columns), ("id",), "")
    ogg = registry.get("ogg")
    encoder = ogg.encoder(write_settings(ogg))  # type: ignore[misc]
    lines: list[bytes] = []
    for number in range(200):
        key = {"id": str(number)}
        change = Change(
            "update",
            schema,
            Message("topic", 0, number, None, None, None),
            before=image(schema, **key, note=None if number % 3 else "x"),
            after=image(schema, **key),
        )
        lines += [e.value for e in encoder.encode(change, []) if e.value is not None]
    agree("ogg", target, lines, rules_for(ogg, [schema]), settings_for("ogg"))


def test_keys_and_places_of_an_arrow_batch():
    """Blocks of Arrow tell partition, offset and key of each message."""
    lines, rules = stream("canal", random.Random(3), 30)
    expected = Outcome("canal", "canal", rules)
    messages = [
        Message("t", i % 3, 100 + i // 3, 1_700_000_000_000 + i, None, line)
        for i, line in enumerate(lines)
    ]
    out: list[Any] = []
    expected.converter.convert(messages, out, [])
    found = Outcome("canal", "canal", rules)
    ends = np.cumsum([len(line) for line in lines])
    block = Block(
        b"".join(lines),
        ends - [len(line) for line in lines],
        ends,
        np.array([message.partition for message in messages]),
        np.array([message.offset for message in messages]),
        np.array([message.timestamp for message in messages]),
        messages.__getitem__,
    )
    keys, values = found.bulk.convert(block).arrays()
    assert keys.to_pylist() == [encoded.key for encoded in out]
    assert values.to_pylist() == [encoded.value for encoded in out]
