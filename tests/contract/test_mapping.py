"""Mapped changes: by columns as one by one, in every envelope, and as the gate reads them again."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from tests.contract.bulk_streams import STREAMS, Stream
from tests.contract.test_bulk_avro import batch_of
from tests.contract.test_damaged_ids import FEW, ORIGINS, Batch, settings_of
from waybill.batches.change_rows import ChangeRows
from waybill.batches.decoding import ChangeBatches
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.batches.mapped_encoding import MappedMessageBatches
from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.lake_columns import CHANGES, OUTBOX
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import Added, Join, MappingRule, Mask, Rules
from waybill.validate.comparing import MINE, THEIRS, Comparison
from waybill.validate.readers import readers_of

if TYPE_CHECKING:
    from waybill.records import Change
    from waybill.tables import TableRules

NAMES = registry.names()
EVERYTHING = MappingRule(
    ("*",),
    {"table": "the_{table}"},
    masks={"na*": Mask("hmac", "secret"), "note": Mask("null"), "c*": Mask("sha256")},
    rename={"amount": "sum", "n": "number_of_it"},
    add={
        "from_shop": Added("constant", "eü"),
        "from_table": Added("table"),
        "changed_at": Added("source_time"),
        "how_": Added("operation"),
        "place_": Added("sequence"),
    },
)
RULES = {
    "all": Rules(of_tables=(EVERYTHING,)),
    "where true": Rules(of_tables=(EVERYTHING, MappingRule(("*",), where="1 = 1"))),
    "where false": Rules(of_tables=(MappingRule(("*",), where="1 = 2"),)),
}


PLACE = ("topic", "partition", "offset")
UNUSED: Any = None
"""In place of a decoder, where changes are written that were decoded already."""


class Decoded(NamedTuple):
    """What the messages of a stream hold before anything is mapped."""

    rules: TableRules
    batches: list[pa.RecordBatch]
    """Rows of `changes`, decoded in bulk."""
    changes: list[tuple[Change, dict[str, Any]]]
    """Changes that were decoded one by one, each with its row."""
    halves: set[tuple[Any, ...]]
    """The places of halves of updates."""


@lru_cache(maxsize=1)
def decoded(name: str, kind: str) -> list[Decoded]:
    """The streams of an envelope, decoded once for all rules."""
    with tempfile.TemporaryDirectory() as folder:
        return [_decoded(name, stream) for stream in STREAMS[kind](name, folder)]


def _decoded(name: str, stream: Stream) -> Decoded:
    envelope = registry.get(name)
    decoder: Any = envelope.decoder(stream.settings, stream.rules)  # type: ignore[misc]
    work = ChangeBatches(decoder, "batch", None, envelope.bulk_reader)
    starts = range(0, len(stream.messages), 30)
    batches = [batch_of(stream.messages[n : n + 30]) for n in starts]
    made = list(work.convert(iter(batches)))
    alone: Any = envelope.decoder(stream.settings, stream.rules)  # type: ignore[misc]
    plain = ChangeRows(alone, "batch")
    changes, halves = [], set()
    for message in stream.messages:
        for change in decode_message(alone, message):
            if change.half is None:
                changes.append(change)
            else:
                halves.add((message.topic, message.partition, message.offset))
    rows, _ = rows_written(plain, changes)
    return Decoded(stream.rules, made, [*zip(changes, rows, strict=True)], halves)


def exactly_mapped(found: Decoded, rules: Rules) -> tuple[list[Any], dict[str, Any]]:
    """Rows of `changes` and schemas, change by change."""
    mapper, rows = ChangeMapper(rules, found.rules), ChangeRows(UNUSED, "batch")
    made: list[dict[str, Any] | None] = []
    written = []
    for change, row in found.changes:
        # What is refused when it is written as a row is so before it is mapped.
        if row["outcome"] != "ok":
            made.append({k: row[k] for k in (*PLACE, "outcome")})
            continue
        mapped, why, sentence, _ = mapper.map(change)
        if mapped is None:
            outcome = "skipped" if sentence is None else "refused"
            skip = {"outcome": outcome, "reason_kind": why}
            made.append({**{k: row[k] for k in PLACE}, **skip})
            continue
        made.append(None)
        written.append(mapped)
    ones, schemas = rows_written(rows, written)
    assert len(ones) == made.count(None)
    left = iter(ones)
    return [next(left) if row is None else row for row in made], schemas


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def rows_written(
    rows: ChangeRows, changes: list[Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row of `changes` for each change, and the schemas."""
    made = rows.rows(changes).to_pylist()
    schemas = {row["schema_id"]: row["extra"] for row in made if row["outcome"] == "schema"}
    return [row for row in made if row["outcome"] != "schema"], schemas


@pytest.mark.parametrize("which", RULES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", STREAMS)
def test_mapped_by_columns_as_one_by_one(name, kind, which):
    assert mapped_the_same(name, kind, RULES[which]) or which == "where false"


@pytest.mark.parametrize("name", NAMES)
def test_joined_by_columns_as_one_by_one(name):
    """A condition has rows looked at one by one, so both ways are gone."""
    joins = MappingRule(("*",), {"table": "all"}, join=Join("of_table", True, True))
    for more in ((), (MappingRule(("*",), where="1 = 1"),)):
        assert mapped_the_same(name, "plain", Rules(of_tables=(joins, *more)))


def mapped_the_same(name: str, kind: str, rules: Rules) -> int:
    """How many changes were taken, by columns and one by one with the same result."""
    seen = 0
    for one in decoded(name, kind):
        decoding = MappedDecoding(rules, one.rules, bags=None)
        mapped = list(decoding.of(iter(one.batches)))
        found = pa.Table.from_batches(mapped, CHANGES).to_pylist()
        expected, schemas = exactly_mapped(one, rules)
        expected = [row for row in expected if place_of(row) not in one.halves]
        rows = [row for row in found if row["outcome"] != "schema"]
        rows = [row for row in rows if place_of(row) not in one.halves]
        assert len(rows) == len(expected)
        for row, wanted in zip(rows, expected, strict=True):
            assert {key: row[key] for key in wanted} == wanted
        known = {r["schema_id"]: r["extra"] for r in found if r["outcome"] == "schema"}
        assert schemas.items() <= known.items()
        seen += sum(row["outcome"] == "ok" for row in rows)
    return seen


MAP = [
    {
        "tables": "*",
        "rename": {"table": "{table}_copy"},
        "columns": {"mask": {"v": "sha256"}, "rename": {"id": "number"}, "add": {"of": "table"}},
    }
]
PAIRS = [(name, target) for name in ORIGINS for target in NAMES]


class Mapped(Batch):
    """The changes of a source, and what a target with a mapping gets of them."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name, target)
        from tests.contract.order_sources import SOURCES
        from waybill.spec.endpoints import Source, Target

        origin = SOURCES[name]
        goes = {"envelope": target, "files": {"path": "out"}, "settings": settings_of(target)}
        came = {"envelope": origin.envelope, "files": {"path": "in", "topic": "shop.t"}}
        source = Source.model_validate({**came, "settings": dict(origin.settings)})
        self.to = Target.model_validate({**goes, "map": MAP})
        (self.reader,) = readers_of(source, [self.to], self.schemas.values()).values()

    def mapped(self, rules: Rules) -> list[dict[str, Any]]:
        envelope = registry.get(self.target)
        encoder = envelope.encoder(self.settings)
        work = MappedMessageBatches(
            rules, encoder, self.target, "b1", self.schemas, envelope.bulk_writer
        )
        return pa.Table.from_batches(
            list(work.convert(iter(self.changes.to_batches()))), OUTBOX
        ).to_pylist()


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_the_gate_reads_mapped_messages_as_their_changes(name, target):
    batch = Mapped(name, target)
    rules = batch.to.mapping()
    messages = batch.mapped(rules)
    assert {m["outcome"] for m in messages} == {"ok"}
    assert {m["table"].rpartition(".")[2] for m in messages} == {"t_copy"}
    assert batch.wrong(messages) == {}
    # As the rows were: each is reported.
    plain = batch.mapped(Rules())
    assert len(batch.wrong(plain)) == 2 * FEW


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_rows_that_come_and_go_by_a_condition(name, target):
    """Every row is inserted with a, and becomes b."""
    batch = Mapped(name, target)
    # Where a row does not meet it when it is inserted, readers may have it as it was before.
    for text in ("v = 'a'", "v = 'b'"):
        rules = Rules(of_tables=(*batch.to.mapping().of_tables, MappingRule(("*",), where=text)))
        messages = batch.mapped(rules)
        # Some formats write more than one message for a change.
        firsts = [m["outcome"] for m in messages if m["message"] == 0]
        assert Counter(firsts) == {"ok": 2 * FEW}
        batch.reader = replace(batch.reader, mapping=rules)
        sent = [m for m in messages if m["outcome"] == "ok"]
        assert batch.wrong(sent) == {}


@pytest.mark.parametrize("target", NAMES)
def test_a_table_that_is_left_out_is_skipped_and_counted(target):
    batch = Mapped("oms-default", target)
    messages = batch.mapped(Rules(exclude=("*",)))
    assert [m["outcome"] for m in messages] == ["skipped"] * batch.changes.num_rows
    assert {m["reason_kind"] for m in messages} == {"not selected"}
    assert {(m["key"], m["value"]) for m in messages} == {(None, None)}


def test_messages_of_changes_that_are_left_out_are_reported():
    batch = Mapped("oms-default", "canal")
    messages = batch.mapped(batch.to.mapping())
    reader = replace(batch.reader, mapping=Rules(exclude=("*",)))
    comparison = Comparison("canal", reader, batch.schemas)
    table = pa.Table.from_pylist(messages, OUTBOX).select(THEIRS.names)
    wrong = list(comparison.compare(batch.changes.select(MINE.names), table))
    assert len(wrong) == 2 * FEW
    assert {one.what for one in wrong} == {"comes from no accepted change"}
