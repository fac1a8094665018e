"""Sends changes through an envelope and says what came back different, in words of the loss report.

`differences` knows only what a declaration may give up. Anything else that differs is a changed
value, and an assertion says where.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tests.histories import by_name
from waybill.envelopes.database_kinds import kind_of
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import Refusal
from waybill.made_ids import lost_of
from waybill.records import ROW_OPERATIONS, Change, Column, Message, TableSchema
from waybill.sequence_layout import WIDE, SequenceLayout, optional, pack
from waybill.tables import TableRule, TableRules
from waybill.types import INTEGER_RANGE, UNKNOWN, LogicalType
from waybill.validate.readers import common_settings
from waybill.values.values import is_integer_text

if TYPE_CHECKING:
    from waybill.protocol import Encoded, Envelope

LOST_WITH = {
    "truncate": "truncate",
    "ddl": "ddl",
    "heartbeat": "heartbeat",
    "begin": "transactions",
    "commit": "transactions",
    "rollback": "transactions",
    "other": "other",
    "delete": "delete",
}
"""The capability that is lost when a change leaves no message."""

TIMES = frozenset({"time", "timestamp", "timestamptz"})
FLOATS = frozenset({"float32", "float64"})


@dataclass
class Trip:
    """One change, the messages it became, and what was read from them."""

    change: Change
    encoded: list[Encoded] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    refusal: Refusal | None = None
    """Why it was not written."""
    unread: Refusal | None = None
    """Why what was written is not read again."""
    read: list[Change] = field(default_factory=list)
    bare: list[Change] = field(default_factory=list)
    """Read by someone without declarations of the table, where that was asked for."""


def write_settings(envelope: Envelope, **settings: Any) -> Any:
    return envelope.encode_settings(**settings)


def read_settings(envelope: Envelope, written: Any) -> Any:
    """Reading has the settings of writing, where both name it the same."""
    return envelope.decode_settings.model_validate(common_settings(envelope, written))


def rules_for(envelope: Envelope, schemas: list[TableSchema]) -> TableRules:
    """What has to be declared under `tables:` because the envelope does not carry it."""
    rules: dict[str, TableRule] = {}
    for schema in schemas:
        if schema.table is None:
            continue
        columns = {}
        if "types" not in envelope.carries:
            columns = {c.name: _declared(c) for c in schema.columns if c.type != UNKNOWN}
        name = f"{schema.database}.{schema.table}"
        known = rules.get(name, TableRule())
        # A statement about the table does not tell its key.
        key = known.key if schema.key is None else schema.key
        key = None if "key_columns" in envelope.carries else key
        rules[name] = TableRule(key, {**known.columns, **columns})
    return TableRules(rules)


def _declared(column: Column) -> LogicalType:
    """A type as a person declares it: times with the digits of their second."""
    if column.type.kind not in TIMES or column.type.precision is not None:
        return column.type
    source = column.source_type or ""
    unit = re.fullmatch(r"io\.debezium\.time\.(Micro|Nano|)(?:Time|Timestamp)", source)
    if unit is not None:
        return LogicalType(column.type.kind, {"": 3, "Micro": 6, "Nano": 9}[unit[1]])
    digits = re.search(r"\((\d)\)", source)
    return column.type if digits is None else LogicalType(column.type.kind, int(digits[1]))


def travel(
    envelope: Envelope, changes: list[Change], *, bare: bool = True, **settings: Any
) -> list[Trip]:
    """Encode changes with one encoder and read the messages with one decoder.

    `differences` needs them to be read once more, `bare`.
    """
    assert envelope.encoder is not None
    assert envelope.decoder is not None
    written = write_settings(envelope, **settings)
    encoder = envelope.encoder(written)
    reading = read_settings(envelope, written)
    schemas = list({id(change.schema): change.schema for change in changes}.values())
    readers = [
        (envelope.decoder(reading, rules), PairJoiner())
        for rules in (rules_for(envelope, schemas), TableRules())
    ]
    offsets: dict[int, int] = defaultdict(int)
    trips = []
    for change in changes:
        trip = Trip(change)
        trips.append(trip)
        try:
            lost: list[str] = []
            trip.encoded = encoder.encode(change, lost)
            trip.losses = lost_of(lost)
        except Refusal as refusal:
            trip.refusal = refusal
            continue
        partition = change.message.partition
        messages = []
        for encoded in trip.encoded:
            offset = offsets[partition] = offsets[partition] + 1
            messages.append(_message(change, partition, offset, encoded))
        try:
            trip.read = read(*readers[0], messages)
        except Refusal as refusal:
            trip.unread = refusal
            readers[0][1].rest()
            continue
        if not bare:
            continue
        try:
            trip.bare = read(*readers[1], messages)
        except Refusal:
            readers[1][1].rest()
    return trips


def _message(change: Change, partition: int, offset: int, encoded: Encoded) -> Message:
    time = change.message.timestamp
    return Message("out", partition, offset, time, encoded.key, encoded.value, encoded.headers)


def read(decoder: Any, joiner: PairJoiner, messages: list[Message]) -> list[Change]:
    """The accepted changes of messages, halves joined; a lone after image is an update."""
    found: list[Change] = []
    for message in messages:
        for change in decoder.decode(message):
            if change.outcome == "refused":
                raise Refusal(change.reason_kind or "", change.reason or "")
            settled = [change] if change.half is None else joiner.push(change)
            found += [c for c in settled if c.outcome == "ok"]
    found += joiner.rest()
    for change in found:
        if change.half == "after":
            change.half = None
    return found


def differences(trip: Trip) -> set[str]:
    """What was lost on the way, by the names of the loss report.

    Raises:
        AssertionError: something changed that no envelope may change.
    """
    change = trip.change
    assert trip.unread is None, f"{named(change)}: {trip.unread} in {shown(trip)}"
    if not trip.encoded:
        lost = LOST_WITH.get(change.operation)
        assert lost is not None, f"{named(change)} left no message and has no name in losses"
        return {lost}
    assert trip.read, f"{named(change)}: nothing is read from {shown(trip)}"
    if change.moved_apart and not trip.read[-1].moved_apart:
        # Its source removes the old key by a message of its own.
        alone = structs.replace(change, operation="insert", moved_from=None)
        return {"key_change"} | differences(replace(trip, change=alone))
    if change.operation in ROW_OPERATIONS:
        lost = _row_differences(trip)
    else:
        lost = _event_differences(trip)
    return lost | _common_differences(change, trip.read[-1])


def _same_order(sequence: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The sequence, and the one number that a target makes of it, left out of some messages or not.

    No source is stated, so each part has the digits of one of which nothing is known.
    """
    wide = SequenceLayout((), (WIDE,) * (len(sequence) - 1))
    try:
        number = pack(sequence, wide)
    except Refusal:
        return (sequence,)
    # The last is a row's place in a commit of TiDB.
    return (sequence, (number,), optional(number), (number, 1))


def _common_differences(change: Change, found: Change) -> set[str]:
    lost = set()
    if change.schema.table is not None:
        mine, theirs = change.schema, found.schema
        assert theirs.database == mine.database, f"{named(change)}: database {theirs.database!r}"
        assert theirs.table == mine.table, f"{named(change)}: table {theirs.table!r}"
        if theirs.schema != mine.schema:
            assert theirs.schema is None, f"{named(change)}: schema {theirs.schema!r}"
            lost.add("schema_name")
    if change.sequence is not None and found.sequence not in _same_order(change.sequence):
        lost.add("sequence_id")
    if change.source_time != found.source_time:
        lost.add("source_time")
    if change.transaction != found.transaction:
        # Without a name of its own it may have that of its number.
        numbered = "".join(map(str, change.sequence or ()))
        assert found.transaction in (None, numbered), (
            f"{named(change)}: transaction {found.transaction!r}"
        )
        lost.add("transactions")
    return lost


def _event_differences(trip: Trip) -> set[str]:
    change = trip.change
    assert len(trip.read) == 1, f"{named(change)} became {[c.operation for c in trip.read]}"
    found = trip.read[0]
    if found.operation != change.operation:
        raise AssertionError(f"{named(change)} is read as {found.operation}: {shown(trip)}")
    if change.operation in ("ddl", "other") and found.ddl_text != change.ddl_text:
        assert found.ddl_text is None, f"{named(change)}: statement {found.ddl_text!r}"
        return {change.operation}
    return set()


def _row_differences(trip: Trip) -> set[str]:
    change = trip.change
    lost = _schema_differences(trip)
    found = trip.read[-1]
    kind = kind_of(change)
    # OMS has no small letters in it.
    if kind is not None and kind.upper() != (kind_of(found) or "").upper():
        lost.add("database_kind")
    before = found.before
    if len(trip.read) == 2:
        # One event became two: the old row leaves, the new one comes.
        first = trip.read[0]
        assert (first.operation, change.operation) == ("delete", "update"), shown(trip)
        assert change.old_key_image() is not None, f"{named(change)} became a delete and an insert"
        lost.add("key_change")
        before = first.before
        old_key = first.key_image()
    else:
        assert len(trip.read) == 1, f"{named(change)} became {len(trip.read)} changes"
        lost |= _operation_differences(change, found)
        old_key = found.old_key_image()
    mine = change.old_key_image()
    if mine is not None and old_key is None:
        lost.add("key_change")
    elif mine is not None:
        assert named_key(change, mine) == named_key(found, old_key), f"{named(change)}: old key"
    else:
        assert old_key is None, f"{named(change)}: a change of the key was made up"
    lost |= _image_differences(trip, "after", change.after, found.after, "unchanged_columns")
    return lost | _image_differences(trip, "before", change.before, before, "before_image")


def _operation_differences(change: Change, found: Change) -> set[str]:
    if change.operation == "read":
        allowed = ("read", "insert", "upsert")
        assert found.operation in allowed, f"{named(change)} is {found.operation}"
        if found.operation != "read" or change.full_row != found.full_row:
            return {"full_rows"}
        return set()
    if change.operation == "upsert":
        # There is no envelope in which an upsert could be distinguished from an insert or update.
        assert found.operation in ("upsert", "insert", "update")
        return set()
    if found.operation == "upsert" and change.operation in ("insert", "update"):
        return {"operations"}
    assert found.operation == change.operation, f"{named(change)} is read as {found.operation}"
    return set()


def _schema_differences(trip: Trip) -> set[str]:
    """Types and key as one finds them without declarations."""
    schema = trip.change.schema
    if not trip.bare:
        return {"types"}
    bare = trip.bare[-1].schema
    lost = set()
    if (bare.key or ()) != (schema.key or ()):
        lost.add("key_columns")
    types = {column.name: column.type for column in bare.columns}
    shown = {
        name
        for read in trip.bare
        for image in (read.before, read.after)
        for name in by_name(read.schema, image) or ()
    }
    for column in schema.columns:
        # A column that did not come back is a difference of the images, also where a reader knows
        # it of earlier messages; the loss of its type was counted with those.
        if column.name in shown and _plain_type(types[column.name]) != _plain_type(column.type):
            lost.add("types")
    return lost


def _plain_type(kind: LogicalType | None) -> LogicalType | None:
    """A type without the digits of its second, which only declarations tell."""
    return LogicalType(kind.kind) if kind is not None and kind.kind in TIMES else kind


def _image_differences(trip: Trip, which: str, mine: Any, theirs: Any, name: str) -> set[str]:
    change = trip.change
    found_schema = trip.read[0 if which == "before" and len(trip.read) == 2 else -1].schema
    expected, found = by_name(change.schema, mine), by_name(found_schema, theirs)
    if which == "before":
        # One that tells no column tells as little as none.
        expected, found = expected or None, found or None
    if expected is None or found is None:
        if which == "after":
            assert (expected is None) == (found is None), f"{named(change)}: {which} {found}"
        return set() if expected == found else {name}
    strange = found.keys() - set(change.schema.names)
    assert not strange, f"{named(change)}: columns {strange} were made up"
    for column in expected.keys() & found.keys():
        kind = change.schema.columns[change.schema.index[column]].type
        assert same_value(expected[column], found[column], kind.kind), (
            f"{named(change)}: {which}.{column} ({kind}) was {expected[column]!r} and is "
            f"{found[column]!r} in {shown(trip)}"
        )
    return set() if expected.keys() == found.keys() else {name}


def same_value(mine: str | None, theirs: str | None, kind: str) -> bool:
    """Whether two texts are one value: a time's last zeros and a float's notation may differ."""
    if mine == theirs:
        return True
    if mine is None or theirs is None:
        return False
    if kind in INTEGER_RANGE:
        return is_integer_text(theirs) is not None and int(theirs) == int(mine)
    if kind in TIMES:
        return _plain_time(mine) == _plain_time(theirs)
    if kind in FLOATS:
        try:
            return repr(float(mine)) == repr(float(theirs)) and "inf" not in repr(float(mine))
        except ValueError:
            return False
    return False


def _plain_time(text: str) -> str:
    zone = "Z" if text.endswith("Z") else ""
    body = text.removesuffix("Z")
    return (body.rstrip("0").removesuffix(".") if "." in body else body) + zone


def named(change: Change) -> str:
    """A change in an assertion."""
    return f"{change.operation} at {change.message.partition}:{change.message.offset}"


def named_key(change: Change, key: Any) -> dict[str, Any]:
    """A key image by column name."""
    fields = key.__struct_fields__
    names = change.schema.key or ()
    return {name: getattr(key, f) for name, f in zip(names, fields, strict=True)}


def shown(trip: Trip) -> str:
    """The messages in an assertion."""
    return " | ".join(repr(encoded.value)[:1500] for encoded in trip.encoded)
