"""Histories of one table, and the messages in which each source tells them with its own ids.

The messages are those of the formats' documents and not made by Waybill, but for Databus' bytes;
those in Avro are in `order_avro_sources`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st

from tests.contract import order_avro_sources as avro
from waybill.envelopes import registry
from waybill.protocol import Encoded
from waybill.records import Change, Column, Message, intern_schema
from waybill.types import parse_type

TIME = 1_700_000_000_000
Row = dict[str, Any]


@dataclass
class Event:
    """One change: the place in the source's log, and where its message stands."""

    number: int
    operation: str
    before: Row | None
    after: Row | None
    partition: int
    shared: int = 0
    """How many events before it in its partition have the same id, where a source shares them."""


@dataclass
class History:
    """Full rows, then changes in the source's order."""

    first: int
    events: list[Event] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)

    def tell(
        self,
        partition: int,
        share: bool,
        images: tuple[Row | None, Row | None],
        operation: str,
    ) -> None:
        """One more event; it may share the id of the one before if that stands in its partition."""
        before, after = images
        last, shared = self.events[-1] if self.events else None, 0
        if share and last and last.partition == partition and last.operation != "read":
            shared = last.shared + 1
        number = self.first + len(self.events)
        self.events.append(Event(number, operation, before, after, partition, shared))
        if before is not None:
            del self.rows[before["id"]]
        if after is not None:
            self.rows[after["id"]] = after


@st.composite
def histories(
    draw: st.DrawFn,
    partitions: int = 3,
    moves: bool = True,
    by_key: bool = False,
    shares: bool = True,
) -> History:
    """Any history of few keys: keys that are used again, swaps, changes of the key.

    Args:
        draw: hypothesis' own.
        partitions: among how many its messages are spread.
        moves: whether keys change.
        by_key: whether all changes of a key, and of those that it changes places with, stand in one
            partition; else they go to any, or from each to the next.
        shares: whether changes may share an id, where the source lets them.
    """
    made = History(draw(st.sampled_from([7, 96, 998, 99_998])))
    wanders = not by_key and draw(st.booleans())
    first = draw(st.integers(0, partitions - 1))

    def tell(operation: str, before: Row | None, after: Row | None) -> None:
        place = (first + len(made.events)) % partitions
        if by_key:
            place = (first + ((before or after or {})["id"]) % 2) % partitions
        elif not wanders:
            place = draw(st.integers(0, partitions - 1))
        share = shares and draw(st.booleans())
        made.tell(place, share, (before, after), operation)

    for key in draw(st.lists(st.integers(1, 3), unique=True)):
        tell("read", None, {"id": key, "v": "full"})
    for step in range(draw(st.integers(1, 12))):
        key = draw(st.integers(1, 4))
        # Keys of one partition are all odd or all even.
        other = (key + 1) % 4 + 1 if by_key else draw(st.integers(1, 4))
        spare = 10 + key % 2
        row, new = made.rows.get(key), f"new {step}"
        kinds = ["update", "delete"]
        if moves and other != key:
            kinds.append("swap" if other in made.rows else "move")
        kind = draw(st.sampled_from(kinds))
        if row is None:
            tell("insert", None, {"id": key, "v": new})
        elif kind == "delete":
            tell("delete", row, None)
        elif kind == "swap":
            tell("update", row, {"id": spare, "v": f"{new} a"})
            tell("update", made.rows[other], {"id": key, "v": f"{new} b"})
            tell("update", made.rows[spare], {"id": other, "v": f"{new} c"})
        else:
            tell("update", row, {"id": other if kind == "move" else key, "v": new})
    return made


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


LETTERS = {"read": "I", "insert": "I", "update": "U", "delete": "D"}


def texts(row: Row | None) -> dict[str, str] | None:
    return None if row is None else {name: str(value) for name, value in row.items()}


def datahub_tuple(event: Event) -> list[bytes]:
    number = "-1" if event.operation == "read" else str(event.number)
    found = []
    for row, flags in ((event.before, "YN"), (event.after, "NY")):
        if row is not None:
            record = {"_sequence_id_": number, "_operation_type_": LETTERS[event.operation]}
            record |= {"_execute_time_": str(TIME), "_source_table_": "shop.t"}
            record |= {"_before_image_": flags[0], "_after_image_": flags[1]}
            found.append(dumps(record | (texts(row) or {})))
    return found


def datahub_blob(event: Event) -> list[bytes]:
    columns = [{"name": "id", "type": "LONG"}, {"name": "v", "type": "STRING"}]
    schema = {"dataColumn": columns, "primaryKey": ["id"]}
    schema |= {"source": {"dbType": "MySQL", "dbName": "shop", "tableName": "t"}}
    both = event.before is not None and event.after is not None
    found = []
    for name, row in (("before", event.before), ("after", event.after)):
        if row is None:
            continue
        op = {"before": "DELETE", "after": "INSERT"}[name]
        if both:
            op = {"before": "UPDATE_BEFOR", "after": "UPDATE_AFTER"}[name]
        number = "-1" if event.operation == "read" else str(event.number)
        payload = {"op": op, name: {"dataColumn": row}, "sequenceId": number}
        payload |= {"timestamp": {"eventTime": -1 if number == "-1" else TIME}}
        found.append(dumps({"schema": schema, "payload": payload, "version": "0.0.1"}))
    return found


def oms_default(event: Event) -> list[bytes]:
    full = event.operation == "read"
    kind = "INSERT" if full else event.operation.upper()
    row = event.after or event.before or {}
    meta: Row = {"dbType": "MYSQL", "db": "shop", "table_name": "t"}
    meta |= {"record_primary_key": "id", "record_primary_value": str(row["id"])}
    if not full:
        meta |= {"storeDataSequence": event.number, "timestamp": str(TIME // 1000)}
    images = {"prevStruct": event.before, "postStruct": event.after}
    return [dumps({**images, "allMetaData": meta, "recordType": kind})]


def oms_extended(event: Event) -> list[bytes]:
    light = {"__light_type": {"id": {"schemaType": "INT64"}, "v": {"schemaType": "VARCHAR"}}}
    images = [None if row is None else row | light for row in (event.before, event.after)]
    return oms_default(Event(event.number, event.operation, *images, event.partition))


def oms_dataworks(event: Event) -> list[bytes]:
    full = event.operation == "read"
    columns = [{"name": "id", "type": "INT64"}, {"name": "v", "type": "VARCHAR"}]
    source = {"dbType": "MYSQL", "dbName": "shop", "table": "t"}
    payload: Row = {
        name: None if row is None else {"data": row}
        for name, row in (("before", event.before), ("after", event.after))
    }
    payload |= {"op": "INSERT" if full else event.operation.upper()}
    payload |= {"timestamp": {"eventTime": TIME}, "scn": "null" if full else str(event.number)}
    schema = {"source": source, "column": columns, "pk": ["id"]}
    return [dumps({"version": "2.0", "schema": schema, "payload": payload})]


def oms_shareplex(event: Event) -> list[bytes]:
    op = {"read": "ins", "insert": "ins", "update": "upd", "delete": "del"}[event.operation]
    meta: Row = {"op": op, "time": "2020-11-25T00:01:02", "table": "shop.t"}
    if event.operation != "read":
        scn, place = divmod(event.number, 3)
        meta |= {"idx": f"{place + 1}/3", "trans": "t", "scn": str(scn)}
    document: Row = {"data": event.after or event.before, "meta": meta}
    if op == "upd":
        document["key"] = event.before
    return [dumps(document)]


def debezium(event: Event, position: Row, before: Row | None) -> list[bytes]:
    source = {"version": "2.5.0.Final", "name": "s", "ts_ms": TIME, "db": "shop", "table": "t"}
    source |= {"snapshot": "true" if event.operation == "read" else "false"} | position
    if event.operation == "update" and before and event.after and before["id"] != event.after["id"]:
        rows = [("d", before, None), ("c", None, event.after)]
    else:
        op = {"read": "r", "insert": "c", "update": "u", "delete": "d"}[event.operation]
        rows = [(op, before, event.after)]
    return [dumps({"before": b, "after": a, "source": source, "op": op}) for op, b, a in rows]


def debezium_mysql(event: Event) -> list[bytes]:
    if event.operation == "read":
        # The binlog's place at which the snapshot was taken, before all that follows.
        place: Row = {"file": "mysql-bin.000009", "pos": 90, "row": 0}
    else:
        file, rest = divmod(event.number, 7)
        pos, row = divmod(rest, 2)
        place = {"file": f"mysql-bin.{file + 9:06}", "pos": 95 + 5 * pos, "row": row}
    return debezium(event, {"connector": "mysql", **place}, event.before)


def debezium_postgresql(event: Event) -> list[bytes]:
    commit, place = divmod(event.number, 4)
    lsn = commit * 1000 + place
    numbers = {"lsn": lsn, "sequence": json.dumps([str(commit * 1000 - 1), str(lsn)])}
    return debezium(event, {"connector": "postgresql", "schema": "public", **numbers}, event.before)


def debezium_oracle(event: Event) -> list[bytes]:
    place = {"scn": str(event.number), "commit_scn": str(event.number // 5), "ssn": 0}
    if event.operation == "read":
        place = {"scn": "1"}
    return debezium(event, {"connector": "oracle", "schema": "S", **place}, event.before)


def debezium_sqlserver(event: Event) -> list[bytes]:
    commit, rest = divmod(event.number, 5)
    place: Row = {"commit_lsn": f"00000027:{commit:08x}:0003", "event_serial_no": 1}
    place["change_lsn"] = f"00000027:{commit:08x}:{rest + 4:04x}"
    if event.operation == "read":
        place = {"commit_lsn": "00000027:00000000:0001"}
    return debezium(event, {"connector": "sqlserver", "schema": "dbo", **place}, event.before)


def maxwell(event: Event) -> list[bytes]:
    kind = "bootstrap-insert" if event.operation == "read" else event.operation
    document: Row = {"database": "shop", "table": "t", "type": kind, "ts": TIME // 1000}
    document["primary_key_columns"] = ["id"]
    if event.operation != "read":
        file, pos = divmod(event.number - event.shared, 5)
        document |= {"xid": 7, "position": f"binlog.{file + 9:06}:{997 + pos}"}
    document["data"] = event.after or event.before
    if event.operation == "update":
        document["old"] = {
            n: v for n, v in (event.before or {}).items() if document["data"][n] != v
        }
    return [dumps(document)]


def maxwell_with_places(event: Event) -> list[bytes]:
    """Of a transaction of four rows, each with its place in it and the last with `commit`."""
    document = json.loads(maxwell(event)[0])
    if event.operation != "read":
        transaction, place = divmod(event.number, 4)
        document |= {"xid": 7000 + transaction, "position": f"binlog.000009:{997 + transaction}"}
        document |= {"xoffset": place} if place < 3 else {"commit": True}
    return [dumps(document)]


def ogg(event: Event) -> list[bytes]:
    place = f"{event.number:020d}"
    if event.operation == "read":
        place = f"00000000-1{event.number:010d}"
    settings: Row = {"table": "shop.t", "op_type": LETTERS[event.operation]}
    settings |= {"op_ts": "2024-05-06 07:08:09.123456", "pos": place, "primary_keys": ["id"]}
    return [dumps(settings | {"before": event.before, "after": event.after})]


def dms(event: Event) -> list[bytes]:
    operation = "load" if event.operation == "read" else event.operation
    about: Row = {"timestamp": "2024-07-29T00:58:44.000000Z", "record-type": "data"}
    about |= {"operation": operation, "schema-name": "shop", "table-name": "t"}
    if event.operation != "read":
        commit, place = divmod(event.number, 4)
        about["stream-position"] = f"00000002/{commit:08X}.3.00000002/{commit * 4 + place:08X}"
    document: Row = {"data": event.after or event.before, "metadata": about}
    if event.operation == "update":
        document["before-image"] = event.before
    return [dumps(document)]


def dms_of_mysql(event: Event) -> list[bytes]:
    """The binlog's place of the transaction, and the number of the record in it."""
    document = json.loads(dms(event)[0])
    if event.operation != "read":
        transaction, place = divmod(event.number, 4)
        about, binlog = document["metadata"], f"mysql-bin.000012:{900 + transaction}"
        about["stream-position"] = f"{binlog}:-1:{event.number}:677883278264080:{binlog}"
        about["transaction-id"] = 12 * 2**32 + 154 + transaction
        about["transaction-record-id"] = place + 1
    return [dumps(document)]


def dms_of_one_number(event: Event) -> list[bytes]:
    document = json.loads(dms(event)[0])
    if event.operation != "read":
        document["metadata"]["stream-position"] = str(event.number)
    return [dumps(document)]


def dms_s3(event: Event) -> list[bytes]:
    row = event.after or event.before or {}
    place = "" if event.operation == "read" else f"{event.number:035d}"
    operation = {} if event.operation == "read" else {"Op": LETTERS[event.operation]}
    return [dumps({**operation, "seq": place, **row})]


def canal(event: Event) -> list[bytes]:
    document: Row = {"database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "sql": ""}
    document |= {"type": "INSERT" if event.operation == "read" else event.operation.upper()}
    document |= {"es": TIME, "ts": TIME, "mysqlType": {"id": "bigint", "v": "varchar(9)"}}
    after = texts(event.after or event.before) or {}
    document |= {"sqlType": {"id": -5, "v": 12}, "data": [after], "old": None}
    if event.operation == "update":
        old = texts(event.before) or {}
        document["old"] = [{n: v for n, v in old.items() if after[n] != v}]
    return [dumps(document)]


def tidb_canal(event: Event) -> list[bytes]:
    """Updates of a key, here of every third row too, are a DELETE and an INSERT of one commit.

    Some were not split.
    """
    before, after = event.before, event.after
    steps = [("INSERT" if event.operation == "read" else event.operation.upper(), before, after)]
    split = before and after and (before["id"] != after["id"] or event.number % 3 == 0)
    if split and event.number % 4:
        steps = [("DELETE", before, None), ("INSERT", None, after)]
    place = {} if event.operation == "read" else {"commitTs": event.number}
    found = []
    for kind, before, after in steps:
        document: Row = {
            "id": 0,
            "database": "shop",
            "table": "t",
            "pkNames": ["id"],
            "isDdl": False,
        }
        document |= {
            "type": kind,
            "es": TIME,
            "ts": TIME,
            "sql": "",
            "sqlType": {"id": -5, "v": 12},
        }
        document |= {"mysqlType": {"id": "bigint", "v": "varchar"}}
        document |= {"old": [texts(before)] if kind == "UPDATE" else None}
        found.append(dumps({**document, "data": [texts(after or before)], "_tidb": place}))
    return found


def oms_canal(event: Event) -> list[bytes]:
    """The fields of Canal and the values of OMS."""
    document = json.loads(canal(event)[0])
    document["mysqlType"] = {"id": "int64", "v": "varchar"}
    for row in (*document["data"], *(document["old"] or ())):
        row |= {"id": int(row["id"])} if "id" in row else {}
    return [dumps(document)]


_TABLE = intern_schema(
    "shop",
    None,
    "t",
    (Column("id", parse_type("int64")), Column("v", parse_type("string"))),
    ("id",),
)


def databus(framing: str, event: Event) -> list[Encoded]:
    """Events are bytes of Avro, so this one takes Waybill's writer; windows and order are given.

    A change of the key is the removal of one row and another row in the same window.
    """
    envelope = registry.get(framing)
    encoder = envelope.encoder(envelope.encode_settings())  # type: ignore[misc]
    window, found = event.number - event.shared, []
    full = event.operation == "read"
    moved = event.before and event.after and event.before["id"] != event.after["id"]
    steps = [("delete", event.before, None)] if moved or event.after is None else []
    if event.after is not None:
        steps.append(("read" if full else "upsert", None, event.after))
    for operation, *rows in steps:
        images = [None if row is None else _TABLE.Image(str(row["id"]), row["v"]) for row in rows]
        place = Message("t", 0, 0, TIME, None, None)
        change = Change(operation, _TABLE, place, before=images[0], after=images[1], full_row=full)
        change.sequence = None if full else (window,)
        found += encoder.encode(change, [])
    return found


@dataclass(frozen=True)
class Source:
    """A source: its envelope, its messages, and what its histories cannot have.

    Attributes:
        envelope: name of the envelope.
        messages: the messages of an event.
        moves: whether its messages tell changes of the key.
        partitions: partitions among which its changes keep their order by ids; none where it has
            no ids.
        settings: those of its reading.
    """

    envelope: str
    messages: Any
    moves: bool = True
    partitions: int = 5
    settings: tuple[tuple[str, Any], ...] = ()


SOURCES = {
    "datahub-tuple": Source("datahub-tuple", datahub_tuple),
    "datahub-blob": Source("datahub-blob", datahub_blob),
    "oms-default": Source("oms-default", oms_default),
    "oms-extended": Source("oms-extended", oms_extended),
    "oms-dataworks": Source("oms-dataworks", oms_dataworks),
    "oms-shareplex": Source("oms-shareplex", oms_shareplex),
    "debezium-mysql": Source("debezium-json", debezium_mysql),
    "debezium-postgresql": Source(
        "debezium-json", debezium_postgresql, settings=(("replica_identity", "full"),)
    ),
    "debezium-oracle": Source("debezium-json", debezium_oracle),
    "debezium-sqlserver": Source("debezium-json", debezium_sqlserver),
    "debezium-avro": Source(
        "debezium-avro",
        lambda event: avro.debezium(debezium_mysql(event)),
        settings=(("schemas", avro.DEBEZIUM_SCHEMAS),),
    ),
    "maxwell": Source("maxwell", maxwell),
    "maxwell-xoffset": Source("maxwell", maxwell_with_places),
    "ogg": Source("ogg", ogg),
    "dms": Source("dms", dms),
    "dms-mysql": Source("dms", dms_of_mysql),
    "dms-s3": Source(
        "dms-s3", dms_s3, False, settings=(("table", "shop.t"), ("sequence_column", "seq"))
    ),
    "databus-json": Source("databus-json", partial(databus, "databus-json")),
    "databus-binary": Source("databus-binary", partial(databus, "databus-binary")),
    "canal": Source("canal", canal, partitions=0),
    "tidb-canal": Source("tidb-canal", tidb_canal),
    "oms-canal": Source("oms-canal", oms_canal, partitions=0),
    "ibmcdc-avro": Source(
        "ibmcdc-avro", avro.ibmcdc, partitions=0, settings=(("schemas", avro.IBM_SCHEMAS),)
    ),
}


def messages_of(source: Source, history: History) -> list[list[Message]]:
    """The messages of each event, with places in their partitions."""
    offsets: dict[int, int] = {}
    found = []
    for event in history.events:
        batch = []
        for made in source.messages(event):
            offset = offsets[event.partition] = offsets.get(event.partition, -1) + 1
            one = made if isinstance(made, Encoded) else Encoded(None, made)
            place = "shop.t", event.partition, offset, TIME
            batch.append(Message(*place, one.key, one.value, one.headers))
        found.append(batch)
    return found
