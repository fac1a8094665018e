"""What the gate tells the decoders that read published messages again."""

from __future__ import annotations

import pytest

from waybill.envelopes import registry
from waybill.records import Change, Column, Message, intern_schema
from waybill.types import STRING, LogicalType
from waybill.validate.comparing_messages import MessageJudge
from waybill.validate.digest import difference, effects_of
from waybill.validate.readers import TargetReader, rules_of

DEBEZIUM, MAXWELL = registry.get("debezium-json"), registry.get("maxwell")
TIMESTAMP = LogicalType("timestamp")


def there_and_back(column: Column, text: str) -> str | None:
    """What is different after a row went through Debezium JSON without schema."""
    schema = intern_schema(
        "shop", None, "t", (Column("id", LogicalType("int64")), column), ("id",), "connect"
    )
    change = Change("insert", schema, Message("t", 0, 0, 0, None, None))
    change.after = schema.Image("1", text)
    (out, *_) = DEBEZIUM.encoder(DEBEZIUM.encode_settings()).encode(change, [])
    decoder = DEBEZIUM.decoder(DEBEZIUM.decode_settings(), rules_of([schema]))
    (back,) = decoder.decode(Message("t", 0, 0, 0, out.key, out.value, out.headers))
    return difference(effects_of(change), effects_of(back), False)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("io.debezium.time.Timestamp", "2001-02-03T04:05:06.789"),
        ("io.debezium.time.MicroTimestamp", "2001-02-03T04:05:06.789012"),
        ("io.debezium.time.NanoTimestamp", "2001-02-03T04:05:06.789012345"),
        ("org.apache.kafka.connect.data.Timestamp", "2001-02-03T04:05:06.789"),
    ],
)
def test_counts_of_time_are_read_in_their_unit(unit, text):
    assert there_and_back(Column("at", TIMESTAMP, unit), text) is None


@pytest.mark.parametrize("text", ["infinity", "2001-02-03T04:05:06.789012"])
def test_a_time_declared_a_string_is_written_as_a_string(text):
    assert there_and_back(Column("at", STRING, "io.debezium.time.MicroTimestamp"), text) is None


def with_type(kind: str, text: str) -> Change:
    """A change of a table whose column has this type."""
    columns = (Column("id", LogicalType("int64")), Column("at", LogicalType(kind)))
    schema = intern_schema("shop", None, "t", columns, ("id",), "mysql")
    change = Change("insert", schema, Message("t", 0, 7, 0, None, None))
    change.after = schema.Image("1", text)
    return change


def by_all(change, messages):
    """Whether a message says what its change does, read without the types that are in doubt."""
    rules = rules_of([with_type(kind, "5").schema for kind in ("int32", "timestamp")])
    decoder = MAXWELL.decoder(MAXWELL.decode_settings(), rules)
    (back,) = decoder.decode(messages[0][0])
    return difference(effects_of(change), effects_of(back), False) is None


def test_messages_are_read_with_the_types_of_their_change():
    """Within what the gate judges a column was a number and became a time."""
    before, after = with_type("int32", "5"), with_type("timestamp", "2026-11-25T10:07:00")
    rules = rules_of([before.schema, after.schema])
    reader = TargetReader("maxwell", {}, rules)
    judge, decoder = MessageJudge(reader), reader.decoder()
    encoder = MAXWELL.encoder(MAXWELL.encode_settings())
    for change, other in ((before, "6"), (after, "2026-11-25T10:07:01")):
        messages = [
            (Message("t", 0, 7, 0, out.key, out.value, out.headers), "shop.t")
            for out in encoder.encode(change, [])
        ]
        assert judge.difference(change, messages, False, decoder) == (None, True)
        assert by_all(change, messages) == (change is before)
        change.after = change.schema.Image("1", other)
        why, decoded = judge.difference(change, messages, False, decoder)
        assert decoded
        assert "at" in why
    assert judge.difference(None, messages, False, decoder) == (
        "comes from no accepted change",
        True,
    )
