"""The order that source blocks give, connector by connector."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from tests.contract.roundtrip import travel
from tests.contract.test_bulk import agree
from waybill.envelopes import registry
from waybill.envelopes.debezium.source import Source, sequence_of
from waybill.errors import Refusal
from waybill.order import order_key
from waybill.records import Change, Column, Message, intern_schema
from waybill.spec.migration import Table, table_rules
from waybill.tables import TableRules
from waybill.types import parse_type


def sequence(**fields):
    return sequence_of(msgspec.convert(fields, Source))


def mysql(file, pos, row=0, **more):
    return sequence(connector="mysql", file=file, pos=pos, row=row, **more)


def postgresql(pair, lsn=None, **more):
    return sequence(connector="postgresql", sequence=pair, lsn=lsn, **more)


def sqlserver(commit, change=None, serial=None, **more):
    return sequence(
        connector="sqlserver", commit_lsn=commit, change_lsn=change, event_serial_no=serial, **more
    )


def oracle(commit, scn, place=None, statement=None, **more):
    return sequence(
        connector="oracle", commit_scn=commit, scn=scn, txSeq=place, ssn=statement, **more
    )


IN_ORDER = {
    "mysql: a tenth file, a longer offset, a row of one event": [
        mysql("mysql-bin.000009", 999_999_999),
        mysql("mysql-bin.000010", 4),
        mysql("mysql-bin.000010", 1000),
        mysql("mysql-bin.000010", 1000, 9),
        mysql("mysql-bin.000010", 1000, 10),
        mysql("mysql-bin.1000000", 4),
    ],
    "mysql: a snapshot between what it saw and what came later": [
        mysql("b.000001", 153),
        mysql("b.000001", 154, snapshot="first"),
        mysql("b.000001", 154),
        mysql("b.000001", 200, snapshot=True),
        mysql("b.000001", 200, 1, snapshot="incremental"),
    ],
    "mariadb: file names with dots": [
        sequence(connector="mariadb", file="db1.eu.bin.000002", pos=4, row=0),
        sequence(connector="mariadb", file="db1.eu.bin.000010", pos=4, row=0),
    ],
    "postgresql: a transaction that began first and was committed last": [
        postgresql('["100","110"]'),
        postgresql('["120","105"]'),
        postgresql('["120","106"]'),
        postgresql('["130","125"]'),
        postgresql('["130","131"]'),
    ],
    "postgresql: right after the start no commit is known": [
        postgresql('[null,"999"]'),
        postgresql('[null,"1000"]'),
        postgresql('["1005","1002"]'),
    ],
    "postgresql: versions without sequence": [
        postgresql(None, 24_023_128),
        postgresql(None, 124_023_128),
    ],
    "postgresql: numbers beyond a double": [
        postgresql('["9007199254740992","9007199254740992"]'),
        postgresql('["9007199254740992","9007199254740993"]'),
    ],
    "sqlserver: hex, part by part": [
        sqlserver("00000027:00000758:0005", snapshot="true"),
        sqlserver("00000027:00000758:0005", "00000027:00000758:0003", 1),
        sqlserver("00000027:00000758:0005", "00000027:00000758:0003", 2),
        sqlserver("00000027:00000758:0005", "00000027:00000758:000a", 1),
        sqlserver("00000027:00000a00:0001", "00000027:00000758:0001", 1),
        sqlserver("0000002a:00000001:0001", "00000027:00000758:0001", 1),
    ],
    "oracle: the commit decides, then the change": [
        oracle("999", "998", 5, 0),
        oracle(None, "1000", snapshot="true"),
        oracle("1000", "900", 1, 0),
        oracle("1000", "900", 2, 0),
        oracle("1000", "900", 2, 1),
        oracle(1001, 800, 1, 0),
    ],
    "mongodb: seconds and counter": [
        sequence(connector="mongodb", ts_ms=1000, ord=-1, snapshot="true"),
        sequence(connector="mongodb", ts_ms=1000, ord=9),
        sequence(connector="mongodb", ts_ms=1000, ord=10),
        sequence(connector="mongodb", ts_ms=2000, ord=1),
    ],
    "waybill: the numbers of another envelope": [
        sequence(connector="waybill", sequence='["999"]'),
        sequence(connector="waybill", sequence='["1000"]'),
        sequence(connector="mysql", sequence='["100000000000000000000000000000"]'),
    ],
    "a connector of another name goes by its fields": [
        sequence(connector="my-mysql", file="b.000001", pos=4),
        sequence(connector="tidb", file="b.000001", pos=5),
    ],
}


@pytest.mark.parametrize("positions", IN_ORDER.values(), ids=IN_ORDER)
def test_positions_sort_as_they_happened(positions):
    keys = [order_key(position, 1, 0, 0, 0) for position in positions]
    assert sorted(keys) == keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"connector": "mysql", "file": "", "pos": 0, "snapshot": "true"},
        {"connector": "mysql", "db": "shop"},
        {"connector": "postgresql"},
        {"connector": "sqlserver", "snapshot": "true"},
        {"connector": "cassandra", "file": "CommitLog-6-1.log", "pos": 4},
        {"connector": "vitess", "sequence": "not json"},
        {"connector": "waybill", "sequence": "[]"},
        {"connector": "waybill", "sequence": '["a"]'},
    ],
)
def test_no_position_is_none(fields):
    assert sequence(**fields) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"connector": "mysql", "file": "binlog", "pos": 4},
        {"connector": "mysql", "file": "bin.-1e3", "pos": 4},
        {"connector": "postgresql", "sequence": '["x","1"]'},
        {"connector": "postgresql", "sequence": "{}"},
        {"connector": "postgresql", "sequence": '["1_0","1"]'},
        {"connector": "sqlserver", "commit_lsn": "00000027:00000758"},
        {"connector": "oracle", "scn": "1,2"},
    ],
)
def test_a_position_that_cannot_be_read_is_refused(fields):
    with pytest.raises(Refusal) as caught:
        sequence(**fields)
    assert caught.value.kind == "shape"


def changes(settings, *sources):
    envelope = registry.get("debezium-json")
    decoder = envelope.decoder(envelope.decode_settings(**settings), TableRules())
    found = []
    for offset, source in enumerate(sources):
        op = source.pop("op")
        block = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", **source}
        value = msgspec.json.encode({"before": None, "after": {"id": 1}, "op": op, "source": block})
        found += decoder.decode(Message("t", 0, offset, 0, b'{"id":1}', value))
    return [change.order_key for change in found]


def test_a_change_whose_transaction_was_open_at_the_snapshot_wins():
    """Its LSN is below that of the snapshot, which did not see it."""
    snapshot = {"op": "r", "snapshot": "true", "lsn": 5000, "sequence": '[null,"5000"]'}
    first = {"op": "u", "lsn": 4990, "sequence": '[null,"4990"]'}
    later = {"op": "u", "lsn": 4995, "sequence": '["5100","4995"]'}
    keys = changes({}, snapshot, first, later)
    assert sorted(keys) == keys


@pytest.mark.parametrize(("setting", "wins"), [("position", True), ("oldest", False)])
def test_a_new_snapshot_wins_over_older_changes_where_it_is_set_to(setting, wins):
    older = {"op": "u", "lsn": 4990, "sequence": '["4000","4990"]'}
    snapshot = {"op": "r", "snapshot": "true", "lsn": 5000, "sequence": '[null,"5000"]'}
    before, after = changes({"snapshots": setting}, older, snapshot)
    assert (after > before) is wins


def test_of_two_snapshots_the_newer_one_wins():
    one = {"op": "r", "snapshot": "true", "lsn": 5000, "sequence": '[null,"5000"]'}
    two = {"op": "r", "snapshot": "true", "lsn": 10_000, "sequence": '[null,"10000"]'}
    older, newer = changes({}, one, two)
    assert older < newer


CONNECTORS = ["postgresql", "mysql", "mariadb", "oracle", "sqlserver", "db2", "mongodb", "waybill"]


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("name", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("numbers", [(5,), (5, 1), (1, 5), (1, 2, 3)])
def test_a_sequence_of_another_source_is_read_again_whatever_connector_is_named(
    connector, name, numbers
):
    """Rows are written in the name of a connector for readers that know no other ones."""
    schema = intern_schema("shop", None, "t", (Column("id", parse_type("int32")),), ("id",))
    row, message = schema.Image("1"), Message("t", 0, 1, 1, None, None)
    rows = [
        Change("read", schema, message, after=row, sequence=numbers),
        Change("update", schema, message, before=row, after=row, sequence=numbers),
        Change("delete", schema, message, before=row, sequence=numbers),
    ]
    settings = {"connector": connector, "tombstones": False}
    for trip in travel(registry.get(name), rows, bare=False, **settings):
        assert (trip.refusal, trip.unread) == (None, None)
        assert trip.read[0].sequence[: len(numbers)] == numbers
        assert trip.read[0].full_row == trip.change.full_row


@pytest.mark.parametrize("lsn", [None, 7])
def test_postgresql_with_and_without_its_log_is_read_at_once_as_one_by_one(lsn):
    table = Table.model_validate({"key": ["id"], "columns": {"id": "int"}})
    rules, lines = table_rules({"shop.t": table}), []
    for number in range(200):
        pair = f'["{number + 50}","{number}"]' if number % 20 < 18 else f'[null,"{number}"]'
        source = {"connector": "postgresql", "db": "shop", "table": "t", "sequence": pair}
        if lsn is not None:
            source["lsn"] = number
        value = {"before": None, "after": {"id": number}, "source": source, "op": "c", "ts_ms": 1}
        lines.append(msgspec.json.encode(value))
    assert agree("debezium-json", "debezium-json", lines, rules) >= 100
    assert agree("debezium-json", "oms-default", lines, rules) >= 100


@pytest.mark.parametrize("year", [1, 1677, 2262, 2263, 9999])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("debezium-json", {}), ("debezium-json", {"schemas": True}), ("debezium-avro", {})],
)
def test_a_time_whose_nanoseconds_do_not_fit_is_stated_in_microseconds(name, settings, year):
    """Connect's int64 ends in the year 2262; of an older or later time `ts_ns` is null."""
    schema = intern_schema("shop", None, "t", (Column("id", parse_type("int32")),), ("id",))
    time = (datetime(year, 9, 30) - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
    message = Message("t", 0, 1, 1, None, None)
    change = Change("insert", schema, message, after=schema.Image("1"), source_time=time)
    (trip,) = travel(registry.get(name), [change], bare=False, **settings)
    assert (trip.refusal, trip.unread) == (None, None)
    assert trip.read[0].source_time == time
    source = msgspec.json.decode(trip.read[0].extra)["debezium"]["source"]
    assert source["ts_ns"] == (time * 1000 if abs(time) < 2**63 // 1000 else None)
