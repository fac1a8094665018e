"""Debezium's MongoDB events: documents, which are texts and no rows.

The connector writes a document as a text of JSON (MongoDB's extended form) and its `_id` as such a
text in the message key (Debezium documentation, MongoDB connector, "Data change events"). A
document is read as a row of two columns, with the texts as they are, so that nothing is lost:

- `id`, the key: the JSON text of `_id` as the message key has it, e.g. `{"$oid": "596e…"}`;
- `document`: the whole document.

Read: inserts, snapshot rows, updates and replacements with the whole document (`capture.mode`
`change_streams_update_full` and the modes with pre-image), deletes with or without pre-image.

Refused: an update that holds nothing but what changed (`updateDescription`, or `patch` of old
versions), because the document after it is not stated; an event without message key, because the
text of `_id` inside a document need not be the one of the key; a document that is no JSON object.
Flattened topics (ExtractNewDocumentState) are no envelopes and refused as such.

Written are such rows as any others: with the columns `id` and `document`, not as MongoDB's events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.debezium.control_events import TransactionBlock, before_nothing
from waybill.envelopes.debezium.row_readers import fields_of
from waybill.envelopes.debezium.schema_envelope import opened_key
from waybill.envelopes.debezium.source import STREAMING, Source, sequence_of, source_time
from waybill.errors import Refusal
from waybill.records import Change, Column, intern_schema
from waybill.types import STRING, LogicalType
from waybill.values.declared import check_for
from waybill.values.values import JSON_ERRORS, check_json

if TYPE_CHECKING:
    from waybill.records import Message
    from waybill.tables import TableRules

CONNECTOR = "mongodb"
ID, DOCUMENT = "id", "document"

_OPERATIONS = {"c": "insert", "r": "read", "u": "update", "d": "delete"}
_NULL = Raw(b"null")
_text = msgspec.json.Decoder(str).decode


class _Connector(msgspec.Struct, gc=False):
    connector: str | None = None


def holds_documents(fields: dict[str, Raw]) -> bool:
    """Whether a message is an event of MongoDB by its structure: images are texts or null."""
    images = [bytes(fields.get(name, _NULL)) for name in ("before", "after")]
    if "op" not in fields or any(image[:1] not in (b'"', b"n") for image in images):
        return False
    try:
        source = msgspec.json.decode(fields.get("source", _NULL), type=_Connector | None)
    except JSON_ERRORS:
        return False
    return source is not None and source.connector == CONNECTOR


def document_change(message: Message, fields: dict[str, Raw], rules: TableRules) -> Change:
    """The change of an event of MongoDB.

    Args:
        message: where it came from.
        fields: the names of the envelope, values untouched.
        rules: declared keys and types.

    Raises:
        ValueError: the source or the transaction is not as Debezium writes it.
        Refusal: it does not tell the document, or is none of these events.
    """
    source = msgspec.json.decode(fields["source"], type=Source)
    block = msgspec.json.decode(fields.get("transaction", _NULL), type=TransactionBlock | None)
    op = msgspec.json.decode(fields["op"], type=str)
    operation = _OPERATIONS.get(op)
    if operation is None:
        raise Refusal("operation", f"op {op[:40]!r} is none of c, u, d and r")
    if not source.collection:
        raise Refusal("shape", "source.collection is missing: it names the table")
    before, after = (_document(fields.get(name, _NULL), name) for name in ("before", "after"))
    if operation == "delete":
        after = None
    elif after is None:
        raise Refusal("shape", _incomplete(fields, op))
    elif before is not None and operation != "update":
        raise Refusal("shape", before_nothing(op))
    rule = rules.find(source.db, None, source.collection)
    id_type, document_type = (
        rule.columns.get(name, default) for name, default in ((ID, STRING), (DOCUMENT, _JSON))
    )
    schema = intern_schema(
        source.db,
        None,
        source.collection,
        (Column(ID, id_type), Column(DOCUMENT, document_type)),
        (ID,) if rule.key is None else rule.key,
    )
    _ = schema.key_fields  # refuses a declared key that is none of the two
    identity = _identity(message.key, id_type)
    image = schema.Image
    sequence = sequence_of(source)
    streamed = source.snapshot in STREAMING
    if operation == "insert" and not streamed:
        operation = "read"
    old = None
    if before is not None or operation == "delete":
        old = image(identity, UNSET if before is None else before)
    return Change(
        operation,
        schema,
        message,
        before=old,
        after=None if after is None else image(identity, after),
        sequence=sequence,
        full_row=operation == "read" and sequence is None,
        source_time=source_time(source),
        transaction=None if block is None else block.id,
    )


_JSON = LogicalType("json")


def _document(raw: Raw, name: str) -> str | None:
    """The text of a document, None for null.

    Raises:
        Refusal: kind `value`, when it is no JSON object.
    """
    if bytes(raw) == b"null":
        return None
    text = _text(raw)
    try:
        check_json(text.encode())
        fields_of(text.encode())
    except (Refusal, *JSON_ERRORS) as error:
        raise Refusal("value", f"`{name}` is no JSON document: {error}") from None
    return text


def _identity(key: bytes | None, kind: LogicalType) -> str:
    """The JSON text of the document's `_id`, as the message key tells it.

    Raises:
        Refusal: kind `key`, when the message key does not tell it.
    """
    if key is None:
        sentence = "the `_id` of a document is in the message key: keep the message keys"
        raise Refusal("key", sentence)
    try:
        text = _text(opened_key(key).fields[ID])
        check_json(text.encode())
    except (KeyError, Refusal, *JSON_ERRORS):
        sentence = 'a message key of MongoDB is {"id": …} with a text of JSON'
        raise Refusal("key", sentence) from None
    check = check_for(kind)
    return text if check is None else check(text)


def _incomplete(fields: dict[str, Raw], op: str) -> str:
    if op == "u" and ("updateDescription" in fields or "patch" in fields):
        return (
            "an update without the document in `after` has only what changed: set the "
            "connector's capture.mode to change_streams_update_full"
        )
    return f"op {op!r} without a document in `after`"
