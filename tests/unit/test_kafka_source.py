"""What of the Kafka source needs no broker: fields of the migration, cursors, pieces."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from waybill.errors import ConfigurationError
from waybill.sources.kafka.pieces import BYTES_PER_TASK, dealt, piece_size
from waybill.sources.kafka.positions import NOTHING, Range, read_positions, write_positions
from waybill.spec import KafkaSource, Migration


def source(**fields) -> KafkaSource:
    return KafkaSource(**{"topics": ["shop"], **fields})


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("latest", "latest"),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T00:00:00+01:00", datetime(2026, 10, 31, 23, tzinfo=UTC)),
        (datetime(2026, 11, 1), datetime(2026, 11, 1, tzinfo=UTC)),  # noqa: DTZ001 - as YAML reads it
        ({"shop": {"0": 5, 1: "6"}}, {"shop": {0: 5, 1: 6}}),
    ],
)
def test_where_to_start(given, start):
    assert source(start=given).start == start


@pytest.mark.parametrize(
    "given", ["oldest", "", None, 5, {"shop": 5}, {"shop": {"x": 1}}, {"s": {0: -1}}]
)
def test_a_start_that_is_none(given):
    with pytest.raises(ValidationError, match="write earliest, latest, a time such as"):
        source(start=given)


def test_an_end():
    assert source(end="2026-11-01T00:00:00").end == datetime(2026, 11, 1, tzinfo=UTC)
    assert source(end="").end is None, "a variable that is not set"
    assert source(end={"shop": {0: 5}}).end == {"shop": {0: 5}}
    for end in ("soon", 5, {"shop": 5}, {"shop": {0: -1}}):
        with pytest.raises(ValidationError, match=r"write a time such as .* or offsets by topic"):
            source(end=end)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"pattern": "(", "topics": []}, r"'\(' is no regular expression"),
        ({"pattern": "x"}, "say which topics"),
        ({"on_data_loss": "ignore"}, "fail"),
        ({"stall": "soon"}, "write a length of time"),
        ({"messages_per_task": 0}, "greater than or equal to 1"),
        ({"group": ""}, "at least 1 character"),
    ],
)
def test_wrong_fields(fields, says):
    with pytest.raises(ValidationError, match=says):
        source(**fields)


def test_the_cursor_names_what_moved_and_now_and_then_all():
    ids = {"shop": "id1"}
    history = [write_positions(NOTHING, ids, [Range("shop", n, 3, 7) for n in range(40)], False)]
    assert not history[0]["complete"]
    sizes = []
    for batch in range(200):
        before = read_positions(history)
        assert before.next == {("shop", n): 7 + (batch if n < 2 else 0) for n in range(40)}
        assert before.ids == ids
        moved = [Range("shop", n, end, end + (n < 2)) for (_, n), end in before.next.items()]
        cursor = write_positions(before, ids, moved, False)
        sizes.append(len(cursor["topics"]["shop"]["ranges"]))
        history.insert(0, cursor)
    assert sizes.count(2) > 180
    assert set(sizes) == {2, 40}
    # The history before a commit that names all is not needed any more.
    last = next(n for n, cursor in enumerate(history) if cursor["complete"])
    assert read_positions(history[: last + 1]) == read_positions(history)


def test_a_full_run_forgets_what_it_did_not_find():
    before = read_positions(
        [
            write_positions(
                NOTHING, {"a": "1", "b": "2"}, [Range("a", 0, 0, 5), Range("b", 0, 0, 5)], False
            )
        ]
    )
    cursor = write_positions(before, {"a": "3"}, [Range("a", 0, 0, 2)], True)
    after = read_positions([cursor, {"complete": True, "topics": {"c": {"id": "", "ranges": {}}}}])
    assert (after.ids, after.next) == ({"a": "3"}, {("a", 0): 2})


def test_a_batch_that_plans_nothing_keeps_what_is_known():
    first = write_positions(NOTHING, {"a": "1"}, [Range("a", 0, 0, 5)], False)
    nothing = write_positions(read_positions([first]), {}, [], False)
    assert read_positions([nothing, first]).next == {("a", 0): 5}
    assert read_positions([nothing, first]).ids == {"a": "1"}


spans = st.builds(
    lambda topic, partition, start, length: Range(topic, partition, start, start + length),
    st.sampled_from("ab"),
    st.integers(0, 9),
    st.integers(0, 2**40),
    st.integers(0, 500),
)


@given(st.lists(spans, unique_by=lambda span: span[:2]), st.integers(1, 300))
def test_pieces_are_the_ranges(ranges, size):
    tasks = dealt(ranges, size)
    for task in tasks:
        assert 0 < sum(piece.offsets for piece in task) <= size
        assert len({piece[:2] for piece in task}) == len(task)
    pieces = sorted(piece for task in tasks for piece in task)
    covered = [(p.topic, p.partition, at) for p in pieces for at in range(p.start, p.end)]
    assert covered == [(r[0], r[1], at) for r in sorted(ranges) for at in range(r.start, r.end)]


def test_the_size_of_pieces():
    assert piece_size(100, 2, 250_000) == 50_000
    assert piece_size(400_000, 2, 250_000) == 200_000
    assert piece_size(10**9, 2, 250_000) == 250_000
    # Long messages: earlier batches told how long.
    assert piece_size(10**9, 2, 250_000, 1 << 20) == BYTES_PER_TASK >> 20
    assert piece_size(10**9, 2, 250_000, 1 << 40) == 1
    assert piece_size(0, 2, 250_000) == 50_000


def test_a_run_may_end_earlier_than_the_migration_but_not_later():
    data = {
        "name": "m",
        "source": {"kafka": {"topics": ["t"], "end": "2026-11-01T00:00:00"}, "envelope": "canal"},
        "lake": {"warehouse": "w"},
    }
    spec = Migration.model_validate(data)
    early, late = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    assert spec.ending(early).source.kafka.end == early
    assert spec.ending(late).source.kafka.end == spec.source.kafka.end
    data["source"]["kafka"]["end"] = {"t": {0: 5}}
    with pytest.raises(ConfigurationError, match=r"ends at offsets \(end:\)"):
        Migration.model_validate(data).ending(early)
    data["source"] = {"files": {"path": "p"}, "envelope": "canal"}
    with pytest.raises(ConfigurationError, match="cannot be read up to a time"):
        Migration.model_validate(data).ending(early)
