"""The corner cases of joining halves of updates."""

from __future__ import annotations

from msgspec import UNSET

from tests.histories import by_name, column_of, image
from waybill.envelopes.pairs import PairJoiner
from waybill.records import Change, Message, intern_schema


def table(*names: str, database: str = "db", schema: str | None = None, name: str = "t"):
    columns = tuple(column_of(n, "string", "") for n in names)
    return intern_schema(database, schema, name, columns, ("id",), "")


def half(which, schema, offset=0, sequence=(5,), **row):
    made = image(schema, **row)
    return Change(
        "update",
        schema,
        Message("t", 0, offset, None, None, None),
        before=made if which == "before" else None,
        after=made if which == "after" else None,
        sequence=sequence,
        half=which,
    )


def test_the_before_image_is_read_by_name_when_the_columns_moved():
    joiner = PairJoiner()
    assert joiner.push(half("before", table("id", "v"), id="1", v="old")) == []
    (joined,) = joiner.push(half("after", table("v", "w", "id"), 1, id="1", v="new", w="x"))
    assert by_name(joined.schema, joined.before) == {"id": "1", "v": "old"}
    assert joined.before.f1 is UNSET
    assert by_name(joined.schema, joined.after) == {"id": "1", "v": "new", "w": "x"}


def test_equal_numbers_of_different_tables_are_different_updates():
    joiner = PairJoiner()
    tables = [
        table("id"),
        table("id", name="u"),
        table("id", database="d"),
        table("id", schema="s"),
    ]
    for schema in tables:
        assert joiner.push(half("before", schema, id="1")) == []
    for schema in reversed(tables):
        (joined,) = joiner.push(half("after", schema, 1, id="1"))
        assert joined.before is not None
        assert joined.schema is schema
    assert joiner.rest() == []


def test_a_second_delivery_of_both_halves_is_joined_again():
    """The second update says the same at a later place; the merge takes either."""
    joiner, schema = PairJoiner(), table("id", "v")
    settled = []
    for offset in range(2):
        settled += joiner.push(half("before", schema, 2 * offset, id="1", v="old"))
        settled += joiner.push(half("after", schema, 2 * offset + 1, id="1", v="new"))
    assert [(c.half, c.message.offset) for c in settled] == [(None, 1), (None, 3)]
    assert settled[0].before == settled[1].before


def test_a_doubled_before_image_is_skipped_and_the_later_one_joined():
    joiner, schema = PairJoiner(), table("id", "v")
    assert joiner.push(half("before", schema, 0, id="1", v="old")) == []
    (doubled,) = joiner.push(half("before", schema, 1, id="1", v="old"))
    assert (doubled.outcome, doubled.reason_kind, doubled.half) == (
        "skipped",
        "duplicate half",
        None,
    )
    assert doubled.message.offset == 0
    (joined,) = joiner.push(half("after", schema, 2, id="1", v="new"))
    assert joined.half is None
    assert joined.before.f1 == "old"


def test_an_after_image_that_comes_first_leaves_as_a_half():
    joiner, schema = PairJoiner(), table("id", "v")
    (alone,) = joiner.push(half("after", schema, id="1", v="new"))
    assert (alone.half, alone.before) == ("after", None)
    assert joiner.push(half("before", schema, 1, id="1", v="old")) == []
    assert [c.half for c in joiner.rest()] == ["before"]


def test_the_oldest_before_image_leaves_when_there_are_too_many():
    joiner, schema = PairJoiner(limit=2), table("id")
    for number in range(2):
        assert joiner.push(half("before", schema, number, (number,), id="1")) == []
    (left,) = joiner.push(half("before", schema, 2, (2,), id="1"))
    assert (left.half, left.sequence) == ("before", (0,))
    assert [c.sequence for c in joiner.rest()] == [(1,), (2,)]


def test_long_numbers_are_not_confused():
    joiner, schema = PairJoiner(), table("id")
    assert joiner.push(half("before", schema, 0, (9007199254740993,), id="1")) == []
    (alone,) = joiner.push(half("after", schema, 1, (9007199254740992,), id="1"))
    assert alone.half == "after"


def test_two_updates_under_one_id_are_not_one():
    """The first row before waits on; the second is no copy of it, and is refused."""
    joiner, schema = PairJoiner(), table("id", "v")
    assert joiner.push(half("before", schema, 0, id="1", v="old")) == []
    (refused,) = joiner.push(half("before", schema, 1, id="2", v="old"))
    assert (refused.outcome, refused.reason_kind, refused.half) == ("refused", "pair", None)
    assert refused.message.offset == 1
    (joined,) = joiner.push(half("after", schema, 2, id="1", v="new"))
    assert by_name(schema, joined.before) == {"id": "1", "v": "old"}
    (alone,) = joiner.push(half("after", schema, 3, id="2", v="new"))
    assert (alone.half, alone.before) == ("after", None)


def test_a_doubled_before_image_may_have_its_columns_in_another_order():
    joiner = PairJoiner()
    assert joiner.push(half("before", table("id", "v"), 0, id="1", v="old")) == []
    (doubled,) = joiner.push(half("before", table("v", "id"), 1, id="1", v="old"))
    assert doubled.outcome == "skipped"
    (refused,) = joiner.push(half("before", table("v", "id", "w"), 2, id="1", v="old", w=None))
    assert refused.outcome == "refused"
