"""OMS Default: a column without declaration is what JSON says, message by message."""

from __future__ import annotations

import msgspec
import pytest

from tests.contract.probes import change
from tests.contract.probes import table as table_of
from waybill.envelopes import registry
from waybill.envelopes.oms.values import notation_of
from waybill.errors import Refusal
from waybill.records import Change, Message, intern_schema
from waybill.tables import TableRules
from waybill.types import LogicalType

MESSAGE = (
    b'{"prevStruct":null,"postStruct":{"id":4,"note":%b},"allMetaData":{"record_primary_key":"id",'
    b'"storeDataSequence":1,"table_name":"orders","db":"shop"},"recordType":"INSERT"}'
)


def decoder():
    envelope = registry.get("oms-default")
    return envelope.decoder(envelope.decode_settings(), TableRules())


def read(reader, note: bytes):
    (change,) = reader.decode(Message("t", 0, 0, None, None, MESSAGE % note))
    return msgspec.structs.astuple(change.after)[1], str(change.schema.columns[1].type)


def test_what_was_read_before_does_not_decide_what_a_value_is():
    values = [(b"true", "boolean"), (b'""', "string"), (b"1", "number"), (b'"AQ=="', "string")]
    values += [(b"false", "boolean"), (b"0", "number"), (b"true", "boolean"), (b"null", "boolean")]
    warm = decoder()
    for note, kind in values:
        text = None if note == b"null" else note.decode().strip('"')
        assert read(warm, note) == (text, kind)


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("zone", [" Asia/Shanghai", " +08:00", " Z", "Z", " GMT+08:00"])
def test_a_wall_clock_that_names_its_zone_is_neither_read_nor_written(earlier, zone):
    notation = notation_of(LogicalType("timestamp"), earlier)
    text = f"2020-11-25 00:01:02.5{zone}"
    with pytest.raises(Refusal, match="declare the column as timestamptz") as caught:
        notation.read(text)
    assert caught.value.kind == "value"
    with pytest.raises(Refusal) as caught:
        notation.write(text)
    assert caught.value.kind == "encoding"
    assert notation.read("0000-00-00 00:00:00") == "0000-00-00 00:00:00"


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2020-11-25 00:01:02.5 Z", "2020-11-25T00:01:02.5Z"),
        ("2020-11-25 00:01:02 UT", "2020-11-25T00:01:02Z"),
        ("2020-11-25 00:01:02 UTC-08:00", "2020-11-25T08:01:02Z"),
        ("2020-11-25 00:01:02.25 GMT+05:30", "2020-11-24T18:31:02.25Z"),
        ("2020-11-25 00:01:02 +08:05:43", "2020-11-24T15:55:19Z"),
        ("2020-11-01 00:30:00 America/New_York", "2020-11-01T04:30:00Z"),
    ],
)
def test_a_zone_is_named_as_java_names_it(text, utc):
    assert notation_of(LogicalType("timestamptz")).read(text) == utc


def test_a_wall_clock_that_its_zone_showed_twice_is_no_instant():
    with pytest.raises(Refusal, match="New_York showed twice: declare the column as string"):
        notation_of(LogicalType("timestamptz")).read("2020-11-01 01:30:00 America/New_York")


def test_a_wall_clock_that_its_zone_passed_over_is_no_time():
    text = "2021-03-14 02:30:00 America/New_York"
    notation = notation_of(LogicalType("timestamptz"))
    assert notation.read(text) == text == notation.write(text)
    with pytest.raises(Refusal, match="declare the column as timestamptz"):
        notation_of(LogicalType("timestamp")).read(text)


@pytest.mark.parametrize("target", ["oms-default", "oms-extended", "oms-canal", "oms-dataworks"])
def test_a_bit_without_size_is_a_number_before_3_3_0(target):
    """Its name goes with it, so that a reader of that notation finds a number under it."""
    source, envelope = registry.get("oms-extended"), registry.get(target)
    value = MESSAGE.replace(b'"note":%b', b'"b":"Af8=","__light_type":{"b":{"schemaType":"BIT"}}')
    reads = source.decoder(source.decode_settings(), TableRules())
    (change,) = reads.decode(Message("t", 0, 0, None, None, value))
    settings = {"version": "earlier"}
    losses: list[str] = []
    (written,) = envelope.encoder(envelope.encode_settings(**settings)).encode(change, losses)
    assert "types" in losses
    again = envelope.decoder(envelope.decode_settings(**settings), TableRules())
    (found,) = again.decode(Message("t", 0, 0, None, None, written.value))
    assert found.after.f1 == "511"
    assert target == "oms-default" or found.schema.columns[1].source_type.upper() == "BIT"


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("time", "00:01:02.500000", "00:01:02.5"),
        ("time", "00:01:02.000", "00:01:02"),
        ("time", "10:00:00", "10:00:00"),
        ("time", "-838:59:59.000000", "-838:59:59"),
        ("time", "00:61:02.500", "00:61:02.500"),
        ("time", "2020-11-25T00:01:02.500", "2020-11-25T00:01:02.500"),
        ("timestamp", "2020-11-25T00:01:00.120", "2020-11-25 00:01:00.12"),
        ("timestamp", "2020-11-25T00:01:00.000", "2020-11-25 00:01:00"),
        ("timestamp", "2020-11-25T00:01:00.1234567890", "2020-11-25 00:01:00.123456789"),
        ("timestamp", "2020-11-25T00:01:00", "2020-11-25 00:01:00"),
        ("timestamp", "2020-02-30T00:00:00.500", "2020-02-30T00:00:00.500"),
    ],
)
def test_zeros_at_the_end_of_a_fraction_are_not_shown(kind, text, shown, earlier):
    if earlier and kind == "timestamp" and shown[:8] != "2020-02-":
        shown = shown.replace(" ", "T")
    assert notation_of(LogicalType(kind), earlier).write(text) == shown
    kept = notation_of(LogicalType(kind), earlier, zeros=True)
    if not text.endswith("7890"):
        assert kept.write(text) in (text, text.replace("T", " "))


def test_zeros_of_an_instant_are_not_shown():
    kind = LogicalType("timestamptz")
    for text, shown, kept in [
        ("2020-05-24T10:14:29.000Z", "1590315269", "1590315269.000"),
        ("2020-05-24T10:14:29.120Z", "1590315269.12", "1590315269.120"),
        ("2020-05-24T10:14:30Z", "1590315270", "1590315270"),
        ("1969-12-31T23:59:59.500Z", "-0.5", "-0.500"),
    ]:
        assert notation_of(kind).write(text) == shown
        assert notation_of(kind, zeros=True).write(text) == kept


def test_a_column_name_that_cannot_be_carried_is_refused():
    with pytest.raises(Refusal) as caught:
        decoder().decode(Message("t", 0, 0, None, None, MESSAGE.replace(b"note", b'a\\"b') % b"1"))
    assert caught.value.kind == "shape"


@pytest.mark.parametrize(
    ("kind", "text", "earlier"),
    [
        ("time", "23:59:59.123456789", False),
        ("time", "23:59:59.123456789", True),
        ("timestamp", "2020-11-25T00:01:02.123456789", False),
        ("timestamp", "2020-11-25T00:01:02.123456789", True),
        ("timestamptz", "2020-11-25T00:01:02.123456789Z", False),
    ],
)
def test_more_digits_of_a_second_than_oms_has_are_refused(kind, text, earlier):
    notation = notation_of(LogicalType(kind), earlier)
    assert "123456789" in notation.write(text)
    finer = text.removesuffix("Z") + "1" + "Z" * text.endswith("Z")
    with pytest.raises(Refusal, match="9 digits of a second") as caught:
        notation.write(finer)
    assert caught.value.kind == "encoding"


@pytest.mark.parametrize("target", ["oms-default", "oms-extended", "oms-canal", "oms-dataworks"])
@pytest.mark.parametrize(
    ("kind", "text"), [("int", "1.0"), ("time", "00:01:02.0000000001"), ("bigint", "1e3")]
)
def test_what_a_column_of_oms_cannot_hold_is_refused(target, kind, text):
    envelope = registry.get(target)
    schema = table_of({"id": kind})
    encoder = envelope.encoder(envelope.encode_settings())
    with pytest.raises(Refusal) as caught:
        encoder.encode(change("insert", after={"id": text}, schema=schema), [])
    assert caught.value.kind == "encoding"


def test_an_hour_that_clocks_show_twice_is_counted_where_a_reader_takes_the_first():
    source, target = registry.get("oms-default"), registry.get("oms-shareplex")
    zone = "America/New_York"
    encoder = target.encoder(target.encode_settings(timezone=zone))
    decoder = target.decoder(target.decode_settings(timezone=zone), TableRules())
    (change,) = source.decoder(source.decode_settings(), TableRules()).decode(
        Message("t", 0, 0, None, None, MESSAGE % b"1")
    )
    for second, lost in ((1604208600, 0), (1604212200, 1)):
        change.source_time, losses = second * 1_000_000, []
        (written,) = encoder.encode(change, losses)
        assert b'"time":"2020-11-01T01:30:00"' in written.value
        assert losses.count("source_time") == lost
        (read,) = decoder.decode(Message("t", 0, 0, None, None, written.value))
        assert (read.source_time == change.source_time) is not bool(lost)


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("TRUNCATE TABLE customers", True),
        ("truncate `other`.`orders`", True),
        ("TRUNCATE TABLE Shop.ORDERS;", False),
        ("/* app */ truncate orders", False),
        ("TRUNCATE TABLE ONLY orders", False),
        ("", False),
    ],
)
def test_a_truncate_of_canal_whose_statement_names_another_table_is_refused(statement, refused):
    envelope = registry.get("oms-canal")
    flat = {"type": "TRUNCATE", "database": "shop", "table": "orders", "isDdl": True}
    value = msgspec.json.encode({**flat, "es": 1, "ts": 1, "sql": statement})
    reads = envelope.decoder(envelope.decode_settings(), TableRules())
    message = Message("t", 0, 0, None, None, value)
    if refused:
        with pytest.raises(Refusal, match="and the message names shop"):
            reads.decode(message)
    else:
        (change,) = reads.decode(message)
        assert (change.operation, change.schema.table) == ("truncate", "orders")


@pytest.mark.parametrize("target", ["oms-canal", "oms-dataworks"])
def test_a_truncate_is_written_with_a_statement_that_names_its_table_as_the_message_does(target):
    """PostgreSQL qualifies by the schema, and a reader would take that for another database."""
    envelope = registry.get(target)
    encoder = envelope.encoder(envelope.encode_settings())
    reads = envelope.decoder(envelope.decode_settings(), TableRules())
    for schema, text in (
        (None, "TRUNCATE TABLE public.orders"),
        ("public", "truncate hr.orders"),
        (None, "TRUNCATE TABLE orders PARTITION (p0)"),
    ):
        table = intern_schema("shop", schema, "orders")
        message = Message("t", 0, 0, 1, None, None)
        change = Change("truncate", table, message, ddl_text=text, source_time=0)
        (written,) = encoder.encode(change, [])
        (read,) = reads.decode(Message("t", 0, 0, 1, None, written.value))
        assert (read.operation, read.schema.table) == ("truncate", "orders")
        assert read.ddl_text == "TRUNCATE TABLE `shop`.`orders`"
