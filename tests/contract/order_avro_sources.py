"""Messages of sources in Avro, written by fastavro from the documents' schemas."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro

from waybill.protocol import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.order_sources import Event

Row = dict[str, Any]


def named(kind: str, space: str, name: str, *fields: tuple[str, Any]) -> Row:
    declared = [{"name": field, "type": of} for field, of in fields]
    return {"type": kind, "name": name, "namespace": space, "fields": declared}


COLUMNS = ("id", "long"), ("v", ["null", "string"])
DEBEZIUM_KEY = named("record", "s.shop.t", "Key", ("id", "long"))
DEBEZIUM_SOURCE = named(
    *("record", "io.debezium.connector.mysql", "Source"),
    *((name, "string") for name in ("version", "connector", "name")),
    *(("ts_ms", "long"), ("snapshot", ["string", "null"]), ("db", "string")),
    *(("table", ["null", "string"]), ("file", "string"), ("pos", "long"), ("row", "int")),
)
DEBEZIUM = named(
    *("record", "s.shop.t", "Envelope"),
    ("before", ["null", named("record", "s.shop.t", "Value", *COLUMNS)]),
    ("after", ["null", "s.shop.t.Value"]),
    *(("source", DEBEZIUM_SOURCE), ("op", "string"), ("ts_ms", ["null", "long"])),
)
IBM_KEY = named("record", "key.SOURCEDB.shop", "t", ("id", "long"))
IBM = named("record", "value.SOURCEDB.shop", "t", *COLUMNS)


def registry_of(*schemas: tuple[str, Row]) -> Row:
    """What `schemas` of the settings holds: subjects and schemas, numbered from 1."""
    registry = {
        str(number): {"subject": subject, "schema": schema}
        for number, (subject, schema) in enumerate(schemas, 1)
    }
    return {"avro": registry}


DEBEZIUM_SCHEMAS = registry_of(("s.shop.t-key", DEBEZIUM_KEY), ("s.shop.t-value", DEBEZIUM))
IBM_SCHEMAS = registry_of(("shop.t-key", IBM_KEY), ("shop.t-value", IBM))


def framed(number: int, schema: Row, record: Row) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def debezium(values: list[bytes]) -> list[Encoded]:
    """Debezium's events with Confluent's Avro converter, of those in JSON."""
    found = []
    for value in values:
        event = json.loads(value)
        row = event["before"] if event["after"] is None else event["after"]
        key = framed(1, DEBEZIUM_KEY, {"id": row["id"]})
        found.append(Encoded(key, framed(2, DEBEZIUM, {"ts_ms": None, **event})))
    return found


def ibmcdc(event: Event) -> list[Encoded]:
    """Rows as IBM's KCOP for Avro with a registry writes them; a delete is a key without value."""
    return list(_ibmcdc(event))


def _ibmcdc(event: Event) -> Iterator[Encoded]:
    before, after = event.before, event.after
    if before is not None and (after is None or after["id"] != before["id"]):
        yield Encoded(framed(1, IBM_KEY, {"id": before["id"]}), None)
    if after is not None:
        yield Encoded(framed(1, IBM_KEY, {"id": after["id"]}), framed(2, IBM, after))
