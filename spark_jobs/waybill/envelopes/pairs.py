"""Joins the two halves of an update that came as two messages.

The halves share table and sequence id; other rows may stand between them. Only before images are
held, so memory is bounded by the number of updates whose after image has not come yet.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import UNSET

from waybill.records import intern_schema

if TYPE_CHECKING:
    from waybill.records import Change, TableSchema

DEFAULT_LIMIT = 100_000

DUPLICATE = "duplicate half"
"""Why a half that came twice is skipped."""

CONTRADICTION = (
    "pair",
    "another row before came with the same sequence id and waits for its row after: no two updates "
    "of a table may share an id",
)
"""Class and sentence of the refusal of a half that says something else than the one that waits."""


class PairJoiner:
    """Joins halves inside one task.

    A half whose partner is not here leaves with `half` still set: the caller looks for the
    partner among other tasks and earlier batches.

    Args:
        limit: how many before images are held; the oldest leave when there are more.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.joined = 0
        """Before images that were joined to their after image."""
        self._held: dict[tuple[object, ...], Change] = {}

    @property
    def waiting(self) -> Collection[tuple[object, ...]]:
        """Database, schema, table and sequence id of each before image that is held."""
        return self._held.keys()

    def push(self, half: Change) -> list[Change]:
        """What is settled by this half: a joined update, or halves that cannot be joined here."""
        key = identity(half)
        if half.half == "after":
            before = self._held.pop(key, None)
            if before is None:
                return [half]
            self.joined += 1
            return [join(before, half)]
        settled = []
        earlier = self._held.get(key)
        if earlier is not None:
            if not says_the_same(earlier, half):
                return [as_contradiction(half)]
            # A redelivery. The later one waits for the partner.
            settled.append(as_duplicate(self._held.pop(key)))
        self._held[key] = half
        if len(self._held) > self.limit:
            settled.append(self._held.pop(next(iter(self._held))))
        return settled

    def rest(self) -> list[Change]:
        """The before images still held, oldest first; the joiner is empty afterwards."""
        rest = list(self._held.values())
        self._held.clear()
        return rest


def identity(half: Change) -> tuple[object, ...]:
    """What both halves of an update share."""
    schema = half.schema
    return schema.database, schema.schema, schema.table, half.sequence


def join(before: Change, after: Change) -> Change:
    """One update at the place of its after image."""
    schema = schema_of_both(before.schema, after.schema)
    after.before, after.after = image_in(schema, before), image_in(schema, after)
    after.schema, after.half = schema, None
    return after


def schema_of_both(before: TableSchema, after: TableSchema) -> TableSchema:
    """The table as both halves of an update describe it.

    It is that of the after image, with the columns behind that only the before image has: a
    column that was dropped between the halves still tells which row a table without key loses.
    """
    if before is after:
        return after
    gone = tuple(column for column in before.columns if column.name not in after.index)
    if not gone:
        return after
    columns = (*after.columns, *gone)
    return intern_schema(
        after.database, after.schema, after.table, columns, after.key, after.dialect
    )


def image_in(schema: TableSchema, half: Change) -> object:
    """The image of a half as an image of `schema`, column by column."""
    image = half.after if half.half == "after" else half.before
    if half.schema is schema or image is None:
        return image
    # By place: a struct looks through all of its fields for each one that is named.
    values: list[object] = [UNSET] * len(schema.columns)
    for i, name in enumerate(half.schema.names):
        if name in schema.index:
            values[schema.index[name]] = getattr(image, f"f{i}")
    return schema.Image(*values)


def as_duplicate(half: Change) -> Change:
    """A half that came twice, as a skipped row."""
    half.outcome = "skipped"
    half.reason_kind = DUPLICATE
    half.half = None
    return half


def says_the_same(one: Change, other: Change) -> bool:
    """Whether two halves of one kind tell of one row, whatever the order of their columns."""
    return image_in(one.schema, one) == image_in(one.schema, other) and (
        one.schema is other.schema or set(one.schema.names) == set(other.schema.names)
    )


def as_contradiction(half: Change) -> Change:
    """A half that shares the sequence id of another one and tells of another row, as refused."""
    half.outcome = "refused"
    half.reason_kind, half.reason = CONTRADICTION
    half.half = None
    return half
