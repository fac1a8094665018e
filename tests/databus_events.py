"""Databus events of every usual sort, read at once and one by one."""

from __future__ import annotations

import json
import random
import struct
from base64 import b64encode
from hashlib import md5
from typing import Any, NamedTuple

from tests import databus_layout as layout
from tests.contract.test_bulk_avro import batch_of
from waybill.avro.writing import varint
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.messages import messages_of
from waybill.envelopes import registry
from waybill.envelopes.databus.settings import DatabusReadSettings
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

COLUMNS: dict[str, Any] = {
    "id": ["long", "null"],
    "name": ["null", "string"],
    "amount": ["string", "null"],
    "at": ["string", "null"],
    "millis": {"type": "long", "logicalType": "timestamp-millis"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "flag": ["null", "boolean"],
    "small": ["int", "null"],
    "moment": "long",
    "size": {"type": "enum", "name": "Size", "symbols": ["S", "M"]},
    "photo": "bytes",
    "ratio": ["null", "double"],
}
PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "meta": "dbFieldName=people;pk=id;",
        "fields": [
            {"name": name, "type": kind, "meta": f"dbFieldName={name.upper()};"}
            for name, kind in COLUMNS.items()
        ],
    }
)
ITEM = json.dumps({"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]})
ODD = json.dumps(
    {
        "type": "record",
        "name": "Odd",
        "fields": [{"name": "id", "type": ["null", "int", "string"]}],
    }
)
OWN = json.dumps(
    {
        "type": "record",
        "name": "Own",
        "waybill": {
            "table": "own",
            "columns": [["a", "int64", None, None], ["b", "string", None, None]],
            "key": ["b"],
        },
        "fields": [{"name": "b", "type": "string", "waybill": 1}],
    }
)
SCHEMAS = {
    "databus": [
        {"srcId": 101, "source": "shop.Person", "version": 1, "schema": PERSON},
        {"srcId": 102, "source": "shop.Item", "version": 7, "schema": ITEM},
        {"srcId": 103, "source": "shop.Odd", "version": 1, "schema": ODD},
        {"srcId": 104, "source": "shop.Own", "version": 1, "schema": OWN},
    ]
}
DECLARED = {
    name: parse_type(kind)
    for name, kind in {
        "amount": "decimal(20,4)",
        "at": "timestamp",
        "small": "int16",
        "moment": "timestamp",
    }.items()
}
RULES = TableRules({"Person": TableRule(key=("id",), columns=DECLARED)})
MOMENT = 1_700_000_000_123


def id_of(text: str) -> bytes:
    return md5(text.encode()).digest()


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def row_of(dice: random.Random) -> bytes:
    """A row of a person, with values that are hard to read now and then."""
    hard = dice.random() < 0.1
    return b"".join(
        (
            b"\0" + varint(dice.randrange(-300, 300)),
            dice.choice([b"\0", b"\2" + sized(dice.choice(["Ann", 'Ä"\n', ""]).encode())]),
            dice.choice(
                [b"\0" + sized(dice.choice([b"1.50", b"-0.1", b"12", b"-0", b"1e3"])), b"\2"]
            ),
            b"\0" + sized(b"x" if hard else b"2024-02-29 23:59:59.5"),
            varint(2**60 if hard else MOMENT + dice.randrange(10**6)),
            varint(-7 if hard else MOMENT * 1000),
            sized(b"\x01" * 12 if hard else dice.choice([b"\0", b"\xff\x01", b"\x7f"])),
            dice.choice([b"\0", b"\2\1"]),
            dice.choice([b"\0" + varint(40_000 if hard else 7), b"\2"]),
            varint(MOMENT),
            dice.choice([b"\0", b"\2"]),
            sized(dice.randbytes(3)),
            dice.choice([b"\0", b"\2" + struct.pack("<d", 2.5)]),
        )
    )


class Data(NamedTuple):
    """A row, with the schema that it is written with."""

    source: int
    schema: str
    version: int
    row: bytes

    def v1(self, key: int | bytes = 5, **settings: Any) -> bytes:
        given = {"schema": id_of(self.schema), "source": self.source, "nanos": MOMENT * 10**6}
        return layout.v1(key, self.row, **(given | settings))

    def v2(self, key: int | bytes = 5, digest: bytes | None = None, **settings: Any) -> bytes:
        given = {"source": self.source, "nanos": MOMENT * 10**6}
        order = settings.get("order", ">")
        part = layout.part(self.row, digest or id_of(self.schema), self.version, order)
        return layout.v2(key, part, **(given | settings))

    def line(self, key: int = 5, value: str | None = None, **settings: Any) -> bytes:
        """The event in JSON."""
        given = {
            "opcode": "UPSERT",
            "key": key,
            "sequence": 7,
            "logicalPartitionId": 0,
            "physicalPartitionId": 0,
            "timestampInNanos": MOMENT * 10**6,
            "srcId": self.source,
            "schemaId": b64encode(id_of(self.schema)).decode(),
            "valueEnc": "JSON",
            "isReplicated": False,
            "value": b64encode(self.row).decode() if value is None else value,
        }
        return json.dumps(given | settings, separators=(",", ":")).encode()


def data_of(dice: random.Random) -> Data:
    kind = dice.randrange(20)
    if kind < 14:
        return Data(101, PERSON, 1, row_of(dice))
    if kind < 17:
        return Data(102, ITEM, 7, varint(dice.randrange(99)))
    if kind < 19:
        return Data(104, OWN, 1, sized(b"k"))
    return Data(103, ODD, 1, b"\2\4")


def event_of(dice: random.Random, number: int) -> bytes:
    """An event of a row, mostly a usual one."""
    data = data_of(dice)
    fields: dict[str, Any] = {
        "key": dice.choice([number, -1, 2**63 - 1, b"k%d" % number, b""]),
        "attributes": dice.choice([1, 1, 1, 2, 3, 0x101, 5, 17, 0]),
        "sequence": dice.choice([number + 7, number + 7, 7, 2**63 - 1, -5]),
        "nanos": dice.choice([MOMENT * 10**6 + number * 1000] * 4 + [MOMENT + number, -1, -7000]),
        "order": dice.choice(">>><"),
    }
    if dice.random() < 0.05:
        fields["source"] = dice.choice([-2, 0, 300])
    if dice.random() < 0.3:
        fields["attributes"] = dice.choice([1, 2, 0x11, 0x21])
        if dice.random() < 0.3:
            sum_ = layout.crc(data.schema.encode()).to_bytes(4, "big")
            fields["digest"] = dice.choice([sum_, b"\0\x01" + bytes(2), b"\1\0" + bytes(14)])
        return data.v2(partition=dice.choice([0, 3, -1]), **fields)
    if dice.random() < 0.1:
        fields["schema"] = dice.choice([bytes(16), b"\0\x01" + bytes(14), b"\0\x07" + bytes(14)])
    return data.v1(physical=dice.choice([0, -2]), logical=number % 3, **fields)


def line_of(dice: random.Random, number: int) -> bytes:
    """An event of a row in JSON, mostly a usual one."""
    data = data_of(dice)
    fields: dict[str, Any] = {
        "key": dice.choice([number, number, number, -1, 2**63 - 1]),
        "opcode": dice.choice(["UPSERT", "UPSERT", "DELETE"]),
        "sequence": dice.choice([number + 7, number + 7, 7, 2**63 - 1]),
        "logicalPartitionId": number % 3,
        "physicalPartitionId": dice.choice([0, 0, -2]),
        "timestampInNanos": dice.choice([MOMENT * 10**6 + number * 1000] * 4 + [MOMENT, -1, -70]),
        "isReplicated": dice.random() < 0.1,
    }
    name = dice.choice([*fields, "srcId", "schemaId", "valueEnc", "value", "endOfPeriod", "other"])
    if dice.random() < 0.2:
        fields[name] = dice.choice(
            [
                *(
                    0,
                    -1,
                    2**15,
                    -(2**15) - 1,
                    2**63,
                    -(2**63),
                    2**64,
                    1.5,
                    True,
                    None,
                    "",
                    "A",
                    "5",
                ),
                *("AAE=", "AAF=", "AA==", "AB==", "=A==", "AAcAAAAAAAAAAAAAAAAAAA==", "JSON_PLAIN"),
            ]
        )
    line = data.line(**fields)
    if dice.random() < 0.1:
        one, other = dice.choice(
            [
                *(
                    (b":", b": "),
                    (b"{", b" {"),
                    (b"}", b"}\n"),
                    (b"}", b'}\n{"a":1}'),
                    (b"/", b"\\/"),
                ),
                *(
                    (b'":', b'":-'),
                    (b'":', b'":0'),
                    (b"7", b"7e0"),
                    (b"=", b""),
                    (b"A", b"\\u0041"),
                ),
                *((b"U", b"u"), (b"A", b"\xff"), (b'"value":', b'"key":1,"value":'), (b"A", b"-")),
            ]
        )
        line = line.replace(one, other, dice.choice([1, -1]))
    return line


def message_of(value: bytes | None, offset: int, headers: Any = None) -> Message:
    return Message("topic", 0, offset, 1_700_000_000_000, None, value, headers)


def decoded(
    messages: list[Message],
    size: int = 40,
    rules: TableRules = RULES,
    name: str = "databus-binary",
    **given: Any,
) -> tuple[Any, Any, int]:
    """What both ways make of messages, and how many were read at once."""
    settings = DatabusReadSettings(**({"schemas": SCHEMAS} | given))
    envelope = registry.get(name)
    made = []
    in_bulk = 0
    for bulk in (False, True):
        decoder = envelope.decoder(settings, rules)  # type: ignore[misc]
        work = ChangeBatches(decoder, "batch")
        many = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1)
        rows: list[Any] = []
        for first in range(0, len(messages), size):
            batch = batch_of(messages[first : first + size])
            one_by_one = work.changes(messages_of(batch))
            rows += (many.rows(batch) if bulk else work.rows(one_by_one)).to_pylist()
        changes = [row for row in rows if row["outcome"] != "schema"]
        schemas = {row["schema_id"]: row["extra"] for row in rows if row["outcome"] == "schema"}
        made.append((changes, schemas, work.messages, work.decoded))
        in_bulk = many.in_bulk
    return *made, in_bulk


def agree(values: list[bytes | None], **settings: Any) -> int:
    messages = [message_of(value, offset) for offset, value in enumerate(values)]
    expected, found, in_bulk = decoded(messages, **settings)
    for one, other in zip(expected[0], found[0], strict=True):
        assert one == other
    assert found == expected
    return int(in_bulk)


def harmed(dice: random.Random, value: bytes) -> bytes | None:
    place = dice.randrange(len(value) + 1)
    return dice.choice(
        [
            *(value[:place], value + value, value + b"\0", b"", None, b"{}"),
            value[:place] + dice.randbytes(1) + value[place + 1 :],
        ]
    )
