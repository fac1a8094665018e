"""Consumers of written messages: they know a format's own id and key columns, and nothing else.

Each tells what a message does as effects: the key, the id, the rank inside one id, and the row
(None for a row that is gone). `merged` keeps the last effect of each key. A full row has an id
below all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Row = dict[str, Any]
Effect = tuple[int, int, int, Row | None]
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


def row_of(image: Row) -> tuple[int, Row]:
    row = {"id": int(image["id"]), "v": image["v"]}
    return row["id"], row


def images(number: int, before: Row | None, after: Row | None) -> Iterator[Effect]:
    """The effects of one message with the row before and after; `before` may lack columns."""
    if after is not None:
        key, row = row_of(after)
        yield key, number, 1, row
        if before is not None and "id" in before and int(before["id"]) != key:
            yield int(before["id"]), number, 0, None
    elif before is not None:
        yield int(before["id"]), number, 1, None


def datahub_tuple(told: Row) -> Iterator[Effect]:
    number, before = int(told["_sequence_id_"]), told["_before_image_"] == "Y"
    key, row = row_of(told)
    gone = before or told["_operation_type_"] == "D"
    rank = 0 if before and told["_operation_type_"] == "U" else 1
    yield key, number, rank, None if gone else row


def datahub_blob(told: Row) -> Iterator[Effect]:
    payload = told["payload"]
    number, op = int(payload["sequenceId"]), payload["op"]
    name = "after" if op in ("INSERT", "UPDATE_AFTER") else "before"
    key, row = row_of(payload[name]["dataColumn"])
    yield key, number, 0 if op == "UPDATE_BEFOR" else 1, None if name == "before" else row


def oms_default(told: Row) -> Iterator[Effect]:
    number = told["allMetaData"].get("storeDataSequence", FULL)
    assert number != FULL or told["recordType"] == "ROW"
    assert number < 2**64
    yield from images(number, told["prevStruct"], told["postStruct"])


def oms_dataworks(told: Row) -> Iterator[Effect]:
    payload = told["payload"]
    number = FULL if payload["scn"] in (None, "null") else int(payload["scn"])
    assert number != FULL or payload["op"] == "INSERT"
    was, now = (image and image["data"] for image in (payload["before"], payload["after"]))
    yield from images(number, was, now)


def oms_shareplex(told: Row) -> Iterator[Effect]:
    meta, data = told["meta"], told["data"]
    number = int(meta["scn"]) * 10**6 if "scn" in meta else FULL
    number += int(meta.get("idx", "0/0").split("/")[0])
    assert number > 0 or meta["op"] == "ins"
    if meta["op"] == "del":
        yield from images(number, data, None)
    else:
        yield from images(number, told.get("key"), {**(told.get("key") or {}), **data})


def ogg(told: Row) -> Iterator[Effect]:
    place = told.get("pos", "00000000-1")
    number = FULL if "-" in place else int(place)
    yield from images(number, told.get("before"), told.get("after"))


def dms_s3(told: Row) -> Iterator[Effect]:
    number = int(told["seq"]) if told.get("seq") else FULL
    assert number != FULL or "Op" not in told
    gone = told.get("Op") == "D"
    yield from images(number, told if gone else None, None if gone else told)


READERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "datahub-tuple": (datahub_tuple, {}),
    "datahub-blob": (datahub_blob, {}),
    "oms-default": (oms_default, {}),
    "oms-extended": (oms_default, {}),
    "oms-dataworks": (oms_dataworks, {}),
    "oms-shareplex": (oms_shareplex, {}),
    "ogg": (ogg, {}),
    "dms-s3": (dms_s3, {"sequence_column": "seq"}),
}
"""For each target with ids its consumer, and what writing is told."""


def table_of(target: str, values: Iterable[bytes]) -> dict[int, Row]:
    """The table that a consumer of a target has."""
    read, _ = READERS[target]
    return merged(effect for value in values for effect in read(json.loads(value)))
