"""A reader of rows that have to meet a condition gets those of the table that do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import History, Knobs, by_name, histories, image
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import NOT_MET, MappingRule, Rules
from waybill.records import ROW_OPERATIONS, Change, Column, Message, intern_schema
from waybill.types import parse_type

TABLE = intern_schema(
    "shop",
    None,
    "orders",
    tuple(
        Column(name, parse_type(kind))
        for name, kind in (("id", "int8"), ("amount", "decimal(3,1)"), ("paid", "boolean"))
    ),
    ("id",),
)
CONDITIONS = (
    "amount > 0",
    "paid",
    "amount IS NULL OR NOT paid",
    "paid IS NOT NULL AND amount < 10.0",
    "id > 0",
    "TRUE",
    "NULL",
)


def knobs(**more: Any) -> st.SearchStrategy[Knobs]:
    return st.builds(
        Knobs, before=st.sampled_from(["full", "key", "none"]), events=st.booleans(), **more
    )


def mapped(history: History, text: str) -> tuple[list[Change], set[Any]]:
    """What readers get, and the keys of what is refused."""
    mapper = ChangeMapper(Rules(of_tables=(MappingRule(("*",), where=text),)))
    made, refused = [], set()
    for change in history.changes:
        found, why, sentence, _ = mapper.map(change)
        if found is not None:
            made.append(found)
        elif sentence is not None:
            refused |= {key_in(change.key_image()), key_in(change.old_key_image())}
        else:
            assert why == NOT_MET
    return made, refused


def read_again(history: History, dice: Any) -> History:
    """The history with rows that a newer snapshot, or a source that is loaded again, brings anew.

    What they had become meanwhile, no message tells.
    """
    last = max((c.sequence for c in history.changes if c.sequence), default=(0,))
    made = History(TABLE, list(history.changes), dict(history.rows))
    for number, (key, row) in enumerate(sorted(history.rows.items(), key=repr)):
        if dice.random() < 0.3:
            continue
        now = {
            **row,
            "amount": dice.choice(["-1.0", "0.5", None]),
            "paid": dice.choice(["true", "false", None]),
        }
        made.rows[key] = now
        message = Message("topic", 7, number, None, None, None)
        made.changes.append(
            Change(
                dice.choice(["read", "insert"]),
                TABLE,
                message,
                after=image(TABLE, **now),
                sequence=(last[0] + 1 + number,),
            )
        )
    return made


def key_in(image: Any) -> Any:
    return None if image is None else image.f0


def read(changes: list[Change]) -> dict[Any, dict[str, str | None]]:
    """The rows of a reader that takes one change after the other."""
    rows: dict[Any, dict[str, str | None]] = {}
    for change in changes:
        if change.operation == "truncate":
            rows.clear()
        if change.operation not in ROW_OPERATIONS:
            continue
        key, old = key_in(change.key_image()), key_in(change.old_key_image())
        was = rows.pop(old, None) if old is not None else rows.get(key)
        if change.operation == "delete":
            rows.pop(key, None)
            continue
        values = by_name(TABLE, change.after) or {}
        keeps = change.operation == "update"
        rows[key] = {**(was or {}), **values} if keeps else values
    return rows


def newest(changes: list[Change]) -> dict[Any, dict[str, str | None]]:
    """The rows of a reader that takes the newest change of each key, whenever it came."""
    states: dict[Any, tuple[str, Any]] = {}
    floor = ""
    for change in changes:
        order = change.order_key
        if change.operation == "truncate":
            floor = max(floor, order)
        if change.operation not in ROW_OPERATIONS:
            continue
        row = None if change.operation == "delete" else by_name(TABLE, change.after)
        keys = key_in(change.old_key_image()), key_in(change.key_image())
        for key, state in zip(keys, (None, row), strict=True):
            if key is not None:
                states[key] = max(states.get(key, ("", None)), (order, state), key=lambda s: s[0])
    return {key: row for key, (order, row) in states.items() if row is not None and order > floor}


def expected(history: History, text: str) -> dict[Any, dict[str, str | None]]:
    holds = ChangeMapper(Rules(of_tables=(MappingRule(("*",), where=text),))).of(TABLE).holds
    return {key[0]: row for key, row in history.rows.items() if holds(image(TABLE, **row)) is True}


@given(
    history=knobs().flatmap(lambda k: histories(TABLE, k, (1, 20))),
    text=st.sampled_from(CONDITIONS),
)
def test_readers_have_the_rows_that_meet_it(history, text):
    made, refused = mapped(history, text)
    assert not refused
    assert read(made) == expected(history, text)


@given(
    history=knobs().flatmap(lambda k: histories(TABLE, k, (1, 20))),
    text=st.sampled_from(CONDITIONS),
    dice=st.randoms(use_true_random=False),
)
def test_in_any_order_and_twice(history, text, dice):
    made, _ = mapped(history, text)
    many = made * 2
    dice.shuffle(many)
    assert newest(many) == expected(history, text)


@given(
    history=knobs().flatmap(lambda k: histories(TABLE, k, (1, 20))),
    text=st.sampled_from(CONDITIONS),
    dice=st.randoms(use_true_random=False),
)
def test_rows_that_are_read_once_more(history, text, dice):
    """What they were, readers have to lose; what comes in any order, and twice, is the same."""
    again = read_again(history, dice)
    made, refused = mapped(again, text)
    assert not refused
    assert read(made) == expected(again, text)
    many = made * 2
    dice.shuffle(many)
    assert newest(many) == expected(again, text)


@pytest.mark.parametrize("operation", ["insert", "read", "upsert"])
def test_a_row_that_readers_have_goes_when_one_is_inserted_in_its_place(operation):
    """The table was emptied and filled again, which no message tells."""
    changes = [
        Change(
            op,
            TABLE,
            Message("topic", 0, place, None, None, None),
            after=image(TABLE, id="1", amount=amount, paid="true"),
            sequence=(place,),
        )
        for place, (op, amount) in enumerate([("insert", "0.5"), (operation, "-0.5")])
    ]
    made, refused = mapped(History(TABLE, changes, {}), "amount > 0")
    assert not refused
    assert read(made) == {}
    for many in (made, made[::-1], made * 2):
        assert newest(many) == {}


def test_rows_of_the_first_snapshot_and_those_without_a_key_become_nothing():
    first = Change(
        "read",
        TABLE,
        Message("t", 0, 0, None, None, None),
        after=image(TABLE, id="1", amount="0", paid=None),
        full_row=True,
    )
    mapper = ChangeMapper(Rules(of_tables=(MappingRule(("*",), where="amount > 0"),)))
    assert mapper.map(first)[:2] == (None, NOT_MET)
    begins = Message("bootstrap:mine@b2:shop.t", 0, 0, None, None, None)
    row = Change("read", TABLE, begins, after=first.after, sequence=(4,))
    assert mapper.map(row)[:2] == (None, NOT_MET), "a new target has no rows"
    heap = intern_schema("shop", None, "heap", TABLE.columns, ())
    change = Change("insert", heap, first.message, after=first.after, sequence=(4,))
    assert mapper.map(change)[:2] == (None, NOT_MET)
    keyed = Change("insert", TABLE, first.message, after=first.after, sequence=(4,))
    made = mapper.map(keyed).change
    assert made is not None
    assert (made.operation, by_name(TABLE, made.before)) == ("delete", {"id": "1"})


@given(
    history=st.builds(Knobs, partial=st.just(True)).flatmap(lambda k: histories(TABLE, k, (1, 20))),
    text=st.sampled_from(CONDITIONS),
)
def test_columns_that_only_the_row_before_tells(history, text):
    """The row before is whole, so nothing has to be refused."""
    made, refused = mapped(history, text)
    assert not refused
    assert read(made) == expected(history, text)


@given(
    history=knobs(partial=st.just(True)).flatmap(lambda k: histories(TABLE, k, (1, 20))),
    text=st.sampled_from(CONDITIONS),
)
def test_what_nobody_can_tell_is_refused(history, text):
    made, refused = mapped(history, text)
    rows, wanted = read(made), expected(history, text)
    for key in {*rows, *wanted} - refused:
        assert rows.get(key) == wanted.get(key)
