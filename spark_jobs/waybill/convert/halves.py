"""Halves of updates that met in no task: joined across tasks and batches.

The halves of one update share table and sequence id. Either may come first, and each waits for the
other, so that it does not matter where tasks, partitions and batches cut the topic. Rules, for all
rows of one such group:

- the oldest before image and the oldest after image are one update, at the place of the after
  image; the before image is spent;
- a half that has no partner goes on waiting;
- further halves are duplicates if they say the same. So is a half of an update that was joined
  earlier, in a task or in another batch: such updates stand in the group, with no half of theirs;
- a further before image that says something else is refused, because nobody can tell which update
  it belongs to; a further after image that says something else is an update without before image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waybill.batches.change_rows import schema_row
from waybill.envelopes.pairs import CONTRADICTION, DUPLICATE, schema_of_both
from waybill.lake_columns import CHANGES, TABLE_PARTS
from waybill.order import sequence_of

if TYPE_CHECKING:
    from waybill.records import TableSchema

SPENT = "spent"
"""Outcome of a before image that became part of an update; such rows are counted, not kept."""

ROWS = 5_000

_Row = dict[str, Any]
SchemaOf = Callable[[str], "TableSchema"]
_decode = msgspec.json.Decoder(dict[str, str | None]).decode


def group_of(row: _Row) -> tuple[str, ...]:
    """What the halves of one update share; rows must come sorted by it."""
    # A null sorts first and differs from an empty name.
    parts = [part for name in TABLE_PARTS for part in (str(row[name] is not None), row[name] or "")]
    return (*parts, sequence_of(row["order_key"]))


def settle(
    batches: Iterable[pa.RecordBatch],
    batch_id: str,
    schema_of: SchemaOf,
) -> Iterator[pa.RecordBatch]:
    """What becomes of waiting rows, and the schemas of updates whose halves have two of them.

    Args:
        batches: waiting rows of `changes`, and updates that were joined before, which are only
            looked at; sorted by table, sequence and order key.
        batch_id: the batch that settles them.
        schema_of: a schema, by its id.
    """
    settled: list[_Row] = []
    waiting_keys: set[str] = set()
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, group in groupby(rows, group_of):
        for row in _settle_group(list(group), batch_id, schema_of):
            if row["outcome"] != "schema" or row["schema_id"] not in waiting_keys:
                settled.append(row)
            if row["outcome"] == "schema":
                waiting_keys.add(row["schema_id"])
        if len(settled) >= ROWS:
            yield pa.RecordBatch.from_pylist(settled, CHANGES)
            settled = []
    if settled:
        yield pa.RecordBatch.from_pylist(settled, CHANGES)


def _settle_group(rows: list[_Row], batch_id: str, schema_of: SchemaOf) -> Iterator[_Row]:
    joined = [row for row in rows if row["half"] is None]
    befores = [row for row in rows if row["half"] == "before"]
    afters = [row for row in rows if row["half"] == "after"]
    if not joined and not (befores and afters):
        # Nothing to join yet. One of several equal halves waits, or the group would only grow.
        firsts = _different(befores, "before"), _different(afters, "after")
        yield from firsts[0]
        yield from firsts[1]
        kept = {id(row) for first in firsts for row in first}
        for row in rows:
            if id(row) not in kept:
                yield _duplicate(row, batch_id)
        return
    known_befores, known_afters = joined[:], joined[:]
    if not joined:
        before, after = befores.pop(0), afters.pop(0)
        yield {**before, "outcome": SPENT}
        yield from _joined(before, after, batch_id, schema_of)
        known_befores, known_afters = [before], [after]
    for extra in befores:
        if any(_same(extra["before"], known["before"]) for known in known_befores):
            yield _duplicate(extra, batch_id)
        else:
            kind, sentence = CONTRADICTION
            refused = _done(extra, batch_id, outcome="refused", reason_kind=kind, reason=sentence)
            yield {**refused, "raw": extra["raw"], "raw_key": extra["raw_key"]}
    for extra in afters:
        if any(_same(extra["after"], known["after"]) for known in known_afters):
            yield _duplicate(extra, batch_id)
        else:
            yield _done(extra, batch_id, outcome="ok")
            known_afters.append(extra)


def _different(halves: list[_Row], image: str) -> list[_Row]:
    """The halves without those that say what an older one says."""
    found: list[_Row] = []
    for half in halves:
        if not any(_same(half[image], known[image]) for known in found):
            found.append(half)
    return found


def _duplicate(row: _Row, batch_id: str) -> _Row:
    return _done(row, batch_id, outcome="skipped", reason_kind=DUPLICATE)


def _joined(before: _Row, after: _Row, batch_id: str, schema_of: SchemaOf) -> Iterator[_Row]:
    """The update of two halves, behind its schema if that is neither's."""
    image, old_key, id_ = before["before"], before["key"], after["schema_id"]
    if image is not None and before["schema_id"] != id_:
        one, other = schema_of(before["schema_id"]), schema_of(id_)
        schema = schema_of_both(one, other)
        # In the order of its columns, as a task writes it that has both halves.
        image = msgspec.json.encode(_in_order(_decode(image), schema.names)).decode()
        if one.key != other.key:
            # Keys of other columns say nothing about each other.
            old_key = None
        if schema is not other:
            id_ = schema.id
            yield schema_row(schema, {**after, "batch": batch_id})
    yield _done(
        after,
        batch_id,
        outcome="ok",
        before=image,
        schema_id=id_,
        old_key=None if old_key == after["key"] else old_key,
    )


def _in_order(image: dict[str, str | None], names: tuple[str, ...]) -> dict[str, str | None]:
    return {name: image[name] for name in names if name in image}


def _same(one: str | None, other: str | None) -> bool:
    """Whether two images say the same, whatever the order of their columns."""
    if one == other:
        return True
    return one is not None and other is not None and _decode(one) == _decode(other)


def _done(row: _Row, batch_id: str, **changes: Any) -> _Row:
    """A row that waits no longer; its message's bytes are in the archive."""
    return {**row, "half": None, "batch": batch_id, "raw": None, "raw_key": None, **changes}
