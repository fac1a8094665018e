"""Topics of the envelopes whose messages need more than JSON: made by Waybill from the Canal topic.

Their schemas are in files, as readers of real topics have them, and not in the messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.json_topics import TUPLE_FIELDS
from bench.topics import Topic

PERSON = {
    "type": "record",
    "name": "Orders_V1",
    "namespace": "bench",
    "meta": "dbFieldName=orders;pk=id;",
    "fields": [
        {"name": "id", "type": ["long", "null"], "meta": "dbFieldName=id;dbFieldPosition=0;"},
        *(
            {"name": name, "type": [kind, "null"], "meta": f"dbFieldName={name};"}
            for name, kind in {
                "name": "string",
                "comment": "string",
                "amount": "string",
                "placed_at": "string",
                "flag": "int",
            }.items()
        ),
    ],
}
"""The schema of the rows in Databus's events."""

DATABUS = {
    "databus": [
        {
            "srcId": 101,
            "source": "bench.orders",
            "table": "orders",
            "database": "bench",
            "version": 1,
            "schema": json.dumps(PERSON, separators=(",", ":")),
        }
    ]
}


def settings_to_read(envelope: str, folder: Path) -> dict[str, Any]:
    """What reading an envelope needs to be told here."""
    if envelope.startswith("databus"):
        return {"schemas": DATABUS}
    if envelope.endswith("-avro"):
        return {"schemas": str(folder / envelope / "schemas")}
    if envelope == "dms-s3":
        return {"table": "bench.orders"}
    if envelope == "debezium-json":
        return {"decimals": "string"}
    if envelope == "datahub-tuple":
        return {"schemas": {"fields": _tuple_fields()}}
    return {}


def settings_to_write(source: str, target: str, folder: Path) -> dict[str, Any]:
    """What writing the messages of one envelope in another needs to be told here."""
    from waybill.envelopes import registry

    told: dict[str, Any] = {}
    if target.startswith("databus"):
        # Windows as a relay has them: of many rows, and not closed after each message.
        told = {"schemas": DATABUS, "headers": False, "windows": "commit"}
    elif target.endswith("-avro"):
        told = {"schemas": str(folder / target / "schemas")}
    elif target == "datahub-tuple":
        told = {"schemas": {"fields": _tuple_fields()}, "shape": "record"}
    if source == "dms" and "sequence_from" in registry.get(target).encode_settings.model_fields:
        # Messages of DMS may have positions, and these, made of messages without ids, have none.
        told["sequence_from"] = "position"
    return told


def _tuple_fields() -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in TUPLE_FIELDS.items()]


def write_all(folder: Path, messages: int, keys: int) -> dict[str, Topic]:
    """Every envelope's topic below `folder`, in the order of the registry."""
    from bench import json_topics, topics
    from waybill.envelopes import registry

    plain = topics.write_topics(folder, messages, keys, topics.WRITERS | json_topics.WRITERS)
    found = {}
    for envelope in registry.names():
        if envelope in plain:
            found[envelope] = plain[envelope]
        else:
            name = f"{messages}-{keys}"
            found[envelope] = write_topic(envelope, plain["canal"], folder, name)
    return found


def write_topic(envelope: str, canal: Topic, folder: Path, name: str) -> Topic:
    """A Parquet file, made of the Canal topic; one that is there is taken as it is."""
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.run import convert_file

    path = folder / envelope / f"{name}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        written = settings_to_write("canal", envelope, folder)
        job = ConvertJob("canal", envelope, str(canal.parquet), str(path), encode_settings=written)
        account, _ = convert_file(job)
        if account.refused:
            path.unlink()
            text = f"{envelope}: {dict(account.refused)} messages were refused"
            raise AssertionError(text)
    rows, size = _counted(path)
    return Topic(envelope, path.with_suffix(".jsonl"), path, rows, size)


def _counted(path: Path) -> tuple[int, int]:
    """How many messages a topic holds, and the bytes of their values."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    values = pq.read_table(path, columns=["value"])["value"]
    return len(values), pc.sum(pc.binary_length(values)).as_py()
