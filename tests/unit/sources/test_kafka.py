"""What of the Kafka source needs no broker: fields of the migration, cursors, pieces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import KafkaError, Producer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.raw_headers import send_raw_headers
from waybill.errors import ConfigurationError, SourceError
from waybill.kafka.cluster import Topic
from waybill.sources.kafka import reader, rows
from waybill.sources.kafka.pieces import BYTES_PER_TASK, dealt, piece_size
from waybill.sources.kafka.plan import plan
from waybill.sources.kafka.positions import (
    NOTHING,
    OffsetRange,
    Positions,
    read_positions,
    write_positions,
)
from waybill.sources.kafka.reader import RangeOptions, ReadRange, read_ranges
from waybill.spec.endpoints import KafkaSource
from waybill.spec.migration import Migration


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
    "given",
    [
        *("oldest", "", None, 5, {"shop": 5}, {"shop": {"x": 1}}, {"s": {0: -1}}),
        *({"shop": {0: 15.9}}, {"shop": {0: 15.0}}, {"shop": {0: True}}, {"shop": {0: None}}),
        *({"shop": {True: 5}}, {"shop": {0.5: 5}}, {"shop": {0: "15.9"}}),
    ],
)
def test_a_start_that_is_none(given):
    with pytest.raises(ValidationError, match="write earliest, latest, a time such as"):
        source(start=given)


def test_an_end():
    assert source(end="2026-11-01T00:00:00").end == datetime(2026, 11, 1, tzinfo=UTC)
    assert source(end="").end is None, "a variable that is not set"
    assert source(end={"shop": {0: 5}}).end == {"shop": {0: 5}}
    for end in ("soon", 5, {"shop": 5}, {"shop": {0: -1}}, {"shop": {0: 1.5}}):
        with pytest.raises(ValidationError, match=r"write a time such as .* or offsets by topic"):
            source(end=end)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"pattern": "(", "topics": []}, r"'\(' is not a regular expression"),
        ({"pattern": "x"}, "say which topics"),
        ({"on_data_loss": "ignore"}, "fail"),
        ({"unreadable_headers": "ignore"}, "leave_out"),
        ({"stall": "soon"}, "write a length of time"),
        ({"messages_per_task": 0}, "greater than or equal to 1"),
        ({"group": ""}, "at least 1 character"),
        ({"start": {"shp": {0: 5}}}, "start names the topic shp, which is not in topics"),
        ({"end": {"shop": {0: 5}, "shp": {0: 5}}}, "end names the topic shp, which is not"),
    ],
)
def test_wrong_fields(fields, says):
    with pytest.raises(ValidationError, match=says):
        source(**fields)


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"topics": ["shop", "waybill-published"]}, ["shop", "waybill-published"]),
        ({"topics": [], "pattern": ".*"}, ["shop", "shop_out"]),
        ({"topics": [], "pattern": "shop"}, ["shop"]),
    ],
)
def test_which_topics_are_read(fields, read):
    names = ["__consumer_offsets", "shop", "shop_out", "waybill-published"]
    assert [name for name in names if source(**fields).takes(name)] == read


class Brokers:
    """Stands for a cluster: it has some topics, of one partition with ten messages each."""

    servers = "h:9092"

    def __init__(self, *names: str) -> None:
        self.names = names

    def topic_names(self):
        return list(self.names)

    def describe(self, names):
        return [Topic(name, f"id of {name}", [0]) for name in names]

    def earliest(self, places):
        return dict.fromkeys(places, 0)

    def latest(self, places, stable=True):
        return dict.fromkeys(places, 10)


def test_offsets_of_a_topic_that_the_pattern_does_not_find():
    brokers = Brokers("shop_a", "shop_b", "crm", "waybill-published", "__own")
    for field in ("start", "end"):
        for topic in ("shop_c", "crm", "waybill-published"):
            wrong = source(topics=[], pattern="shop_.*", **{field: {topic: {0: 5}}})
            with pytest.raises(SourceError, match=f"{field} names the topic {topic}, which is not"):
                plan(wrong, brokers)
    right = source(topics=[], pattern="shop_.*", start={"shop_a": {0: 5}}, end={"shop_b": {0: 7}})
    assert plan(right, brokers).ranges == [
        OffsetRange("shop_a", 0, 5, 10),
        OffsetRange("shop_b", 0, 0, 7),
    ]


def test_offsets_of_a_topic_that_was_read_and_is_gone():
    more = {"start": {"shop_a": {0: 5}}, "on_data_loss": "earliest"}
    known = Positions({"shop_a": "", "waybill-published": ""}, {("shop_a", 0): 9}, 0)
    planned = plan(source(topics=[], pattern=".*", **more), Brokers("shop_b"), known)
    assert list(planned.ids) == ["shop_b"]


def test_a_ledger_that_was_read_once_is_not_missed():
    known = Positions({"shop": "", "waybill-published": ""}, {("shop", 0): 9}, 0)
    brokers = Brokers("shop", "waybill-published")
    planned = plan(source(topics=[], pattern=".*"), brokers, known)
    assert list(planned.ids) == ["shop"]


def test_the_cursor_names_what_moved_and_now_and_then_all():
    ids = {"shop": "id1"}
    history = [
        write_positions(NOTHING, ids, [OffsetRange("shop", n, 3, 7) for n in range(40)], False)
    ]
    assert not history[0]["complete"]
    sizes = []
    for batch in range(200):
        before = read_positions(history)
        assert before.next == {("shop", n): 7 + (batch if n < 2 else 0) for n in range(40)}
        assert before.ids == ids
        moved = [OffsetRange("shop", n, end, end + (n < 2)) for (_, n), end in before.next.items()]
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
                NOTHING,
                {"a": "1", "b": "2"},
                [OffsetRange("a", 0, 0, 5), OffsetRange("b", 0, 0, 5)],
                False,
            )
        ]
    )
    cursor = write_positions(before, {"a": "3"}, [OffsetRange("a", 0, 0, 2)], True)
    after = read_positions([cursor, {"complete": True, "topics": {"c": {"id": "", "ranges": {}}}}])
    assert (after.ids, after.next) == ({"a": "3"}, {("a", 0): 2})


def test_a_batch_that_plans_nothing_keeps_what_is_known():
    first = write_positions(NOTHING, {"a": "1"}, [OffsetRange("a", 0, 0, 5)], False)
    nothing = write_positions(read_positions([first]), {}, [], False)
    assert read_positions([nothing, first]).next == {("a", 0): 5}
    assert read_positions([nothing, first]).ids == {"a": "1"}


class Telling(Brokers):
    """Stands for a cluster that tells an id and an end of its topic."""

    def __init__(self, topic_id: str, end: int) -> None:
        super().__init__("shop")
        self.topic_id, self.end = topic_id, end

    def describe(self, names):
        return [Topic(name, self.topic_id, [0]) for name in names]

    def latest(self, places, stable=True):
        return dict.fromkeys(places, self.end)


def history_of(batches, afresh=False):
    """Cursors, newest first, of batches that found the topic with an id and an end."""
    history = []
    for topic_id, end in batches:
        before = read_positions(history)
        planned = plan(source(), Telling(topic_id, end), before, afresh)
        history.insert(0, write_positions(before, planned.ids, planned.ranges, afresh))
    return history


@pytest.mark.parametrize(
    "batches",
    [
        [("", 10), ("one", 10)],  # learned where nothing moved
        [("one", 10), ("", 12)],  # brokers of several versions
        [("one", 10), *(("", 10 + n) for n in range(100))],  # among them cursors that name all
    ],
)
def test_a_topic_made_again_is_noticed_whatever_brokers_said_before(batches):
    known = read_positions(history_of(batches))
    assert known.ids == {"shop": "one"}
    with pytest.raises(SourceError, match="the topic shop was deleted and recreated"):
        plan(source(), Telling("two", 500), known)


def test_an_empty_id_in_a_newer_cursor_hides_none():
    cursor = {"complete": False, "topics": {"shop": {"id": "", "ranges": {"0": [10, 12]}}}}
    assert read_positions([cursor, *history_of([("one", 10)])]).ids == {"shop": "one"}


def test_a_full_run_takes_the_id_as_it_is_reported():
    assert read_positions(history_of([("one", 10), ("", 5)], afresh=True)).ids == {"shop": ""}


@pytest.fixture
def played() -> Iterator[str]:
    """The address of the cluster that librdkafka plays itself."""
    player = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = player.list_topics(timeout=5).brokers.values()
    yield f"{broker.host}:{broker.port}"
    player.flush(0)  # it was there until here


def test_a_header_whose_name_is_not_utf_8(played):
    bad = [[b"ok", b"\xff\xfe"], [b"\xff", b"\xff"], [b"\xc3", b"ok"]]
    # Python calls what it has called often in another way.
    names = [[b"ok", b"a"]] * 200 + [*bad, [b"ok", b"b\0c"], []] * 2
    send_raw_headers(played, "shop", names)
    properties = {"bootstrap.servers": played, "log_level": "0"}
    span, reads = OffsetRange("shop", 0, 0, 210), {}
    with pytest.raises(
        SourceError, match=r"offset 200 of partition 0 of the topic shop.*leave_out"
    ):
        list(read_ranges([span], RangeOptions(properties, "b1"), reads.__setitem__))
    going_on = RangeOptions(properties, "b1", without_headers=True)
    batches = list(read_ranges([span], going_on, reads.__setitem__))
    found = [row["headers"] for batch in batches for row in batch.to_pylist()]
    keys = [headers and [header["key"] for header in headers] for headers in found]
    # The client ends names at a byte 0.
    assert keys == [["ok", "a"]] * 200 + [None, None, None, ["ok", "b"], None] * 2
    assert reads == {span: ReadRange(rows=210, bytes=210, bare=6)}


def test_another_failure_of_the_client_is_not_taken_for_a_header(monkeypatch):
    class Failing:
        def headers(self):
            raise SystemError("of another kind")

        def key(self):
            return None

        value = offset = timestamp = key

    monkeypatch.setattr(rows, "Message", Failing)
    with pytest.raises(SystemError, match="of another kind"):
        rows.archive_rows([Failing()], "b1", ("shop", 0), True)


spans = st.builds(
    lambda topic, partition, start, length: OffsetRange(topic, partition, start, start + length),
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
    # Long messages: earlier batches showed how long.
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


# A partition that seems to end too early


class Told:
    """Stands for what a client tells: a message at an offset, or that the partition ends there."""

    def __init__(self, offset: int, ends: bool = False) -> None:
        self._offset = offset
        self._error = KafkaError(KafkaError._PARTITION_EOF) if ends else None

    def topic(self) -> str:
        return "shop"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class Client:
    """Stands for a consumer of one partition.

    Args:
        told: what it tells, one list for each time that it is asked; then nothing.
        end: what the leader says that the partition ends with.
    """

    def __init__(self, told: list[list[Told]], end: int) -> None:
        self._told, self._end = told, end

    def assign(self, _) -> None:
        pass

    def consume(self, _count: int, _seconds: float) -> list[Told]:
        return self._told.pop(0) if self._told else []

    def get_watermark_offsets(self, _place, timeout: float) -> tuple[int, int]:
        return 0, self._end

    def close(self) -> None:
        pass


def read_told(monkeypatch, told: list[list[Told]], end: int) -> tuple[int, list[ReadRange]]:
    """Messages of the first four offsets, and what was reported of them."""
    reads: list[ReadRange] = []
    monkeypatch.setattr(reader, "QUIET", 0.0)
    monkeypatch.setattr(reader, "Consumer", lambda _: Client(told, end))
    monkeypatch.setattr(reader._RangeWork, "_ask_about_topic", lambda _: None)
    monkeypatch.setattr(rows, "Message", Told)
    spans, options = [OffsetRange("shop", 0, 0, 4)], RangeOptions({}, "b")
    batches = read_ranges(spans, options, lambda _, read: reads.append(read))
    return sum(batch.num_rows for batch in batches), reads


def test_a_new_leader_that_does_not_know_the_end_for_a_moment_is_waited_for(monkeypatch):
    told = [[Told(0), Told(1)], [Told(2, ends=True)], [], [Told(2), Told(3)], [Told(4, ends=True)]]
    assert read_told(monkeypatch, told, 4) == (4, [ReadRange(4, 4)])


def test_a_partition_that_ends_before_what_was_planned_is_an_error(monkeypatch):
    told = [[Told(0), Told(1)], [Told(2, ends=True)]]
    with pytest.raises(SourceError, match="ends at offset 2, before what was planned"):
        read_told(monkeypatch, told, 2)
