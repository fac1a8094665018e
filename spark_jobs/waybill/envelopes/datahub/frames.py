"""The fast way to read DataHub BLOB messages that are like one that was read before.

More than half of a message is its schema, and the messages of a table differ in their payload only.
A `Frame` is the bytes around the payload, `Members` are what the payload has. Where both are known,
one typed decode of the payload and one generated function are all there is to do; any other
message is read by `decoder` in the general way, which also finds the precise reason
of a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from waybill.envelopes.datahub.operations import (
    ROWS,
    extra_template,
    finish_row,
    wrong_images,
)
from waybill.envelopes.datahub.schemas import row_struct
from waybill.envelopes.notation.instants import LAST_MS
from waybill.envelopes.notation.values import JSON_ERRORS, check_json
from waybill.errors import Refusal
from waybill.order import AFTER
from waybill.records import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.datahub.schemas import ReadTable
    from waybill.envelopes.datahub.values import ImageReader
    from waybill.records import Message

MAX_READERS = 8
_EVENT_TIME = Annotated[int, Meta(le=LAST_MS)]


class Unusual(Exception):
    """The message is not like those that were read before."""


UNUSUAL = (Refusal, KeyError, *JSON_ERRORS)
"""What reading the fast way raises; the general way knows better."""


class Members(NamedTuple):
    """The members of a payload that vary between writers.

    Attributes:
        ddl: there is a `ddl`, and it is null.
        integer: `sequenceId` is a number; else it is a string.
        system: there is a `timestamp.systemTime`.
        checkpoint: there is a `timestamp.checkpointTime`.
        partial: an image leaves columns out.
    """

    ddl: bool
    integer: bool
    system: bool
    checkpoint: bool
    partial: bool


def payload_reader(
    members: Members, table: ReadTable, about: dict[str, Any]
) -> Callable[[Message, bytes], Change]:
    """A function that reads payloads with certain members; it runs once for every message.

    It raises one of `JSON_ERRORS` for a payload with other members, or for a value in a rarer
    notation, and a Refusal or KeyError for a payload that is wrong.
    """
    times: list[Any] = [("eventTime", _EVENT_TIME)]
    times += [("systemTime", int)] if members.system else []
    times += [("checkpointTime", int)] if members.checkpoint else []
    reader, schema = table.reader, table.schema
    row = row_struct(reader.partial if members.partial else reader.whole, required=True)
    fields: list[Any] = [
        ("op", str),
        ("sequenceId", int if members.integer else str),
        ("timestamp", _strict("Times", times)),
        *([("ddl", None)] if members.ddl else []),
        ("before", row | UnsetType | None, UNSET),
        ("after", row | UnsetType | None, UNSET),
    ]
    # A number that is no integer comes as the text it was.
    decode = msgspec.json.Decoder(_strict("Payload", fields), float_hook=str).decode
    extra_of = extra_template(members.system, members.checkpoint, about)
    required, one_image, partial = 3 + members.ddl + len(times), reader.width + 1, members.partial
    convert = reader.convert

    def read(message: Message, text: bytes) -> Change:
        payload = decode(text)
        before, after, times = payload.before, payload.after, payload.timestamp
        # Every name has a colon, and every other colon stands in a text or behind a second name.
        names = required
        old = new = None
        if before:
            names += one_image
            old = convert(before.dataColumn)
        elif before is None:
            names += 1
        if after:
            names += one_image
            new = convert(after.dataColumn)
        elif after is None:
            names += 1
        colons = text.count(b":")
        if colons != names or partial:
            _check_names(text, colons, names, partial, reader, before, after)
        op = payload.op
        operation, needs_before, needs_after = ROWS[op]
        if needs_after is (new is None) or needs_before is (old is None):
            raise wrong_images(op, old, new)
        event = times.eventTime
        return finish_row(
            Change(
                operation,
                schema,
                message,
                0,
                old,
                new,
                None,
                AFTER,
                False,
                None,
                None,
                event * 1000 if event >= 0 else None,
                None,
                None,
                extra_of(times),
            ),
            op,
            payload.sequenceId,
        )

    return read


def _strict(name: str, fields: list[Any]) -> type[Any]:
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, gc=False)


def _check_names(
    text: bytes,
    colons: int,
    names: int,
    partial: bool,
    reader: ImageReader,
    before: Any,
    after: Any,
) -> None:
    """Refuse a name that stands twice; exact, and slow only where texts are unusual.

    Raises:
        Refusal: kind `json`.
    """
    in_texts = 0
    for row in (before, after):
        if row:
            image = row.dataColumn
            in_texts += reader.colons(image) + reader.name_colons
            if partial:
                names -= msgspec.structs.astuple(image).count(UNSET)
    # An escaped colon (u003a) is one in the text, but none in the message.
    if colons == names + in_texts and b"\\u" not in text:
        return
    # A blank before a colon would hide a name from this count.
    loose = b" :" in text or b"\t" in text or b"\n" in text or b"\r" in text
    if loose or text.count(b'":') - text.count(b'\\":') != names:
        check_json(text)


class Frame:
    """The bytes before and after a payload, and how the payloads met between them are read."""

    def __init__(self, head: bytes, tail: bytes, table: ReadTable) -> None:
        self.head = head
        self.tail = tail
        self.start = len(head)
        self.end = -len(tail)
        self.table = table
        self.readers: dict[Members, Callable[[Message, bytes], Change]] = {}

    def fits(self, value: bytes) -> bool:
        """Whether a message has these bytes around its payload."""
        return value.startswith(self.head) and value.endswith(self.tail)

    def learn(self, members: Members, about: dict[str, Any]) -> None:
        """Read payloads with these members here from now on."""
        if len(self.readers) < MAX_READERS and members not in self.readers:
            self.readers[members] = payload_reader(members, self.table, about)

    def read(self, message: Message, value: bytes) -> Change:
        """The change of a message that fits.

        Raises:
            Unusual: its payload has to be read in the general way.
        """
        text = value[self.start : self.end]
        for read in self.readers.values():
            try:
                return read(message, text)
            except UNUSUAL:
                pass
        raise Unusual
