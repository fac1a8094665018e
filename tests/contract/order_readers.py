"""Consumers of written messages: they know a format's own id and key columns, and nothing else.

Each tells what a message does as effects: the key, the id, the rank inside one id, and the row
(None for a row that is gone). `merged` keeps the last effect of each key. A full row has an id
below all. `arrived` passes the ids over, as do readers of formats that have none: what comes last
for a key is true.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    from waybill.protocol import Encoded

Row = dict[str, Any]
Effect = tuple[int, int, int, Row | None]
Reader = Callable[["Encoded"], Iterator[Effect]]
FULL = -1


def merged(effects: Iterable[Effect]) -> dict[int, Row]:
    """The rows that are there after the effects, in whatever order they come."""
    last: dict[int, tuple[int, int, Row | None]] = {}
    for key, number, rank, row in effects:
        found = last.get(key)
        if found is not None:
            assert (found[0], found[1]) != (number, rank), f"two changes of {key} have id {number}"
        if found is None or (number, rank) > found[:2]:
            last[key] = number, rank, row
    return {key: row for key, (_, _, row) in last.items() if row is not None}


def arrived(effects: Iterable[Effect]) -> dict[int, Row]:
    """The rows that are there after the effects, in the order in which they come."""
    rows: dict[int, Row] = {}
    for key, _, _, row in effects:
        rows.pop(key, None)
        if row is not None:
            rows[key] = row
    return rows


def row_of(image: Row) -> tuple[int, Row]:
    """Key and row; a row that is gone may be its key alone."""
    return int(image["id"]), {"id": int(image["id"]), "v": image.get("v")}


def images(number: int, before: Row | None, after: Row | None) -> Iterator[Effect]:
    """The effects of one message with the row before and after; `before` may lack columns."""
    if after is not None:
        key, row = row_of(after)
        yield key, number, 1, row
        if before is not None and "id" in before and int(before["id"]) != key:
            yield int(before["id"]), number, 0, None
    elif before is not None:
        yield int(before["id"]), number, 1, None


def datahub_tuple(document: Row) -> Iterator[Effect]:
    number, before = int(document["_sequence_id_"]), document["_before_image_"] == "Y"
    key, row = row_of(document)
    gone = before or document["_operation_type_"] == "D"
    rank = 0 if before and document["_operation_type_"] == "U" else 1
    yield key, number, rank, None if gone else row


def datahub_blob(document: Row) -> Iterator[Effect]:
    payload = document["payload"]
    number, op = int(payload["sequenceId"]), payload["op"]
    name = "after" if op in ("INSERT", "UPDATE_AFTER") else "before"
    key, row = row_of(payload[name]["dataColumn"])
    yield key, number, 0 if op == "UPDATE_BEFOR" else 1, None if name == "before" else row


def oms_default(document: Row) -> Iterator[Effect]:
    number = document["allMetaData"].get("storeDataSequence", FULL)
    assert number != FULL or document["recordType"] == "ROW"
    assert number < 2**64
    yield from images(number, document["prevStruct"], document["postStruct"])


def oms_dataworks(document: Row) -> Iterator[Effect]:
    payload = document["payload"]
    number = FULL if payload["scn"] in (None, "null") else int(payload["scn"])
    assert number != FULL or payload["op"] == "INSERT"
    was, now = (image and image["data"] for image in (payload["before"], payload["after"]))
    yield from images(number, was, now)


def oms_shareplex(document: Row) -> Iterator[Effect]:
    meta, data = document["meta"], document["data"]
    number = int(meta["scn"]) * 10**6 if "scn" in meta else FULL
    number += int(meta.get("idx", "0/0").split("/")[0])
    assert number > 0 or meta["op"] == "ins"
    if meta["op"] == "del":
        yield from images(number, data, None)
    else:
        yield from images(number, document.get("key"), {**(document.get("key") or {}), **data})


def ogg(document: Row) -> Iterator[Effect]:
    place = document.get("pos", "00000000-1")
    number = FULL if "-" in place else int(place)
    yield from images(number, document.get("before"), document.get("after"))


def dms_s3(document: Row) -> Iterator[Effect]:
    number = int(document["seq"]) if document.get("seq") else FULL
    assert number != FULL or "Op" not in document
    gone = document.get("Op") == "D"
    yield from images(number, document if gone else None, None if gone else document)


def dms_s3_without_ids(document: Row) -> Iterator[Effect]:
    gone = document.get("Op") == "D"
    yield from images(FULL, document if gone else None, None if gone else document)


def canal(document: Row) -> Iterator[Effect]:
    for place, row in enumerate(document["data"]):
        old = document["old"][place] if document["old"] else None
        gone = document["type"] == "DELETE"
        yield from images(FULL, row if gone else old, None if gone else row)


def tidb_canal(document: Row) -> Iterator[Effect]:
    number, gone = document["_tidb"].get("commitTs", FULL), document["type"] == "DELETE"
    assert number != FULL or document["type"] == "INSERT"
    key, row = row_of(document["data"][0])
    # Of one commit a DELETE of a row comes first.
    yield key, number, 0 if gone else 1, None if gone else row


def maxwell(document: Row) -> Iterator[Effect]:
    gone = document["type"] == "delete"
    yield from images(
        FULL, document["data"] if gone else document.get("old"), None if gone else document["data"]
    )


def dms(document: Row) -> Iterator[Effect]:
    gone, row = document["metadata"]["operation"] == "delete", document["data"]
    yield from images(FULL, row if gone else document.get("before-image"), None if gone else row)


def debezium(document: Row) -> Iterator[Effect]:
    yield from images(FULL, document["before"], document["after"])


def in_json(read: Callable[[Row], Iterator[Effect]]) -> Reader:
    def effects(message: Encoded) -> Iterator[Effect]:
        if message.value is not None:
            yield from read(json.loads(message.value))

    return effects


def avro_of(message: Encoded, header: str, data: bytes) -> Row:
    """A record, by the schema that the message brings along."""
    schema = dict(message.headers or ())[header]
    parsed = fastavro.parse_schema(json.loads(schema or b""))
    record: Any = fastavro.schemaless_reader(io.BytesIO(data), parsed, None)
    return dict(record)


def debezium_avro(message: Encoded) -> Iterator[Effect]:
    if message.value is not None:
        yield from debezium(avro_of(message, "waybill.value.schema", message.value[5:]))


def ibmcdc(message: Encoded) -> Iterator[Effect]:
    key = avro_of(message, "waybill.key.schema", (message.key or b"")[5:])
    row = message.value and avro_of(message, "waybill.value.schema", message.value[5:])
    yield from images(FULL, None if row else key, row or None)


_V1 = struct.Struct(">BIiHqhhqh16sIq")
"""Magic, header CRC, length, attributes, window, two partitions, time, source, schema, value CRC,
key."""


def databus_binary(message: Encoded) -> Iterator[Effect]:
    data, at = message.value or b"", 0
    while at < len(data):
        _, _, length, attributes, window, *_, source, _, _, _ = _V1.unpack_from(data, at)
        if source >= 0:
            value = data[at + _V1.size : at + length]
            yield from _databus(message, window, bool(attributes & 2), value)
        at += length


def databus_json(message: Encoded) -> Iterator[Effect]:
    for line in (message.value or b"").splitlines():
        document = json.loads(line)
        if not document.get("endOfPeriod"):
            value = base64.b64decode(document["value"])
            yield from _databus(
                message, document["sequence"], document["opcode"] == "DELETE", value
            )


def _databus(message: Encoded, window: int, gone: bool, value: bytes) -> Iterator[Effect]:
    key, row = row_of(avro_of(message, "databus.schema", value))
    yield key, window or FULL, 1, None if gone else row


S3: Row = {"sequence_column": "seq"}

READERS: dict[str, tuple[Reader, Row]] = {
    "datahub-tuple": (in_json(datahub_tuple), {}),
    "datahub-blob": (in_json(datahub_blob), {}),
    "oms-default": (in_json(oms_default), {}),
    "oms-extended": (in_json(oms_default), {}),
    "oms-dataworks": (in_json(oms_dataworks), {}),
    "oms-shareplex": (in_json(oms_shareplex), {}),
    "databus-binary": (databus_binary, {}),
    "databus-json": (databus_json, {}),
    "ogg": (in_json(ogg), {}),
    "tidb-canal": (in_json(tidb_canal), {}),
    "dms-s3": (in_json(dms_s3), S3),
}
"""For each target with ids its consumer, and the settings for writing."""

ARRIVAL: dict[str, tuple[Reader, Row]] = {
    **READERS,
    "dms-s3": (in_json(dms_s3_without_ids), {}),
    "canal": (in_json(canal), {}),
    "oms-canal": (in_json(canal), {}),
    "maxwell": (in_json(maxwell), {}),
    "dms": (in_json(dms), {}),
    "debezium-json": (in_json(debezium), {}),
    "debezium-avro": (debezium_avro, {}),
    "ibmcdc-avro": (ibmcdc, {}),
}
"""For every target a consumer that takes messages as they come."""


def table_of(target: str, messages: Iterable[Encoded]) -> dict[int, Row]:
    """The table that a consumer of a target has, who sorts by its ids."""
    read, _ = READERS[target]
    return merged(effect for message in messages for effect in read(message))


def table_in_order(target: str, messages: Iterable[Encoded]) -> dict[int, Row]:
    """The table that a consumer of a target has, who takes messages as they come."""
    read, _ = ARRIVAL[target]
    return arrived(effect for message in messages for effect in read(message))
