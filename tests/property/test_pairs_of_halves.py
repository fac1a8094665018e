"""Halves of updates find each other, whatever stands between them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.histories import by_name, column_of, image
from waybill.envelopes.pairs import PairJoiner
from waybill.records import Change, Message, intern_schema

TABLES = [
    intern_schema("db", None, name, (column_of("id", "int64", ""), column_of("v", "string", "")))
    for name in ("a", "b")
]


def half(which: str, table: int, number: int, offset: int) -> Change:
    schema = TABLES[table]
    row = image(schema, id=str(number), v=which)
    return Change(
        "update",
        schema,
        Message("t", 0, offset, None, None, None),
        before=row if which == "before" else None,
        after=row if which == "after" else None,
        sequence=(number,),
        rank=int(which == "after"),
        half=which,
    )


@st.composite
def interleavings(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Halves of some updates in any order in which a before image comes before its after image."""
    updates = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9)), unique=True))
    order = draw(st.permutations([update for update in updates for _ in range(2)]))
    seen: set[tuple[int, int]] = set()
    found = []
    for update in order:
        found.append(("after" if update in seen else "before", *update))
        seen.add(update)
    return found


def pushed(joiner: PairJoiner, halves: list[tuple[str, int, int]]) -> list[Change]:
    settled = []
    for offset, (which, table, number) in enumerate(halves):
        settled += joiner.push(half(which, table, number, offset))
    return settled


@given(interleavings())
def test_every_update_is_joined_at_the_place_of_its_after_image(halves):
    joiner = PairJoiner()
    settled = pushed(joiner, halves)
    assert joiner.rest() == []
    assert joiner.joined == len(settled) == len(halves) // 2
    places = {(table, number): i for i, (_, table, number) in enumerate(halves)}
    for change in settled:
        table = TABLES.index(change.schema)
        assert (change.half, change.rank, change.outcome) == (None, 1, "ok")
        number = change.sequence[0]
        assert by_name(change.schema, change.before) == {"id": str(number), "v": "before"}
        assert by_name(change.schema, change.after) == {"id": str(number), "v": "after"}
        assert change.message.offset == places[table, number]
    assert [c.message.offset for c in settled] == sorted(c.message.offset for c in settled)


@given(interleavings(), st.data())
def test_no_half_is_lost_or_doubled(halves, data):
    """With halves missing, doubled and in the wrong order, each is accounted for once."""
    kept = data.draw(st.lists(st.sampled_from(halves))) if halves else []
    joiner = PairJoiner()
    settled = pushed(joiner, kept)
    rest = joiner.rest()
    joined = [c for c in settled if c.half is None and c.outcome == "ok"]
    doubled = [c for c in settled if c.outcome == "skipped"]
    alone = [c for c in settled if c.half is not None]
    assert all(c.half == "after" for c in alone)
    assert all(c.half == "before" for c in rest)
    assert all(c.reason_kind == "duplicate half" and c.before is not None for c in doubled)
    assert 2 * len(joined) + len(doubled) + len(alone) + len(rest) == len(kept)
    assert len(joined) == joiner.joined
    for change in joined:
        assert (
            by_name(change.schema, change.before)["id"]
            == by_name(change.schema, change.after)["id"]
        )
    assert joiner.rest() == []


@given(interleavings(), st.integers(0, 3))
@settings(max_examples=cases(60))
def test_no_more_before_images_are_held_than_the_limit(halves, limit):
    joiner = PairJoiner(limit)
    left = 0
    for offset, (which, table, number) in enumerate(halves):
        for change in joiner.push(half(which, table, number, offset)):
            left += change.half is not None
            if which == "before":
                assert change.half == "before", "the oldest leaves, still a half"
    rest = joiner.rest()
    assert len(rest) <= limit
    assert left + len(rest) + 2 * joiner.joined == len(halves)
