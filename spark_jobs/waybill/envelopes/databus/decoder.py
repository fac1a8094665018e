"""Databus events as changes, whatever they were written in.

An event is a row change whose sequence is its window (SCN); inside a window the position decides.
A window ends with its end-of-period event: until then its rows wait, so the window is the
transaction of its rows, and the end of the period is the commit. UPSERT does not tell insert from
update and has no row before; a message that Waybill wrote says in a header what the change was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.envelopes.databus.event import DELETE, END_OF_PERIOD, NO_TIME, UPSERT, Event, Part
from waybill.envelopes.databus.json.values import image_of_json
from waybill.envelopes.databus.rows import RowPlan
from waybill.envelopes.databus.schemas import schema_book, schema_in_message
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, Message, refused, skipped
from waybill.values.declared import check_for
from waybill.values.values import base64_text

if TYPE_CHECKING:
    from waybill.envelopes.databus.schemas import Registered
    from waybill.envelopes.databus.settings import DatabusReadSettings
    from waybill.tables import TableRules

SCHEMA_HEADER = "databus.schema"
"""Header with the Avro schema of the message's event."""
OPERATION_HEADER = "waybill.operation"
"""Header with what the change was: an operation, or `full` for a full row without position."""
TRANSACTION_HEADER = "waybill.transaction"
"""Header with the transaction of the change."""

OPERATIONS = {
    name.encode(): name for name in ("read", "insert", "update", "delete", "upsert", "commit")
}
FULL = b"full"
MAX_PLANS = 1_000
"""How many schemas out of messages are kept at once."""

_json = msgspec.json.Encoder().encode


class Headers:
    """What the headers of a message say beside its events."""

    __slots__ = ("operation", "schema", "transaction")

    def __init__(self, message: Message) -> None:
        if not message.headers:
            self.schema = self.operation = self.transaction = None
            return
        found = dict(message.headers)
        self.schema = found.get(SCHEMA_HEADER)
        self.operation = found.get(OPERATION_HEADER)
        given = found.get(TRANSACTION_HEADER)
        try:
            self.transaction = None if given is None else given.decode()
        except UnicodeDecodeError:
            raise Refusal("value", f"the header {TRANSACTION_HEADER} is not UTF-8") from None
        if self.operation not in (None, FULL) and self.operation not in OPERATIONS:
            raise Refusal("operation", f"the header {OPERATION_HEADER} names no operation")


class EventDecoder:
    """Turns events into changes.

    Args:
        settings: those of the envelope.
        rules: what is declared for the tables.
    """

    def __init__(self, settings: DatabusReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self._versions = settings.schema_ids == "version"
        self.rules = rules
        self.book = schema_book(settings.schemas, settings.sources)
        self._plans: dict[bytes, RowPlan] = {}
        self._registered_plans: dict[Registered, RowPlan] = {}
        self._header_plans: dict[bytes, RowPlan] = {}

    def changes(self, message: Message, events: Iterable[Event | Refusal]) -> list[Change]:
        """The changes of a message's events; a bad event stands as a refused row.

        Raises:
            Refusal: nothing in the message can be taken.
        """
        headers = Headers(message)
        found: list[Change] = []
        why: Refusal | None = None
        for event in events:
            index = len(found)
            try:
                if isinstance(event, Refusal):
                    raise event
                found.append(self._change(event, message, headers, index))
            except Refusal as refusal:
                why = type(refusal)(refusal.kind, _placed(refusal.sentence, event), index)
                found.append(refused(message, why))
            # The other rows of the window wait for its end, whatever is wrong with the last one.
            if isinstance(event, Event) and event.last and found[-1].operation != "commit":
                found.append(self._end(event, message, headers, index + 1))
        if why is not None and len(found) == 1:
            raise type(why)(why.kind, why.sentence)
        return found

    def _change(self, event: Event, message: Message, headers: Headers, index: int) -> Change:
        if event.source == END_OF_PERIOD:
            if event.opcode and event.value:
                sentence = "has a row and the source -2 of a window's end, which has none"
                raise Refusal("shape", sentence)
            return self._end(event, message, headers, index)
        if event.source <= 0:
            return _control(event, message, index)
        plan = self._plan(event, headers)
        if not event.value and (event.value is None or event.opcode == DELETE):
            # The value of an event is optional; so is that of version 1, which has a length of 0.
            image = self._row_of_key(plan, event.key)
        elif event.json_value:
            image = image_of_json(plan, event.value.decode("utf-8", "surrogatepass"))
        else:
            image = plan.image(event.value)
        delete = event.opcode == DELETE
        operation = "delete" if delete else "upsert"
        full = False
        transaction = None
        if headers.operation is None:
            if self.settings.windows == "transactions":
                transaction = str(event.sequence)
        else:
            transaction = headers.transaction
            full = headers.operation == FULL
            operation = "read" if full else OPERATIONS[headers.operation]
            if operation == "commit" or delete != (operation == "delete"):
                message_text = f"the header {OPERATION_HEADER} says {operation}, the event not"
                raise Refusal("operation", message_text)
        return Change(
            operation,
            plan.schema,
            message,
            index=index,
            before=image if delete else None,
            after=None if delete else image,
            sequence=None if full and event.sequence == 0 else (event.sequence,),
            full_row=full,
            source_time=micros(event.nanos),
            transaction=transaction,
            extra=None if plan.own else family(event, self._versions and event.value is not None),
        )

    def _row_of_key(self, plan: RowPlan, key: int | bytes | Part) -> Any:
        """The row of an event without value.

        Raises:
            Refusal: kind `key`; the key does not tell the key columns.
        """
        registered = self.book.by_id.get(key.digest) if isinstance(key, Part) else None
        if registered is None or not isinstance(key, Part):
            return key_row(plan, key)
        known_plan = self.known_plan(registered)
        row, schema = known_plan.image(key.data), plan.schema
        values = {}
        for name in schema.key or ():
            if name not in known_plan.schema.index or name not in schema.index:
                sentence = f"has no value, and its key lacks the key column {name!r}"
                raise Refusal("key", sentence)
            text = getattr(row, f"f{known_plan.schema.index[name]}")
            check = check_for(schema.columns[schema.index[name]].type)
            if check is not None and isinstance(text, str):
                text = check(text)
            values[f"f{schema.index[name]}"] = text
        if not values:
            raise Refusal("key", "has no value, and its table has no key columns")
        return schema.Image(**values)

    def _end(self, event: Event, message: Message, headers: Headers, index: int) -> Change:
        """The end of a window."""
        if headers.operation is not None and headers.operation != b"commit":
            # The change before it was complete in itself: nothing waits for this end.
            return skipped(message, "end of window", "commit", index)
        if headers.operation is None:
            if self.settings.windows == "ignore":
                return skipped(message, "end of window", "commit", index)
            transaction: str | None = str(event.sequence)
        else:
            transaction = headers.transaction
        return Change(
            "commit",
            NO_TABLE,
            message,
            index=index,
            sequence=(event.sequence,),
            source_time=micros(event.nanos),
            transaction=transaction,
            extra=family(event) if headers.operation is None else None,
        )

    def _plan(self, event: Event, headers: Headers) -> RowPlan:
        if event.opcode not in (UPSERT, DELETE):
            raise Refusal("operation", f"has no opcode, and its source {event.source} is a table's")
        if event.value is None:
            return self._plan_of_source(event, headers)
        plan = self._plans.get(event.digest)
        if plan is None:
            if self.settings.schema_ids == "version":
                return self._plan_of_version(event)
            registered = self.book.by_id.get(event.digest)
            if registered is None and not event.value and event.source in self.book.by_source:
                return self._plan_of_source(event, headers)
            if registered is None:
                return self._plan_beside(event.digest, headers)
            plan = self._plans[event.digest] = self.known_plan(registered)
        return plan

    def _plan_beside(self, digest: bytes, headers: Headers) -> RowPlan:
        """The plan of a schema that came with the message."""
        if headers.schema is None:
            raise Refusal("schema", f"names the schema {digest.hex()}, which is not known")
        plan = self._header_plans.get(headers.schema)
        if plan is None:
            registered = schema_in_message(headers.schema, digest)
            plan = RowPlan(registered, self.rules, self.settings)
            if len(self._header_plans) >= MAX_PLANS:
                self._header_plans.clear()
            self._header_plans[headers.schema] = plan
        if digest not in plan.ids:
            raise Refusal("schema", f"names the schema {digest.hex()}, not the one beside it")
        return plan

    def _plan_of_version(self, event: Event) -> RowPlan:
        """The plan of an event whose schema id is the version of its source's schema."""
        version = int.from_bytes(event.digest[:2], "little" if event.little else "big")
        registered = self.book.by_version.get((event.source, version))
        if registered is None:
            message = f"names version {version} of the schema of source {event.source}, not known"
            raise Refusal("schema", message)
        return self.known_plan(registered)

    def known_plan(self, registered: Registered) -> RowPlan:
        """How rows of a schema of the book are read.

        Raises:
            Refusal: kind `schema`; the schema cannot be used.
        """
        plan = self._registered_plans.get(registered)
        if plan is None:
            plan = RowPlan(registered, self.rules, self.settings)
            self._registered_plans[registered] = plan
        return plan

    def _plan_of_source(self, event: Event, headers: Headers) -> RowPlan:
        """The plan of an event without value: it names its source only."""
        registered = self.book.by_source.get(event.source)
        if registered is None:
            message = (
                f"has no value, and the schema of source {event.source} is not known; "
                "name the source under `sources`"
            )
            raise Refusal("schema", message)
        plan = self.known_plan(registered)
        if event.opcode != DELETE:
            raise Refusal("shape", "is no DELETE and has no value")
        return plan


def _placed(sentence: str, event: Event | Refusal) -> str:
    if isinstance(event, Refusal) or sentence.startswith("the event at byte"):
        return sentence
    joined = sentence if sentence.startswith(("has ", "is ", "names ")) else f"is bad: {sentence}"
    return f"the event at byte {event.place} {joined}"


def micros(nanos: int) -> int | None:
    """Microseconds of an event's time; the nanoseconds below them are in `extra`."""
    return None if nanos == NO_TIME else nanos // 1000


def key_row(plan: RowPlan, key: int | bytes | Part) -> Any:
    """The row of an event without value: what its key tells.

    Raises:
        Refusal: kind `key`; the key does not tell the key columns.
    """
    schema = plan.schema
    if not schema.key or len(schema.key) != 1 or isinstance(key, Part):
        columns = "no key column" if not schema.key else f"{len(schema.key)} key columns"
        kind = "a key with a schema" if isinstance(key, Part) else "one key"
        message = f"has no value, {kind}, and its table has {columns}"
        raise Refusal("key", f"{message}: it is not known which row it is about")
    (name,) = schema.key
    if name not in schema.index:
        sentence = f"has no value, and key column {name!r} is not among the row's columns"
        raise Refusal("key", sentence)
    at = schema.index[name]
    column = schema.columns[at]
    if isinstance(key, int):
        text = str(key)
        if not column.type.is_number and column.type.kind not in ("string", "unknown"):
            raise Refusal("key", f"has a long key, and its key column is {column.type}")
    else:
        if column.type.kind in ("bytes", "bit", "geometry"):
            return schema.Image(**{f"f{at}": base64_text(key)})
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise Refusal("key", "has a key that is not UTF-8") from None
    check = check_for(column.type)
    try:
        return schema.Image(**{f"f{at}": text if check is None else check(text)})
    except Refusal as refusal:
        raise Refusal(refusal.kind, f"key column {name!r}: {refusal.sentence}") from None


_USUAL = b'{"databus":{"version":%d,"source":%d,"physical":%d,"logical":%d,"key":"%d"}}'


def family(event: Event, versions: bool = False) -> bytes:
    """What a Databus event carries beside the change, for targets of the family.

    Args:
        event: it.
        versions: whether the id of its schema is a version.
    """
    flagged = event.replicated or event.trace or event.little or event.metadata is not None
    flagged = flagged or versions
    if not flagged and type(event.key) is int and event.nanos % 1000 == 0:
        return _USUAL % (event.version, event.source, event.physical, event.logical, event.key)
    carried: dict[str, Any] = {"version": event.version, "source": event.source}
    carried["physical"], carried["logical"] = event.physical, event.logical
    carried["key"] = written_key(event.key)
    if event.nanos != NO_TIME and event.nanos % 1000:
        carried["nanos"] = event.nanos
    if event.metadata is not None:
        carried["metadata"] = written_part(event.metadata)
    if versions:
        carried["schema_ids"] = "version"
    for name in ("replicated", "trace", "little"):
        if getattr(event, name):
            carried[name] = True
    return _json({"databus": carried})


def written_key(key: int | bytes | Part) -> Any:
    """A key in `extra`: an integer as its digits, bytes as {bytes}, a part as its three members."""
    if isinstance(key, int):
        return str(key)
    return {"bytes": base64_text(key)} if isinstance(key, bytes) else written_part(key)


def written_part(part: Part) -> dict[str, Any]:
    """A part in `extra`."""
    return {
        "data": base64_text(part.data),
        "version": part.version,
        "digest": base64_text(part.digest),
    }


def _control(event: Event, message: Message, index: int) -> Change:
    """An event of the system itself: checkpoint, error, or private."""
    extra = msgspec.json.decode(family(event))["databus"]
    extra["control"] = True
    extra["opcode"] = event.opcode
    extra["digest"] = base64_text(event.digest)
    extra["schema_version"] = event.schema_version
    if event.value is not None:
        extra["value"] = base64_text(event.value)
    return Change(
        "other",
        NO_TABLE,
        message,
        index=index,
        sequence=(event.sequence,),
        source_time=micros(event.nanos),
        extra=_json({"databus": extra}),
    )
