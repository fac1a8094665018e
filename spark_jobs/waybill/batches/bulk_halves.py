"""Joins halves of updates that came in one block.

Message by message this is done by `envelopes.pairs`: a half waits until its partner comes, and the
same half once more takes its place. Only where a block has one half before and one half after it
of a sequence id, and nothing else can have that id, is no order of anything to be minded; then they
are joined here. All other halves are left to `envelopes.pairs`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from waybill.bulk.block import Block
from waybill.envelopes.pairs import DEFAULT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from waybill.bulk.arena import Places
    from waybill.bulk.rows import Rows

_LARGEST = 2**63 - 1
_LONGEST = 40
"""Digits of a number that is looked at; longer ones are no ids of halves that are joined here."""

_numbers = re.compile(rb"[0-9]+").findall
_ESCAPED_DIGIT = b"\\u003"


class Joined(NamedTuple):
    """What became of changes some of which are halves.

    Attributes:
        rows: changes that are whole, halves joined at the place of the after image.
        apart: numbers of the messages with halves that are not joined here.
        updates: how many were joined.
    """

    rows: list[Rows]
    apart: Places
    updates: int


def joined(found: list[Rows], size: int, waiting: Collection[tuple[object, ...]]) -> Joined:
    """Join each half before an update with the half after it.

    Args:
        found: changes of one block.
        size: how many messages the block has.
        waiting: what identifies halves that wait for their partner; the last part of each is the
            sequence id.
    """
    halves = [one for rows in found if rows.half is not None for one in rows.by_table()]
    if not halves:
        return Joined(found, np.empty(0, np.int64), 0)
    whole = [rows for rows in found if rows.half is None]
    everything = np.sort(np.concatenate([rows.places for rows in halves]))
    numbered = [rows for rows in halves if rows.sequence is not None and len(rows.sequence) == 1]
    block = halves[0].block
    if not isinstance(block, Block):
        raise TypeError("halves are joined where messages are read")
    contested = _contested(block, np.concatenate([rows.places for rows in found]))
    if contested is None or not numbered or len(waiting) + size > DEFAULT_LIMIT:
        # Beyond the limit a half that waits gives way to a later one, even to one of these.
        return Joined(whole, everything, 0)
    contested.update(_ids(waiting))
    before, after = _pairs(numbered, contested)
    if not len(before):
        return Joined(whole, everything, 0)
    group = np.full(size, -1, np.int64)
    place = np.zeros(size, np.int64)
    for number, rows in enumerate(numbered):
        group[rows.places] = number
        place[rows.places] = np.arange(len(rows))
    made: list[Rows] = []
    matched = np.zeros(size, np.bool_)
    which = group[before] * len(numbered) + group[after]
    for both in np.unique(which).tolist():
        one, other = numbered[both // len(numbered)], numbered[both % len(numbered)]
        if one.schema is not other.schema:
            # Either another table, or one whose columns changed between the halves.
            continue
        mine, theirs = before[which == both], after[which == both]
        matched[mine] = matched[theirs] = True
        image = one.take(place[mine]).before
        made.append(replace(other.take(place[theirs]), before=image, half=None))
    apart = everything[~matched[everything]]
    return Joined([*whole, *made], apart, sum(map(len, made)))


def _pairs(halves: list[Rows], contested: set[int]) -> tuple[Places, Places]:
    """Places of the halves of ids that one half before and one after it have, and nothing else."""
    ids = np.concatenate([rows.sequence[0] for rows in halves if rows.sequence is not None])
    places = np.concatenate([rows.places for rows in halves])
    first = np.concatenate([np.full(len(rows), rows.half == "before") for rows in halves])
    order = np.lexsort((places, ids))
    ids, places, first = ids[order], places[order], first[order]
    differs = np.concatenate([[True], ids[1:] != ids[:-1], [True]])
    begins, twos = np.flatnonzero(differs[:-1]), np.diff(np.flatnonzero(differs)) == 2
    starts = begins[twos]
    starts = starts[first[starts] & ~first[starts + 1]]
    if contested:
        starts = starts[~np.isin(ids[starts], np.array(sorted(contested), np.int64))]
    return places[starts], places[starts + 1]


def _contested(block: Block, read: Places) -> set[int] | None:
    """Every number in the messages that were not read in bulk: any may be the id of a half.

    None where a message may hide one.
    """
    alone = np.ones(block.size, np.bool_)
    alone[read] = False
    found: set[int] = set()
    for number in np.flatnonzero(alone).tolist():
        value = block.bytes_of(number)
        if _ESCAPED_DIGIT in value:
            return None
        found.update(_known(int(text) for text in _numbers(value) if len(text) <= _LONGEST))
    return found


def _ids(waiting: Collection[tuple[object, ...]]) -> Iterator[int]:
    """The sequence ids of halves that wait, as far as they are one number."""
    parts = (identity[-1] for identity in waiting)
    numbers = (part[0] for part in parts if isinstance(part, tuple) and len(part) == 1)
    return _known(number for number in numbers if isinstance(number, int))


def _known(numbers: Iterable[int]) -> Iterator[int]:
    return (number for number in numbers if number <= _LARGEST)
