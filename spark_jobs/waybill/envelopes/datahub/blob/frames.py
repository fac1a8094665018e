"""The known-table way to read DataHub BLOB messages that are like one that was read before.

More than half of a message is its schema, and the messages of a table differ in their payload only.
A `Frame` is the bytes around the payload, `Members` are what the payload has. Where both are known,
one typed decode of the payload and one generated function are all there is to do; any other
message is read by `decoder` in the exact way, which also finds the precise reason
of a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from waybill.envelopes.datahub.blob.columns import SCOPE
from waybill.envelopes.datahub.blob.operations import (
    MAX_ID_DIGITS,
    ROWS,
    extra_template,
    finish_row,
    wrong_images,
)
from waybill.envelopes.datahub.blob.schemas import row_struct
from waybill.errors import Refusal
from waybill.records import Change
from waybill.values.generated import function
from waybill.values.instants import LAST_MS
from waybill.values.row_functions import one_row
from waybill.values.values import JSON_ERRORS, check_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.datahub.blob.schemas import ReadTable
    from waybill.envelopes.datahub.blob.values import ImageReader
    from waybill.records import Message

MAX_READERS = 8
EVENT_TIME = Annotated[int, Meta(ge=-1, le=LAST_MS)]
"""Milliseconds since 1970; full rows have -1, which is no time."""


class Unusual(Exception):
    """The message is not like those that were read before."""


UNUSUAL = (Refusal, KeyError, *JSON_ERRORS)
"""What reading the known-table way raises; the exact way knows better."""


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
    times: list[Any] = [("eventTime", EVENT_TIME)]
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
    names: dict[str, Any] = {
        "decode": msgspec.json.Decoder(_strict("Payload", fields)).decode,
        "into": msgspec.json.Encoder().encode_into,
        # Encoding into the same buffer again spares much of the time.
        "buffer": bytearray(),
        "check_names": _name_checker(members, reader, 3 + members.ddl + len(times)),
        "extra_of": extra_template(members.system, members.checkpoint, about),
        "ROWS": ROWS,
        "wrong_images": wrong_images,
        "finish_row": finish_row,
        "schema": schema,
        "image": one_row([column.step for column in reader.columns], schema.Image, SCOPE),
        "empty": table.empty,
        "Change": Change,
    }
    number = "int(number)"
    usual = f"number.isdecimal() and number.isascii() and len(number) <= {MAX_ID_DIGITS}"
    if members.integer:
        number, usual = "number", "number >= 0"
    lines = [
        "payload = decode(text)",
        # What was decoded takes as many bytes as there are, so no name stood twice: JSON has no
        # shorter form of it than the one that is written here.
        "into(payload, buffer)",
        "if len(buffer) != len(text): check_names(payload, text)",
        "op = payload.op",
        "before = payload.before",
        "after = payload.after",
        "operation, needs_before, needs_after = ROWS[op]",
        "old = new = None",
        # A row without any column is none.
        "if before: old = image(before.dataColumn)",
        "if after: new = image(after.dataColumn)",
        *(
            ["old, new = None if old == empty else old, None if new == empty else new"]
            if members.partial
            else ()
        ),
        "if needs_after is (new is None) or needs_before is (old is None):",
        "    raise wrong_images(op, old, new)",
        "times = payload.timestamp",
        "event = times.eventTime",
        "number = payload.sequenceId",
        "rank, half = 1, None",
        f"usual = {usual}",
        'if usual and operation == "update":',
        '    if new is None: rank, half = 0, "before"',
        '    elif old is None and op == "UPDATE_AFTER": half = "after"',
        "change = Change(operation, schema, message, before=old, after=new,"
        f" sequence=({number},) if usual else None, rank=rank, half=half,"
        " source_time=event * 1000 if event >= 0 else None, extra=extra_of(times))",
        "return change if usual else finish_row(change, op, number)",
    ]
    return function("read(message, text)", lines, names)


def _strict(name: str, fields: list[Any]) -> type[Any]:
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, gc=False)


def _name_checker(
    members: Members, reader: ImageReader, required: int
) -> Callable[[Any, bytes], None]:
    """A function that refuses a payload with a name that stands twice, however it is written.

    It is exact, and slow only where texts are unusual.
    """

    def check(payload: Any, text: bytes) -> None:
        # Every name has a colon, and every other colon stands in a text or behind a second name.
        names, in_texts = required, 0
        for row in (payload.before, payload.after):
            if row:
                image = row.dataColumn
                names += reader.width
                in_texts += reader.colons(image) + sum(reader.name_colons)
                if members.partial:
                    for value, colons in zip(
                        msgspec.structs.astuple(image), reader.name_colons, strict=True
                    ):
                        if value is UNSET:
                            names -= 1
                            in_texts -= colons
            names += row is not UNSET
        # An escaped colon (u003a) is one in the text, but none in the message.
        if text.count(b":") == names + in_texts and b"\\u" not in text:
            return
        # A blank before a colon would hide a name from this count.
        loose = b" :" in text or b"\t" in text or b"\n" in text or b"\r" in text
        if loose or text.count(b'":') - text.count(b'\\":') != names:
            check_json(text)

    return check


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
            Unusual: its payload has to be read in the exact way.
        """
        text = value[self.start : self.end]
        for read in self.readers.values():
            try:
                return read(message, text)
            except UNUSUAL:
                pass
        raise Unusual
