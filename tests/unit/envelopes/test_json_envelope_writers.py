"""Canal and OMS Default: what the writers do with changes that hold less than a row, or more."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta

import pytest
from msgspec import UNSET
from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.envelopes.canal.values import notation_of
from waybill.envelopes.statements import operation_of
from waybill.errors import Refusal
from waybill.made_ids import WITHIN_PARTITION
from waybill.records import NO_TABLE, Change, Column, Message, intern_schema
from waybill.types import parse_type
from waybill.values.mysql_types import fixed_length, jdbc_type, logical_type, members, name_of
from waybill.values.temporal import zone_named

UTC = zone_named("UTC")
SCHEMA = intern_schema(
    "shop%",
    "public",
    "50%",
    (
        Column("id", parse_type("int64")),
        Column("name%", parse_type("string")),
        Column("n", parse_type("number")),
        Column("at", parse_type("timestamptz")),
    ),
    ("id", "at"),
)
ENVELOPES = ["canal", "oms-default"]


def change(operation, before=None, after=None, **more):
    message = Message("t", 3, 42, 1_700_000_000_123, None, None)
    images = [None if row is None else SCHEMA.Image(*row) for row in (before, after)]
    more.setdefault("schema", SCHEMA)
    return Change(operation, message=message, before=images[0], after=images[1], index=2, **more)


def write(envelope, made):
    declaration = registry.get(envelope)
    losses = []
    (out,) = declaration.encoder(declaration.encode_settings()).encode(made, losses)
    return out.key, json.loads(out.value), losses


def refusal_of(envelope, made):
    with pytest.raises(Refusal) as caught:
        write(envelope, made)
    return caught.value.kind


ROW = ("7", "a%", "1.10", "2023-01-01T00:00:00.5Z")
OLD = ("7", "b", "1.10", "2023-01-01T00:00:00.5Z")


def test_canal_from_a_database_with_schemas():
    key, value, losses = write("canal", change("update", OLD, ROW, transaction="571"))
    assert key == b'["7","2023-01-01T00:00:00.5Z"]'
    assert value["database"] == "shop%"
    assert value["table"] == "50%"
    assert value["data"] == [{"id": "7", "name%": "a%", "n": "1.10", "at": "2023-01-01 00:00:00.5"}]
    assert value["old"] == [{"name%": "b"}]
    assert value["mysqlType"] == {
        "id": "bigint",
        "name%": "varchar",
        "n": "decimal",
        "at": "timestamp(6)",
    }
    assert (value["es"], value["ts"], value["id"]) == (1_700_000_000_123, 1_700_000_000_123, 42)
    assert value["gtid"] == ""
    assert sorted(losses) == ["schema_name", "source_time", "transactions"]


def test_oms_from_a_database_with_schemas():
    key, value, losses = write("oms-default", change("update", OLD, ROW, transaction="571"))
    assert key == b'["7","2023-01-01T00:00:00.5Z"]'
    meta = value["allMetaData"]
    assert (meta["db"], meta["table_name"], meta["dbType"]) == ("shop%", "50%", None)
    assert meta["record_primary_key"] == "id\u0001at"
    assert meta["record_primary_value"] == "7\u00011672531200.5"
    assert meta["storeDataSequence"] == (10**9 + 3 * 10**10 + 42) * 10**5 + 2
    assert meta["timestamp"] is None
    assert value["prevStruct"]["name%"] == "b"
    assert sorted(losses) == [WITHIN_PARTITION, "schema_name", "transactions", "types"]


@pytest.mark.parametrize(("micros", "lost"), [(1_500_000, False), (1_500_001, True)])
def test_canal_cuts_microseconds_off_and_counts_it(micros, lost):
    _, value, losses = write("canal", change("delete", ROW, source_time=micros))
    assert value["es"] == 1500
    assert ("source_time" in losses) is lost


def test_times_before_1970_are_cut_towards_the_past():
    assert write("canal", change("delete", ROW, source_time=-1))[1]["es"] == -1
    _, value, losses = write("oms-default", change("delete", ROW, source_time=-1))
    assert value["allMetaData"]["timestamp"] == "-1"
    assert "source_time" in losses


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_update_without_the_row_before(envelope):
    """Readers of Canal need an entry in `old`; most of them take an empty one for unchanged."""
    _, value, losses = write(envelope, change("update", None, ROW))
    if envelope == "canal":
        assert value["old"] == [{}]
    else:
        assert value["prevStruct"] is None
    assert ("before_image" in losses) is (envelope == "canal")


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_key_change_whose_old_key_its_source_removes_apart(envelope):
    moved = SCHEMA.Key("6", "2023-01-01T00:00:00.5Z")
    _, value, losses = write(envelope, change("update", None, ROW, moved_from=moved))
    if envelope == "canal":
        assert (value["type"], value["old"]) == ("INSERT", None)
    else:
        assert (value["recordType"], value["prevStruct"]) == ("INSERT", None)
    assert "key_change" in losses
    _, value, losses = write(envelope, change("update", OLD, ROW, moved_from=moved))
    if envelope == "canal":
        assert value["old"] == [{"id": "6", "name%": "b"}]
    else:
        assert value["prevStruct"]["id"] == 6
    assert "before_image" not in losses


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_unchanged_columns_are_taken_from_the_row_before(envelope):
    """Full rows do not say which columns were not touched, so it is counted either way."""
    cut = ("7", "a%", UNSET, "2023-01-01T00:00:00.5Z")
    made = change("update", OLD, cut)
    _, value, losses = write(envelope, made)
    row = value["data"][0] if envelope == "canal" else value["postStruct"]
    assert str(row["n"]) in ("1.10", "1.1")
    assert "unchanged_columns" in losses
    assert made.after.f2 is UNSET, "the change itself stays as it was"
    _, value, losses = write(envelope, change("update", None, cut))
    row = value["data"][0] if envelope == "canal" else value["postStruct"]
    assert "n" not in row
    assert "unchanged_columns" in losses


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_delete_that_knows_only_the_key(envelope):
    _, value, losses = write(
        envelope, change("delete", ("7", UNSET, UNSET, "2023-01-01T00:00:00Z"))
    )
    row = value["data"][0] if envelope == "canal" else value["prevStruct"]
    assert row.keys() == {"id", "at"}
    assert "unchanged_columns" in losses


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_what_cannot_be_written_is_refused(envelope):
    assert refusal_of(envelope, change("insert")) == "encoding"
    assert refusal_of(envelope, change("delete", None, ROW)) == "encoding"
    assert refusal_of(envelope, change("insert", None, (UNSET, "a", None, "x"))) == "encoding"


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize(
    ("operation", "loss"),
    [
        ("begin", "transactions"),
        ("commit", "transactions"),
        ("rollback", "transactions"),
        ("other", "other"),
    ],
)
def test_operations_without_a_word(envelope, operation, loss):
    declaration = registry.get(envelope)
    encoder = declaration.encoder(declaration.encode_settings())
    losses = []
    assert encoder.encode(change(operation, schema=NO_TABLE), losses) == []
    assert losses == [loss]


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_truncate_without_text_gets_one(envelope):
    _, value, _ = write(envelope, change("truncate"))
    text = value["sql"] if envelope == "canal" else value["postStruct"]["ddl"]
    assert text == "TRUNCATE TABLE `shop%`.`50%`"


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_rerun_writes_the_same_bytes(envelope):
    declaration = registry.get(envelope)
    values = [
        declaration.encoder(declaration.encode_settings()).encode(change("update", OLD, ROW), [])
        for _ in range(2)
    ]
    assert values[0] == values[1]


def test_extras_of_another_family_are_no_extras_of_this_one():
    made = change("insert", None, ROW, extra=b'{"oms":{"checkpoint":"5"},"id":9}')
    assert write("canal", made)[1]["id"] == 42
    made = change("insert", None, ROW, extra=b'{"canal":{"id":1,"ts":2}}')
    assert write("oms-default", made)[1]["allMetaData"]["checkpoint"] is None


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("create table t (a int)", "CREATE"),
        (" CREATE\nTEMPORARY TABLE t (a int)", "CREATE"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CINDEX"),
        ("drop index i on t", "DINDEX"),
        ("DROP TABLE t", "ERASE"),
        ("ALTER TABLE t ADD a INT", "ALTER"),
        ("RENAME TABLE a TO b", "RENAME"),
        ("truncate t partition (p0)", "QUERY"),
        ("DROP DATABASE shop", "QUERY"),
        ("", "QUERY"),
    ],
)
def test_types_of_statements(sql, kind):
    assert operation_of(sql) == kind


def test_an_unknown_time_zone_is_reported_when_the_settings_are_read():
    envelope = registry.get("canal")
    for model in (envelope.decode_settings, envelope.encode_settings):
        with pytest.raises(ValidationError, match="no time zone"):
            model(timezone="Asia/Atlantis")


def test_mysql_types():
    assert members("enum('a','it''s','x,y','(')") == ("a", "it's", "x,y", "(")
    assert members("enum") == ()
    assert fixed_length("BINARY(16)") == 16
    assert fixed_length("binary") == 1
    assert fixed_length("varbinary(16)") is None
    assert str(logical_type("no such type")) == "unknown"
    assert str(logical_type(None)) == "unknown"
    assert jdbc_type("") == 12
    for name in ("decimal(10,2)", "bit(9)", "uint64", "float32", "timestamptz", "geometry", "json"):
        assert str(logical_type(name_of(parse_type(name)))) == name


@pytest.mark.parametrize("srid", [0, 4326])
@pytest.mark.parametrize("order", ["little", "big"])
def test_geometry_is_wkb_behind_four_bytes(srid, order):
    wkb = bytes([order == "little"]) + (1).to_bytes(4, order) + bytes(range(16))
    value = (srid.to_bytes(4, "little") + wkb).decode("latin-1")
    kind = parse_type("geometry")
    text = notation_of(kind, "geometry", UTC).read(value)
    if srid == 0:
        assert base64.b64decode(text) == wkb
    assert notation_of(kind, "geometry", UTC).write(text) == value


def test_what_is_no_geometry_is_refused():
    kind = parse_type("geometry")
    notation = notation_of(kind, "geometry", UTC)
    for convert, text in ((notation.read, "abc"), (notation.write, "AA=="), (notation.write, "?")):
        with pytest.raises(Refusal):
            convert(text)


@pytest.mark.parametrize(
    ("mysql", "text"),
    [
        ("enum('a')", "b"),
        ("set('a','b')", "a,c"),
        ("blob", "?"),
        ("bit(9)", "?"),
        ("bit(1)", "1"),
        ("binary(3)", "AA=="),
        ("datetime", "2023-01-01 00:00:00"),
        ("timestamp", "2023-01-01 00:00:00"),
    ],
)
def test_texts_without_a_notation_in_canal_are_refused(mysql, text):
    with pytest.raises(Refusal) as caught:
        notation_of(logical_type(mysql), mysql, UTC).write(text)
    assert caught.value.kind == "encoding"


@pytest.mark.parametrize(
    ("mysql", "text", "number"),
    [
        ("enum('0','1')", "", "0"),
        ("enum('0','1')", "0", "1"),
        ("enum('1','0')", "1", "1"),
        ("enum('1','0')", "", "0"),
        ("enum('a','')", "", "2"),
        ("set('0','1')", "", "0"),
        ("set('0','1')", "0", "1"),
        ("set('0','1')", "0,1", "3"),
    ],
)
def test_members_called_like_numbers_are_distinguished_from_numbers(mysql, text, number):
    kind = logical_type(mysql)
    assert notation_of(kind, mysql, UTC).write(text) == number
    assert notation_of(kind, mysql, UTC).read(number) == text


@pytest.mark.parametrize("digits", [3, 12, 30, 5_000])
@pytest.mark.parametrize("name", ["bit", "binary"])
def test_no_value_is_filled_up_to_a_size_that_a_message_invents(name, digits):
    kind = parse_type("bit(65)" if name == "bit" else "bytes")
    if name == "bit" and digits <= 30:
        kind = parse_type(f"bit({'9' * digits})")
    read = notation_of(kind, f"{name}({'9' * digits})", UTC).read
    with pytest.raises(Refusal, match="is no type of MySQL"):
        read("1")


def test_oms_full_rows_have_no_id_and_so_are_older_than_every_change():
    full = change("read", None, ROW, sequence=(36346072, -1), full_row=True)
    _, value, losses = write("oms-default", full)
    assert "storeDataSequence" not in value["allMetaData"]
    assert "sequence_id" in losses
    _, value, _ = write("oms-default", change("read", None, ROW, sequence=(5,)))
    assert value["allMetaData"]["storeDataSequence"] == 5


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_key_that_is_no_column_is_refused(envelope):
    schema = intern_schema("shop", None, "t", SCHEMA.columns, ("gone",))
    assert refusal_of(envelope, change("insert", None, ROW, schema=schema)) == "key"


@pytest.mark.parametrize(
    ("name", "quarters"),
    [
        ("Europe/Berlin", 4),
        ("America/New_York", 4),
        ("Australia/Lord_Howe", 2),
        ("Africa/Casablanca", 4),
        ("Asia/Kolkata", 0),
        ("UTC", 0),
    ],
)
def test_an_instant_is_read_back_or_refused(name, quarters):
    """Every quarter of an hour of a year: those that the clocks show again are refused."""
    kind, zone = parse_type("timestamptz"), zone_named(name)
    notation = notation_of(kind, "timestamp", zone)
    write, read = notation.write, notation.read
    start = datetime(2024, 1, 1)  # noqa: DTZ001 - UTC, as the text below says
    times = [start + timedelta(minutes=15 * n) for n in range(366 * 96)]
    again = set()
    for time in times:
        text = f"{time.isoformat()}.5Z"
        try:
            assert read(write(text)) == text
        except Refusal:
            again.add(text)
    assert len(again) == quarters


def no_op(envelope, extra=None):
    declaration = registry.get(envelope)
    encoder = declaration.encoder(declaration.encode_settings())
    (out,) = encoder.encode(change("update", ROW, ROW, extra=extra), [])
    return json.loads(out.value)


def test_an_update_that_changed_nothing_has_a_column_in_old():
    """Readers need it, and an empty one says that the row before is not known."""
    assert no_op("canal")["old"] == [{"name%": "a%"}]
    assert no_op("oms-canal")["old"] == [{"name%": "a%"}]
    assert no_op("maxwell")["old"] == {"name%": "a%"}
    assert "old" not in no_op("maxwell", b'{"maxwell":{}}'), "Maxwell itself leaves it out"
    schema = intern_schema("shop", None, "t", SCHEMA.columns[:1], ("id",))
    row = schema.Image("1")
    for envelope, old in (("canal", [{"id": "1"}]), ("maxwell", {"id": 1})):
        declaration = registry.get(envelope)
        encoder = declaration.encoder(declaration.encode_settings())
        message = Message("t", 0, 0, 5, None, None)
        (out,) = encoder.encode(Change("update", schema, message, before=row, after=row), [])
        assert json.loads(out.value)["old"] == old
