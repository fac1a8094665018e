"""A time is held against its column's type when it is read, in every envelope and in both ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.histories import image
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.bulk.arena import Arena, Texts
from waybill.bulk.typed_values import _misplaced, plainly
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.converter import Converter
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.records import Change, Column, Message, intern_schema
from waybill.row_times.typed import TIMES, kind_of, times_check
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.protocol import Encoded
    from waybill.row_times.typed import Check

VALUES = {
    "date": ["2020-02-29", "0001-01-01"],
    "time": ["00:00:00", "23:59:59.123456789", "-838:59:59", "100:00:00.5"],
    "timestamp": ["2020-02-29T01:02:03", "2020-02-29T01:02:03.123456789012"],
    "timestamptz": ["2020-02-29T01:02:03Z", "2020-02-29T01:02:03.5Z"],
    "number": ["0", "-1", "1126827447.5", "1e10"],
}
NO_TIMES = [
    *("0000-00-00", "0000-00-00 00:00:00", "2020-02-30", "infinity", "-infinity", "12:00", "24:00"),
    *("2020-02-30T01:02:03", "0044-03-15 BC", "10000-01-01", "+294276-12-31T00:00:00"),
    *("2016-12-31T23:59:60", "2020-02-00 00:00:00.5", "2020-02-30T01:02:03+08", "5874897-12-31"),
]
"""What databases hold although it is in no calendar."""
WORDS = [
    *("", "abc", "2020-13-01", "2020-01-32", "2020-01-01T25:00:00", "2020-01-01T00:60:00", "AA=="),
    *("99:60:00", "839:00:00", "2020/01/01", "{}", "2020-01-01x", "2020-01-01Tab:cd:ef", "nan"),
    *("2020-01-01T00:00:00.", "2020-01-01T00:00:00.x", "2020-01-01T00:00:0012", "20-01-01"),
]
ZONED = ["2020-02-29 01:02:03+08", "2020-02-29T01:02:03.5-03:30", "2020-02-29T01:02:03 +0800"]


def test_every_text_is_what_it_is():
    for kind, texts in VALUES.items():
        assert {kind_of(text) for text in texts} == {kind}
    assert {kind_of(text) for text in [*NO_TIMES, *WORDS]} == {None}
    assert {kind_of(text) for text in ZONED} == {"timestamptz"}


def fits(kind: str, text: str | None) -> bool:
    schema = intern_schema("d", None, "t", (Column("v", parse_type(kind)),), None)
    check = times_check(schema)
    assert check is not None
    row = image(schema, v=text)
    change = Change("insert", schema, Message("t", 0, 0, None, None, None), after=row)
    sentence = refusal_of(check, change)
    assert sentence is None or ("'v'" in sentence and "declare" in sentence)
    return sentence is None


def refusal_of(check: Check, change: Change) -> str | None:
    try:
        check(change)
    except Refusal as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("kind", sorted(TIMES))
def test_what_is_another_kind_of_value_is_refused(kind):
    for found, texts in VALUES.items():
        for text in texts:
            assert fits(kind, text) is (found == kind), text
    for text in [None, *NO_TIMES]:
        assert fits(kind, text), text
    for text in ZONED:
        assert fits(kind, text) is (kind == "timestamptz"), text
    for text in WORDS:
        assert not fits(kind, text), text


@pytest.mark.parametrize("kind", sorted(TIMES))
def test_many_at_once_are_refused_as_one_by_one(kind):
    texts = [text for group in (*VALUES.values(), NO_TIMES, ZONED, WORDS) for text in group]
    arena = Arena(b"x" * 40)
    starts = np.array([arena.add(text.encode()) for text in texts])
    lengths = np.array([len(text) for text in texts])
    good = plainly(arena, Texts(starts, lengths), kind)
    wrong = _misplaced(arena, Texts(starts, lengths), kind)
    for text, passes, refused in zip(texts, good.tolist(), wrong.tolist(), strict=True):
        assert not passes or fits(kind, text), text
        assert refused is not fits(kind, text), text
    assert good[[texts.index(text) for text in VALUES[kind][:2]]].all()


OGG = {"table": "d.t", "op_type": "I", "pos": "1", "primary_keys": ["id"]}


def ogg(number: int, text: str) -> bytes:
    return json.dumps({**OGG, "pos": str(number), "after": {"id": number, "v": text}}).encode()


def converted(lines: list[bytes], kind: str, **settings: str) -> tuple[int, list[str]]:
    """How many rows of GoldenGate were taken, and why others were not."""
    source, target = registry.get("ogg"), registry.get("canal")
    rules = TableRules({"d.t": TableRule(("id",), {"v": parse_type(kind)})})
    why: list[str] = []
    converter = Converter(
        source,
        target,
        rules,
        source.decode_settings(**settings),
        target.encode_settings(),
        lambda message, index, kind, sentence: why.append(f"{kind}: {sentence}"),
    )
    out: list[Encoded] = []
    messages = [Message("t", 0, n, None, None, line) for n, line in enumerate(lines)]
    converter.convert(messages, out, [])
    return len(out), why


def test_a_wall_clock_of_goldengate_needs_a_zone_to_be_an_instant():
    lines = [ogg(1, "2020-03-01 05:00:00.000000")]
    taken, why = converted(lines, "timestamptz")
    assert taken == 0
    assert "'v'" in why[0]
    assert "wall clock without zone" in why[0]
    taken, why = converted(lines, "timestamptz", column_timezone="Asia/Shanghai")
    assert (taken, why) == (1, [])


def test_the_zone_moves_the_clock_and_leaves_offsets_alone():
    envelope = registry.get("ogg")
    rules = TableRules({"d.t": TableRule(("id",), {"v": parse_type("timestamptz")})})
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(column_timezone="Asia/Shanghai"), rules)
    texts = ["2020-03-01 05:00:00.5", "2020-03-01:05:00:00", "2020-03-01 05:00:00 +00:00"]
    found = [
        decoder.decode(Message("t", 0, n, None, None, ogg(n, text)))[0].after.f1
        for n, text in enumerate(texts)
    ]
    assert found == ["2020-02-29T21:00:00.5Z", "2020-02-29T21:00:00Z", "2020-03-01T05:00:00Z"]


@pytest.mark.parametrize("bulk", [False, True])
def test_rows_of_changes_are_refused_the_same_way(bulk):
    """The way of the lake: the message goes to quarantine, its neighbours are taken."""
    lines = [ogg(n, "2020-03-01 05:00:00") for n in range(1, 30)]
    lines[7] = ogg(8, "1126827447.5")
    envelope = registry.get("ogg")
    rules = TableRules({"d.t": TableRule(("id",), {"v": parse_type("timestamp")})})
    assert envelope.decoder is not None
    assert envelope.bulk_reader is not None
    decoder = envelope.decoder(envelope.decode_settings(), rules)
    work = ChangeBatches(decoder, "batch")
    size = len(lines)
    archive = pa.record_batch(
        {
            "topic": pa.array(["t"] * size),
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "timestamp": pa.array([0] * size, TIMESTAMP),
            "key": pa.array([None] * size, pa.binary()),
            "value": pa.array(lines, pa.binary()),
            "headers": pa.array([None] * size, HEADERS),
        }
    )
    if bulk:
        rows = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1).rows(archive)
    else:
        (rows,) = work.convert(iter([archive]))
    found = [row for row in rows.to_pylist() if row["outcome"] != "schema"]
    assert [row["offset"] for row in found if row["outcome"] == "refused"] == [7]
    assert sum(row["outcome"] == "ok" for row in found) == size - 1
    (reason,) = [row["reason"] for row in found if row["outcome"] == "refused"]
    assert "a number" in reason
