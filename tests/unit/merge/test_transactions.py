"""Which transactions wait, and what becomes of those that did."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import WaitingError
from waybill.mapping.rules import Rules
from waybill.merge.transactions import (
    Came,
    Members,
    Open,
    RolledBack,
    TransactionBoundary,
    announced,
    check_wait,
    is_serial,
    judge,
    name_of,
    source_names,
)
from waybill.spec.durations import seconds_of

X, Y = Open("x", 7, 100, "0", 5), Open("y", 8, 200)


def events_of(*events):
    return [
        TransactionBoundary(str(n), operation, id_, 5 + n)
        for n, (operation, id_) in enumerate(events)
    ]


def test_begun_and_not_ended_waits():
    verdict = judge((), events_of(("begin", "x"), ("begin", "y"), ("commit", "y")), 7, 100)
    assert verdict.open == (X,)
    assert verdict.hidden == {Members("x")}


def test_an_end_in_a_later_batch_lets_go_or_drops():
    verdict = judge((X, Y), events_of(("commit", "x"), ("rollback", "y")), 9, 300)
    assert (verdict.open, [t.id for t in verdict.released]) == ((), ["x"])
    assert verdict.dropped == (Y,)
    assert verdict.hidden == {Members("y")}


def test_what_stays_open_keeps_its_beginning():
    assert judge((X,), events_of(("begin", "x")), 9, 300).open == (X,)
    assert judge((X,), [], 9, 300).open == (X,)


def test_a_name_that_is_used_again_waits_again():
    events = events_of(("begin", "x"), ("commit", "x"), ("begin", "x"))
    assert judge((), events[::-1], 7, 100).open == (Open("x", 7, 100, "2", 7),)


def test_ends_of_transactions_that_nobody_began_change_nothing():
    verdict = judge((), events_of(("commit", "x")), 7, 100)
    assert (verdict.open, verdict.released, verdict.hidden) == ((), (), set())


def test_what_was_rolled_back_stays_so_until_its_name_begins_anew():
    verdict = judge((X,), events_of(("rollback", "x")), 9, 300)
    gone = verdict.not_merged([("x", "b2"), ("x", "b1")]).gone
    assert gone == (RolledBack("x", "x", ("b1", "b2")),)
    later = judge((), [], 10, 400, gone=gone)
    assert later.hidden == {X.members}
    assert judge((), events_of(("rollback", "x")), 10, 400, gone=gone).gone == gone
    anew = judge((), events_of(("begin", "x"), ("commit", "x")), 11, 500, gone=gone)
    assert (anew.hidden, [t.again for t in anew.gone]) == (set(), [True])
    assert anew.gone[0].batches == ("b1", "b2")


def test_a_place_tells_rows_of_what_was_rolled_back_from_those_of_a_later_transaction():
    found = judge((), events_of(("rollback", "768:12")), 9, 300).gone
    assert [found[0].members.have(f"768:{place}") for place in (3, 12, 13)] == [True, True, False]


def test_the_longest_wait():
    check_wait((X, Y), "1m", 160)
    sentence = (
        r"transaction x has been open for 0\.0 hours, longer than transactions\.longest_wait "
    )
    with pytest.raises(WaitingError, match=rf"{sentence}\(1m\): find out"):
        check_wait((X, Y), "1m", 161)
    with pytest.raises(WaitingError, match=r"2\.8 hours, .* \(1m\), and 1 other with it: find out"):
        check_wait((X, Y), "1m", 10_000)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("7d", 604_800)])
def test_lengths_of_time(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "1.5h", "-1h", "1w", "１h"])
def test_other_lengths_are_refused(text):
    with pytest.raises(ValueError, match="write a length of time"):
        seconds_of(text)


PG = ["768:36527560", "768:36527752", "768:36527936", "768:36530456"]
"""A transaction of PostgreSQL: its begin and first row, two more rows, its end."""


def test_the_end_of_a_postgresql_transaction_has_another_place_than_its_beginning():
    begun = judge((), [TransactionBoundary("0", "begin", PG[0])], 7, 100).open
    assert begun == (Open(PG[0], 7, 100, "0"),)
    assert begun[0].members == Members("768", 36527560, None)
    ended = judge(
        begun,
        [TransactionBoundary("1", "commit", PG[3], rows=3)],
        8,
        200,
        lambda _: {PG[0]: Came(3)},
    )
    assert (ended.open, ended.released) == ((), (Open(PG[0], 7, 100, "0", end=PG[3], count=3),))
    assert ended.released[0].members == Members("768", 36527560, 36530456)


def test_a_txid_that_is_used_again_is_another_transaction():
    first, again = "768:100", "768:9000"
    events = [("begin", first), ("commit", "768:200"), ("begin", again)]
    verdict = judge((), events_of(*events), 7, 100)
    assert verdict.hidden == {Members("768", 9000, None)}


def test_an_ended_transaction_waits_for_the_rows_that_its_end_announces():
    events = [
        TransactionBoundary("0", "begin", PG[0]),
        TransactionBoundary("1", "commit", PG[3], rows=3),
    ]
    waiting = judge((), events, 7, 100, lambda _: {PG[0]: Came(2)}).open
    assert waiting == (Open(PG[0], 7, 100, "0", None, PG[3], 3),)
    assert waiting[0].members == Members("768", 36527560, 36530456)
    whole = judge(waiting, [], 8, 200, lambda _: {PG[0]: Came(3)})
    assert (whole.open, whole.released) == ((), waiting)
    late = judge(waiting, [], 8, 200, lambda _: {PG[0]: Came(2)}, "1m")
    assert (late.open, late.released) == ((), waiting)
    assert "announced 3 rows and 2 have come" in late.warnings[0]


SERIAL = ["0-7001-112", "0-7001-113"]


@pytest.mark.parametrize(
    "id_",
    [
        *SERIAL,
        "file=mysql-bin.000003,pos=1234",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23",
    ],
)
def test_what_a_binlog_names_its_transactions(id_: str):
    assert is_serial(id_)
    assert name_of(id_) == id_


@pytest.mark.parametrize("id_", [PG[0], "571", "00000025:00000d08:0025", "0a001f0042010000"])
def test_what_others_name_theirs(id_: str):
    assert not is_serial(id_)


def test_the_next_begin_of_a_binlog_ends_the_transaction_before():
    verdict = judge((), events_of(("begin", SERIAL[0]), ("begin", SERIAL[1])), 7, 100)
    assert [t.id for t in verdict.open] == [SERIAL[1]]
    carried = verdict.open
    third = judge(carried, events_of(("begin", "0-7001-114"), ("commit", "0-7001-114")), 8, 200)
    assert (third.open, third.released) == ((), carried)


@pytest.mark.parametrize("came", [Came(1, followed=True), Came(1, statement=True)])
def test_a_later_row_or_a_statement_ends_a_transaction_of_a_binlog(came: Came):
    verdict = judge((), events_of(("begin", SERIAL[0])), 7, 100, lambda _: {SERIAL[0]: came})
    assert verdict.open == ()
    waiting = judge((), events_of(("begin", SERIAL[0])), 7, 100, lambda _: {SERIAL[0]: Came(1)})
    assert [t.id for t in waiting.open] == [SERIAL[0]]


def test_a_transaction_of_a_binlog_that_was_cut_begins_anew():
    first = judge((), events_of(("begin", SERIAL[0])), 7, 100)
    again = judge(first.open, events_of(("begin", SERIAL[0])), 8, 200)
    assert again.open == first.open
    ended = judge(again.open, events_of(("commit", SERIAL[0])), 9, 300)
    assert (ended.open, [t.id for t in ended.released]) == ((), [SERIAL[0]])


@pytest.mark.parametrize("id_", [SERIAL[0], PG[0], "00000025:00000d08:0025"])
def test_what_can_only_have_been_committed_does_not_stop_the_batch(id_: str):
    begun = judge((), events_of(("begin", id_)), 7, 100)
    late = judge(begun.open, [], 8, 200, longest="1m")
    assert (late.open, late.released) == ((), begun.open)
    assert "its end has not come within transactions.longest_wait (1m)" in late.warnings[0]
    assert judge((X,), [], 8, 200, longest="1m").open == (X,)


def message(**fields) -> str:
    return json.dumps({"debezium_message": {"status": "END", "id": "x", **fields}})


def test_the_rows_that_an_end_announces():
    counted = [
        {"data_collection": "public.a", "event_count": 2},
        {"data_collection": "public.b", "event_count": "3"},
    ]
    extra = message(event_count=5, data_collections=counted)
    assert announced(extra, ["shop.public.a", "shop.public.b"]) == 5
    assert announced(extra, ["shop.public.a", "shop.public.bb"]) == 2
    assert announced(message(event_count="5", data_collections=None), []) == 5
    for nothing in (None, "{}", '{"other":1}', message(event_count=None), message(event_count="x")):
        assert announced(nothing, ["a"]) is None


def test_an_end_announces_rows_by_the_names_of_the_source():
    """Mapped tables have others in the lake, and a table may have the name that another one had."""
    mapped = {
        "shop.public.a_1": "shop.public.a",
        "shop.public.a_2": "shop.public.a",
        "shop.public.b": "shop.public.c",
    }
    known = ["shop.public.a", "shop.public.c", "shop.public.d", "shop.public.e"]
    chosen = Rules(exclude=("shop.e", "shop.public.b*"))
    names = source_names(known, mapped, chosen)
    assert names == {"shop.public.a_1", "shop.public.a_2", "shop.public.d"}
    counts = {"a": 100, "a_1": 1, "a_2": 2, "b": 200, "c": 300, "d": 4, "e": 400}
    counted = [{"data_collection": f"public.{n}", "event_count": c} for n, c in counts.items()]
    assert announced(message(event_count=1007, data_collections=counted), names) == 7
    assert source_names(["shop.t"], {}, Rules(include=("shop.*",))) == {"shop.t"}
    assert source_names(["shop.t", "topic"], {}, Rules(include=("crm.*",))) == set()


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12), st.data())
def test_any_cut_of_a_stream_of_transactions_releases_the_same(sizes, data):
    """Rows and events come in their own batches; what shows in the end is everything that ended."""
    stream: list[tuple[str, object]] = []
    place = 0
    for number, (size, ends) in enumerate(sizes):
        txid = number % 3 + 700
        for row in range(size):
            place += 8
            if row == 0:
                begin = f"{txid}:{place}"
                stream.append(("event", TransactionBoundary(f"{place:06}a", "begin", begin)))
            stream.append(("row", f"{txid}:{place}"))
        if ends or any(n % 3 == number % 3 for n in range(number + 1, len(sizes))):
            place += 8
            end = TransactionBoundary(f"{place:06}b", "commit", f"{txid}:{place}", rows=size)
            stream.append(("event", end))
    # The transaction topic may be read later than the topics of the rows, or earlier.
    cuts = {
        kind: sorted(data.draw(st.integers(0, 3)) for what, _ in stream if what == kind)
        for kind in ("row", "event")
    }
    at = {kind: iter(found) for kind, found in cuts.items()}
    batches: list[list[tuple[str, object]]] = [[] for _ in range(4)]
    for what, thing in stream:
        batches[next(at[what])].append((what, thing))
    open_: tuple[Open, ...] = ()
    rows: list[str] = []

    def look(asked: tuple[Open, ...]) -> dict[str, Came]:
        return {t.id: Came(sum(_is_in(t.members, row) for row in rows)) for t in asked}

    for number, batch in enumerate(batches):
        rows += [thing for what, thing in batch if what == "row"]
        events = [thing for what, thing in batch if what == "event"]
        open_ = judge(open_, events, number, number, look).open
    hidden = {row for row in rows for t in open_ if _is_in(t.members, row)}
    unended = {t.id for t in open_ if t.end is None}
    assert {t.id for t in open_} == unended
    events = [thing for what, thing in stream if what == "event"]
    assert len(unended) == sum(e.operation == "begin" for e in events) - sum(
        e.operation == "commit" for e in events
    )
    assert len(hidden) == sum(
        size
        for number, (size, ends) in enumerate(sizes)
        if not ends and not any(n % 3 == number % 3 for n in range(number + 1, len(sizes)))
    )


def _is_in(members: Members, row: str) -> bool:
    name, place = row.split(":")
    last = members.last
    return (
        name == members.name
        and int(place) >= (members.first or 0)
        and (last is None or int(place) <= last)
    )
