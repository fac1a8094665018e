"""Halves of updates that met in no task: joined across tasks and batches.

The halves of one update share table and sequence id. Rules, for all waiting rows of one such group:

- an after image is settled: with the oldest before image as an update that has both, alone as an
  update without before image; one that says something else than the oldest is no copy of it, and
  alone;
- a before image that found its after image is spent; further ones are duplicates if they say the
  same, and refused if not;
- a before image without after image goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waybill.envelopes.pairs import CONTRADICTION, DUPLICATE
from waybill.layout import CHANGES
from waybill.order import sequence_of

if TYPE_CHECKING:
    from waybill.records import TableSchema

SPENT = "spent"
"""Outcome of a before image that became part of an update; such rows are counted, not kept."""

ROWS = 5_000

_Row = dict[str, Any]
_decode = msgspec.json.Decoder(dict[str, str | None]).decode


def group_of(row: _Row) -> tuple[str, ...]:
    """What the halves of one update share; rows must come sorted by it."""
    names = ("database", "schema", "table")
    # A null sorts first and differs from an empty name.
    parts = [part for name in names for part in (str(row[name] is not None), row[name] or "")]
    return (*parts, sequence_of(row["order_key"]))


def settle(
    batches: Iterable[pa.RecordBatch],
    batch_id: str,
    columns_of: Callable[[str], frozenset[str]],
) -> Iterator[pa.RecordBatch]:
    """What becomes of waiting rows.

    Args:
        batches: waiting rows of `changes`, sorted by table, sequence and order key.
        batch_id: the batch that settles them.
        columns_of: names of the columns of a schema, by its id.
    """
    settled: list[_Row] = []
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, group in groupby(rows, group_of):
        settled += _settle_group(list(group), batch_id, columns_of)
        if len(settled) >= ROWS:
            yield pa.RecordBatch.from_pylist(settled, CHANGES)
            settled = []
    if settled:
        yield pa.RecordBatch.from_pylist(settled, CHANGES)


def _settle_group(
    rows: list[_Row], batch_id: str, columns_of: Callable[[str], frozenset[str]]
) -> Iterator[_Row]:
    befores = [row for row in rows if row["half"] == "before"]
    afters = [row for row in rows if row["half"] != "before"]
    partner = befores[0] if befores else None
    if partner is not None:
        yield {**partner, "outcome": SPENT} if afters else partner
    for extra in befores[1:]:
        if _same(extra["before"], befores[0]["before"]):
            yield _done(extra, batch_id, outcome="skipped", reason_kind=DUPLICATE)
        else:
            kind, sentence = CONTRADICTION
            refused = _done(extra, batch_id, outcome="refused", reason_kind=kind, reason=sentence)
            yield {**refused, "raw": extra["raw"], "raw_key": extra["raw_key"]}
    for after in afters:
        if partner is None or not _same(after["after"], afters[0]["after"]):
            yield _done(after, batch_id, outcome="ok")
        else:
            yield _joined(partner, after, batch_id, columns_of)


def _joined(
    before: _Row, after: _Row, batch_id: str, columns_of: Callable[[str], frozenset[str]]
) -> _Row:
    image, old_key = before["before"], before["key"]
    if image is not None and before["schema_id"] != after["schema_id"]:
        image = _fitted(image, columns_of(after["schema_id"]))
    return _done(
        after,
        batch_id,
        outcome="ok",
        before=image,
        old_key=None if old_key == after["key"] else old_key,
    )


def _fitted(image: str, columns: frozenset[str]) -> str:
    """An image without the columns that the other half's schema does not have."""
    values = _decode(image)
    kept = {name: value for name, value in values.items() if name in columns}
    return msgspec.json.encode(kept).decode()


def _same(one: str | None, other: str | None) -> bool:
    """Whether two images say the same, whatever the order of their columns."""
    if one == other:
        return True
    return one is not None and other is not None and _decode(one) == _decode(other)


def _done(row: _Row, batch_id: str, **changes: Any) -> _Row:
    """A row that waits no longer; its message's bytes are in the archive."""
    return {**row, "half": None, "batch": batch_id, "raw": None, "raw_key": None, **changes}


def columns_by_id(schemas: dict[str, TableSchema]) -> Callable[[str], frozenset[str]]:
    """Looks up the column names of schemas."""
    names = {id_: frozenset(schema.names) for id_, schema in schemas.items()}
    return names.__getitem__
