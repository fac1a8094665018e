"""LOB columns of OMS that an update did not touch, where messages cannot tell it of all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.histories import by_name, image
from waybill.bulk.block import Block
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

COLUMNS = {"id": "bigint", "n": "int", "note": "text", "doc": "json"}
TABLE = intern_schema(
    "shop",
    None,
    "orders",
    tuple(Column(name, parse_type(kind, "mysql"), kind) for name, kind in COLUMNS.items()),
    ("id",),
    "mysql",
)
RULES = TableRules({"shop.orders": TableRule(("id",), {c.name: c.type for c in TABLE.columns})})


def written(method: str, before: dict, after: dict) -> tuple[list[str], Change]:
    """What is counted when an update is written, and the change that is read again."""
    envelope = registry.get(method)
    message = Message("t", 0, 4, 5, None, None)
    rows = {"before": image(TABLE, **before), "after": image(TABLE, **after)}
    change = Change("update", TABLE, message, **rows, sequence=(1,))
    losses: list[str] = []
    encoder = envelope.encoder(envelope.encode_settings(lobs="unchanged"))
    (encoded,) = encoder.encode(change, losses)
    decoder = envelope.decoder(envelope.decode_settings(), RULES)
    (read,) = decoder.decode(Message("t", 0, 4, 5, None, encoded.value))
    return losses, read


@pytest.mark.parametrize(
    ("method", "as_null"),
    [
        ("oms-default", False),
        ("oms-extended", True),
        ("oms-canal", True),
        ("oms-dataworks", True),
        ("oms-shareplex", False),
    ],
)
def test_a_text_that_is_read_as_null_is_counted(method, as_null):
    """Without names of types nobody can tell a TEXT from a VARCHAR."""
    before, after = {"id": "1", "n": "1", "doc": None}, {"id": "1", "n": "2", "doc": "{}"}
    losses, read = written(method, before, after)
    assert ("unchanged_columns" in losses) is not as_null
    assert by_name(read.schema, read.after) == (after if as_null else {**after, "note": None})


@pytest.mark.parametrize("before", [{"id": "1"}, {"id": "1", "n": "1", "note": "x"}])
def test_a_change_to_null_is_not_written_as_a_column_that_was_not_touched(before):
    """OMS Canal tells the row before by changed columns: one that is not told looks alike."""
    after = {"id": "1", "n": "2", "note": "x", "doc": None}
    losses, read = written("oms-canal", before, after)
    assert by_name(read.schema, read.after) == after
    assert read.before is None
    assert losses.count("before_image") == 1
    with pytest.raises(Refusal, match="is null after a change of the key"):
        written("oms-canal", {**before, "id": "3"}, after)


TYPES = {"id": "INT64", "n": "INT", "doc": "JSON"}
OMS = ["oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex"]


def extended(before: dict, after: dict) -> Message:
    types = {"__light_type": {name: {"schemaType": kind} for name, kind in TYPES.items()}}
    meta = {"record_primary_key": "id", "table_name": "orders", "db": "shop", "dbType": "MYSQL"}
    message = {
        "prevStruct": {**before, **types},
        "postStruct": {**after, **types},
        "allMetaData": {**meta, "storeDataSequence": before["n"], "timestamp": "1609344671"},
        "recordType": "UPDATE",
    }
    return Message(
        "t", 0, before["n"], 1000, None, json.dumps(message, separators=(",", ":")).encode()
    )


def block_of(messages: list[Message]) -> Block:
    values = [message.value or b"" for message in messages]
    ends = np.cumsum([len(value) for value in values])
    offsets = np.array([message.offset for message in messages])
    begins, zeros = ends - [len(value) for value in values], np.zeros_like(offsets)
    times = zeros + 1000
    return Block(b"".join(values), begins, ends, zeros, offsets, times, messages.__getitem__)


def both_ways(target: str, messages: list[Message], **given: str) -> tuple[list, dict[str, int]]:
    """What messages become and what is counted, the same one by one and at once."""
    reads, writes = registry.get("oms-extended"), registry.get(target)
    found = []
    for in_bulk in (False, True):
        settings = reads.decode_settings(), writes.encode_settings(**given)
        converter = Converter(reads, writes, RULES, *settings, lambda *_: pytest.fail("refused"))
        out: list = []
        if in_bulk:
            bulk = BulkConverter(reads, writes, converter, fewest=1)
            for first in range(0, len(messages), 20):
                out += bulk.convert(block_of(messages[first : first + 20])).arrays()[1].to_pylist()
            assert bulk.in_bulk >= len(messages) / 2
        else:
            made: list = []
            converter.convert(messages, made, [])
            out = [one.value for one in made]
        found.append((out, dict(+converter.account.losses)))
    assert found[0] == found[1]
    return found[0]


WHOLE = ["oms-default", "oms-extended", "oms-canal"]
"""Formats whose rows have all columns; the others can leave some out."""


@pytest.mark.parametrize("target", OMS)
def test_a_column_that_oms_wrote_as_untouched_is_written_so_again(target):
    """The values of other updates go as they came, with a null in one image too."""
    docs = [(None, None), ('{"a":1}', '{"a":2}'), (None, "{}"), (None, None)]
    messages = [
        extended({"id": 1, "n": i, "doc": was}, {"id": 1, "n": i + 1, "doc": now})
        for i in range(1, 60)
        for was, now in [docs[i % 4]]
    ]
    settings = {} if target in WHOLE else {"lobs": "unchanged"}
    written, losses = both_ways(target, messages, **settings)
    assert not losses.keys() & {"unchanged_columns", "before_image"}
    untouched = written[3]
    assert untouched.count(b'"doc":null') == (1 if target in ("oms-canal", "oms-shareplex") else 2)
    left_out, counted = both_ways(target, messages, lobs="null")
    assert b'"doc":null' not in left_out[3]
    counts = target not in ("oms-dataworks", "oms-shareplex")
    assert counted.get("unchanged_columns", 0) == (
        counts and sum(i % 4 in (0, 3) for i in range(1, 60))
    )


def test_datahub_blob_counts_a_column_that_it_leaves_out():
    messages = [
        extended({"id": 1, "n": i, "doc": None}, {"id": 1, "n": i + 1, "doc": None})
        for i in range(1, 60)
    ]
    written, losses = both_ways("datahub-blob", messages)
    assert losses["unchanged_columns"] == len(messages)
    assert not any(b'"doc":' in value for value in written)


@pytest.mark.parametrize("target", OMS)
def test_what_is_read_as_null_is_not_written_as_untouched(target):
    envelope = registry.get(target)
    source = registry.get("oms-extended")
    read = source.decode_settings(lobs="null")
    assert envelope.encode_settings().for_source(source, read).lobs == "null"
    follows = envelope.encode_settings().for_source(source, source.decode_settings()).lobs
    assert follows == ("unchanged" if target in WHOLE else "null")
    chosen = envelope.encode_settings(lobs="null")
    assert chosen.for_source(source, source.decode_settings()).lobs == "null"
    canal = registry.get("canal")
    assert envelope.encode_settings().for_source(canal, canal.decode_settings()).lobs == "null"


def test_losses_that_follow_from_what_is_read_are_reported_before():
    oms, target = registry.get("oms-extended"), registry.get("oms-default")
    named = "with lobs: unchanged, a LOB column"
    assert oms.losses_to(target, {})["before_image"].startswith(named)
    assert "before_image" not in oms.losses_to(target, {"lobs": "null"})
    assert "before_image" not in oms.losses_to(target, {}, {"lobs": "null"})
    assert "before_image" not in registry.get("canal").losses_to(target, {})
