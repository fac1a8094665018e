"""The envelope of row events, read in one go with everything that is in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.debezium.control_events import TIMES
from waybill.envelopes.debezium.row_readers import decoder_of, fields_of, to_json
from waybill.envelopes.debezium.source import Long, Source
from waybill.errors import Refusal
from waybill.values.values import JSON_ERRORS, check_json, quotes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.envelopes.debezium.row_readers import RowPlan

USUAL = ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
"""The order in which Debezium writes an envelope."""

_CUT = b',"source":{'
_CLOSE = ord("}")
_NULL = b"null"
_RAW = (Raw, Raw | UnsetType)
_OPEN = (b"{", b"[")
_json_into = msgspec.json.Encoder().encode_into
_decode = msgspec.json.Decoder().decode
_CUT_LENGTH = len(_CUT) - 1
_NEGATIVE_ZERO = re.compile(rb"[:\s]-0\s*[,}]")


class Event:
    """The envelope of row events of one table in one layout, read in one go.

    Args:
        plan: the plan of the rows.
        names: names of the envelope in order.
        source_names: names of its `source` block in order.
    """

    def __init__(
        self, plan: RowPlan, names: tuple[str, ...], source_names: tuple[str, ...]
    ) -> None:
        self.plan = plan
        source = _struct("Source", source_names, _SOURCE, _SOURCE)
        types: dict[str, Any] = {"before": plan.before_row | None, "after": plan.after_row | None}
        types |= {"source": source | None, "op": str, "transaction": Raw}
        types |= dict.fromkeys(TIMES, Long | None)
        envelope = _struct("Envelope", names, types, ("before", "after", "source", "transaction"))
        self.decode = decoder_of(envelope)
        # In the usual layout everything after the images can be carried on by one cut.
        self.cut = names[:3] == USUAL[:3] and bool(source_names) and set(names) <= set(USUAL)
        # Without values that may be objects, the first such member is the envelope's own.
        self.flat = self.cut and not any(reading.raw for reading in plan.columns.values())
        self.written = bytearray()
        blocks = (plan.after_row, plan.before_row, envelope, source)
        self.raw = tuple(_raw_fields(block) for block in blocks)
        self.others = tuple(name for name in names if name not in ("before", "after"))

    def _check_values(self, event: Any, braces: int) -> None:
        """Refuse (kind `json`) a name that stands twice inside a value that was not decoded.

        Such a value is written again as it came, so comparing what is written does not find it.

        Args:
            event: the envelope.
            braces: how many opening ones there are besides those of its blocks.
        """
        blocks = (event.after, event.before, event, event.source)
        # Most documents are columns, and the same before and after a change.
        known = b""
        for block, fields in zip(blocks, self.raw, strict=True):
            for field in fields if block is not None else ():
                value = getattr(block, field)
                text = b"" if value is UNSET else bytes(value)
                if text[:1] in _OPEN:
                    if text != known:
                        _check_names(text)
                        known = text
                    braces -= text.count(b"{")
                    if not braces:
                        return

    def tail(self, body: bytes, event: Any) -> bytes:
        """The fields of an envelope besides its images, as they were sent.

        Images that are not the same bytes when they are written again are read exactly: decoders
        take the last of two equal names and say nothing.

        Raises:
            Refusal: kind `json`, where a name stands twice.
            ValueError: an integer is written -0, which the plan would read as 0.
        """
        if body[-1] != _CLOSE:
            body = body.rstrip()  # blanks may follow the envelope, or the payload in its schema
        blocks = 1 + (event.after is not None) + (event.before is not None)
        braces = body.count(b"{") - blocks - (event.source is not None)
        if braces > 0:
            self._check_values(event, braces)
        if self.flat:
            written = self.written
            _json_into(event, written)
            # Nothing is written shorter than this: no name stood twice, no number was -0.
            if len(written) == len(body):
                return body[body.find(_CUT) + 1 : -1]
        if self.cut:
            before = _NULL if event.before is None else to_json(event.before)
            after = _NULL if event.after is None else to_json(event.after)
            head = b'{"before":%b,"after":%b,"source":{' % (before, after)
            if body.startswith(head):
                return body[len(head) - _CUT_LENGTH : -1]
            at = body.rfind(_CUT)
            # Java's writer escapes characters beyond the basic plane: 12 bytes instead of 4.
            if at > 0 and at + len(_CUT) - len(head) == 8 * head.count(b"\xf0"):
                return body[at + 1 : -1]
        if quotes_of(to_json(event)) != quotes_of(body):
            check_json(body)
        if self.plan.schema.dialect == "json" and _NEGATIVE_ZERO.search(body):
            raise ValueError("-0 is no integer")
        fields = fields_of(body)
        return b",".join(b"%b:%b" % (to_json(n), bytes(fields[n])) for n in self.others)


def _check_names(text: bytes) -> None:
    """Refuse JSON in which a name stands twice; `check_json` is asked where it may be so."""
    try:
        # Of two equal names one is gone when it is written again, and its quotes with it.
        same = quotes_of(to_json(_decode(text))) == quotes_of(text)
    except JSON_ERRORS:
        same = False
    if not same:
        check_json(text)


def _raw_fields(struct: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(struct) if field.type in _RAW)


def _struct(
    title: str, names: tuple[str, ...], types: dict[str, Any], known: Iterable[str]
) -> type[Any]:
    """A struct of the fields that occur; those that are known and do not occur are None."""
    # Names may be anything; only the known ones are read, and they are identifiers.
    fields = {f"f{i}" if name not in types else name: name for i, name in enumerate(names)}
    try:
        return msgspec.defstruct(
            title,
            [(field, types.get(name, Raw)) for field, name in fields.items()],
            rename=fields,
            namespace={name: None for name in known if name not in names},
            forbid_unknown_fields=True,
            gc=False,
        )
    except ValueError as error:
        raise Refusal("shape", f"a name of the envelope cannot be read: {error}") from error


_SOURCE = {field.name: field.type for field in msgspec.structs.fields(Source)}
