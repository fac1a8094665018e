"""Names of types come with messages: no size in them is believed, and none ends a run."""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec
import pytest

from waybill.envelopes import registry
from waybill.envelopes.ibmcdc.hints import hint_attributes
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules
from waybill.types import STRING

SIZES = ["65", "9999999999999", "9" * 30, "9" * 5_000]
WRITTEN = [envelope for envelope in registry.all_envelopes() if envelope.encoder]


def canal(mysql: str, value: str | None) -> bytes:
    message = {
        "data": [{"id": "1", "v": value}],
        "database": "shop",
        "isDdl": False,
        "mysqlType": {"id": "bigint", "v": mysql},
        "pkNames": ["id"],
        "table": "t",
        "type": "INSERT",
    }
    return msgspec.json.encode(message)


@pytest.mark.parametrize("envelope", WRITTEN, ids=lambda envelope: envelope.name)
@pytest.mark.parametrize("name", ["bit", "binary", "varchar", "decimal", "datetime"])
def test_a_size_of_canal_is_refused_or_of_no_matter(envelope, name):
    source = registry.get("canal")
    for size in SIZES:
        for value in ("1", None):
            decoder = source.decoder(source.decode_settings(), TableRules())
            line = canal(f"{name}({size})", value)
            (change,) = decoder.decode(Message("t", 0, 0, None, None, line))
            if change.outcome == "refused":
                assert "no type of MySQL" in change.reason
                continue
            encoder = envelope.encoder(envelope.encode_settings())
            with suppress(Refusal):
                encoder.encode(change, [])


@pytest.mark.parametrize("name", [f"a{' ' * 5_000}(", "a " * 5_000 + "(", f"binary({'9' * 5_000})"])
def test_a_hint_of_avro_takes_no_time_and_no_size(name):
    started = time.monotonic()
    assert hint_attributes(name, "string", STRING) == {"logicalType": "VARCHAR"}
    assert time.monotonic() - started < 1


def test_words_around_a_size_are_one_blank_apart():
    found = hint_attributes("bigint (20)  unsigned", "string", STRING)
    assert found == {"logicalType": "BIGINT UNSIGNED", "length": 20}
