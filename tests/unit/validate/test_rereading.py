"""What the gate tells the decoders that read published messages again."""

from __future__ import annotations

import pytest

from waybill.envelopes import registry
from waybill.records import Change, Column, Message, intern_schema
from waybill.types import STRING, LogicalType
from waybill.validate.digest import difference, effects_of
from waybill.validate.rereading import rules_of

DEBEZIUM = registry.get("debezium-json")
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
