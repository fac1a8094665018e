"""DMS with Kafka (or Kinesis) as its target: a row or a control record, and its metadata.

Sources of the rules: AWS DMS user guide, "Using Apache Kafka as a target", recorded messages in
crate/commons-codec, DMSRecordParser of apache/paimon. Rows name no key columns: they have to be
declared. A row of DMS's S3 files, which has `Op` and no metadata, is read here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.dms.files.decoder import DmsFilesDecoder
from waybill.envelopes.dms.files.settings import DmsFilesReadSettings
from waybill.envelopes.dms.images import check_agreement, images_of
from waybill.envelopes.dms.settings import MEMBERS, DmsFilesSettings, DmsReadSettings
from waybill.envelopes.dms.values import (
    KAFKA,
    OWN,
    RECORD,
    contradicted,
    key_alone,
    micros_of,
    order_of,
    style_of,
)
from waybill.envelopes.memory.remembering import FastRemembering
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, intern_schema, skipped
from waybill.values.generated import overlay
from waybill.values.json_rows import Readers, RowReader, row_of
from waybill.values.known_columns import News
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import picked
from waybill.values.values import JSON_ERRORS, check_json, in_one_line, json_refusal

if TYPE_CHECKING:
    from waybill.records import Message, TableSchema
    from waybill.tables import TableRules

ROWS = {"load": "read", "insert": "insert", "update": "update", "delete": "delete"}
"""`operation` of records that carry a row."""

_TEXT = str | None | UnsetType
_NUMBER = int | None | UnsetType
_CARRIED: dict[str, Any] = {
    "timestamp": _TEXT,
    "partition-key-type": _TEXT,
    "partition-key-value": _TEXT,
    "transaction-id": _NUMBER,
    "transaction-record-id": _NUMBER,
    "prev-transaction-id": _NUMBER,
    "prev-transaction-record-id": _NUMBER,
    "commit-timestamp": _TEXT,
    "stream-position": _TEXT,
}
"""Fields of the metadata that a DMS target carries on as they are."""


def _field(name: str) -> str:
    return name.replace("-", "_")


_NAMES = {_field(name): name for name in _CARRIED}
_Carried = msgspec.defstruct(
    "Carried", [(field, Any, UNSET) for field in _NAMES], rename=_NAMES, gc=False
)
_carried_of = picked(_Carried, _NAMES)
_OPTIONAL = [(_field(name), kind, UNSET) for name, kind in _CARRIED.items()]
_Metadata: type[Any] = msgspec.defstruct(
    "Metadata",
    [
        ("operation", str),
        ("record_type", _TEXT, UNSET),
        ("schema_name", _TEXT, UNSET),
        ("table_name", _TEXT, UNSET),
        *_OPTIONAL,
    ],
    rename="kebab",
    gc=False,
)
_TAKEN = {"operation", "record-type", "schema-name", "table-name", *_CARRIED}
_NULL = Raw(b"null")
_json = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode


class DmsDecoder(FastRemembering["_TableDecoder"]):
    """Reads DMS's records.

    Args:
        settings: notations of bytes and of rows before an update.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DmsReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self.memory = self._readers = Readers(rules, style_of(KAFKA, settings), sparse=True)
        super().__init__()
        fields = {name: getattr(settings, name) for name in DmsFilesSettings.model_fields}
        self._files = DmsFilesDecoder(DmsFilesReadSettings(**fields), rules)

    def _hint(self, value: bytes) -> tuple[bytes, bytes]:
        """Schema and table, as they stand in a record."""
        names = []
        for name in (b'"schema-name":"', b'"table-name":"'):
            at = value.rfind(name) + len(name)
            names.append(value[at : value.find(b'"', at)])
        return names[0], names[1]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        return [self._single(message, value)]

    def _single(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            top = _decode_names(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if "Op" in top and bytes(top.get("metadata", _NULL))[:1] != b"{":
            return self._of_file(message, top)
        if "metadata" not in top:
            sentence = "a record without metadata, and without Op, which a row of a file has"
            raise Refusal("shape", f"{sentence}; rows of a full load are read by dms-s3")
        try:
            parsed = _decode_metadata(top["metadata"])
            stated = _decode_names(top["metadata"])
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if parsed.table_name and parsed.table_name.startswith(OWN):
            return skipped(message, "DMS's own table")
        mine = MEMBERS | {self.settings.before_field}
        others = _Others(
            {name: stated[name] for name in stated if name not in _TAKEN},
            {name: top[name] for name in top if name not in mine},
        )
        if parsed.record_type == "control":
            return self._control(message, parsed, top, others)
        if parsed.record_type != "data":
            kind = bytes(stated.get("record-type", b"absent"))[:40].decode(errors="replace")
            raise Refusal("shape", f"record-type is {kind} and neither data nor control")
        return self._row(message, parsed, top, _operation(parsed, top), others)

    def _of_file(self, message: Message, top: dict[str, Raw]) -> Change:
        """A row of a file, of which nothing is remembered for records."""
        if self.memory.held:
            raise News(apart=True)
        return self._files.row(message, top)

    def _control(
        self, message: Message, parsed: Any, top: dict[str, Raw], others: _Others
    ) -> Change:
        """A control record, e.g. the definition of a table; it holds no statement."""
        if parsed.operation in ROWS:
            sentence = f"a control record with operation {parsed.operation!r}"
            raise Refusal("operation", f"{sentence}, which is one of rows")
        for image in ("data", self.settings.before_field):
            # It would be read by nobody.
            if top.get(image, _NULL) != _NULL and row_of(top[image], image):
                sentence = f"control record {parsed.operation[:40]!r} with a row in {image}"
                raise Refusal("shape", f"{sentence}, which it cannot have")
        schema = NO_TABLE
        if parsed.schema_name or parsed.table_name:
            schema = intern_schema(parsed.schema_name or None, None, parsed.table_name or None)
        control = {"operation": parsed.operation, "control": top.get("control", _NULL)}
        extra = _extra(parsed, others._replace(metadata={**others.metadata, **control}))
        return _change(message, schema, parsed, ("other", None, None, extra))

    def _row(
        self,
        message: Message,
        parsed: Any,
        top: dict[str, Raw],
        operation: str,
        others: _Others,
    ) -> Change:
        images = images_of(parsed.operation, top, self.settings)
        data, old = images.data, {**images.old, **images.prefixed}
        name = (parsed.schema_name or None, None, parsed.table_name)
        missing = self.settings.missing
        declared: tuple[str, ...] = ()
        if missing == "null":
            declared = self._readers.all_declared(name, (data, old), "missing: null")
        elif missing == "refuse":
            declared = (*self._readers.rules.find(*name).columns, *old)
        # Both forms of the row before, for they may disagree.
        rows = (data, images.old, images.prefixed)
        reader = self._readers.find(name, rows, None, more=declared)
        check_agreement(reader, images, operation, self.settings)
        whole = False
        if operation == "delete":
            # Whatever is known about the row that is gone.
            data, old, whole = {**data, **old}, {}, bool(old)
        after = reader.image(data)
        if operation != "delete" and missing == "null":
            reader.with_nulls(after)
        elif operation != "delete" and (lacking := [n for n in declared if n not in data]):
            sentence = f"column {lacking[0]!r} is not in data: without IncludeNullAndEmpty DMS "
            sentence += "leaves nulls and empty texts out; set missing to null or unchanged"
            raise Refusal("shape", sentence)
        before_image = reader.image(old) if old else None
        row = (operation, before_image, after, _extra(parsed, others))
        change = _change(message, reader.schema, parsed, row, whole)
        self._readers.keep(reader.schema)
        if not others.metadata and not others.record:
            self._learn(parsed, reader)
        return change

    def _learn(self, parsed: Any, reader: RowReader) -> None:
        """Use the known-table way for next records of this table, once a second one is like it."""
        prefix = self.settings.before_prefix
        if prefix and any(name.startswith(prefix) for name in reader.schema.names):
            # Declared so; in data such a column is one of the row before.
            return
        schema = None if parsed.schema_name is UNSET else parsed.schema_name
        hint = _hint_of(schema, parsed.table_name)
        known = self._tables.get(hint)
        if known is not None and known.reader is reader and known.schema_name == schema:
            return
        if reader.repeats():
            self._remember(hint, _TableDecoder(schema, parsed.table_name, reader, self.settings))
        else:
            self._forget(hint)


def _operation(parsed: Any, top: dict[str, Raw]) -> str:
    """What happened to the row of a record.

    Raises:
        Refusal: the record is none of a row.
    """
    operation = ROWS.get(parsed.operation)
    if operation is None:
        raise Refusal("operation", f"DMS has no operation {parsed.operation[:40]!r} of rows")
    if "data" not in top:
        raise Refusal("shape", f"operation {parsed.operation} without a row in data")
    if not parsed.table_name:
        raise Refusal("shape", "a record with a row names no table in table-name")
    if top.get("control", _NULL) != _NULL:
        sentence = f"operation {parsed.operation} of a row with something in control"
        raise Refusal("shape", f"{sentence}, which only control records have")
    return operation


class _Others(NamedTuple):
    """Fields that are not known, of the metadata and of the record."""

    metadata: dict[str, Raw]
    record: dict[str, Raw]


def _hint_of(schema_name: str | None, table: str) -> tuple[bytes, bytes]:
    return _json(schema_name or "")[1:-1], _json(table)[1:-1]


class _TableDecoder:
    """The known-table way: records whose fields and columns are all known."""

    def __init__(
        self,
        schema_name: str | None,
        table: str,
        reader: RowReader,
        settings: DmsReadSettings,
    ) -> None:
        self.schema_name = schema_name
        self.missing = settings.missing
        self.reader, self.schema = reader, reader.schema
        self.overlay = overlay(len(reader.schema.columns), {})
        row: Any = reader.wire
        carried = dict(_CARRIED)
        metadata = {
            "timestamp": carried.pop("timestamp"),
            "record-type": Literal["data"],
            "operation": Literal[tuple(ROWS)],
            "partition-key-type": carried.pop("partition-key-type"),
            "partition-key-value": carried.pop("partition-key-value"),
            "schema-name": None if schema_name is None else Literal[schema_name],
            "table-name": Literal[table],
            **carried,
        }
        before = settings.before_field
        members = {"data": row, before: row | UnsetType | None, "metadata": strict(metadata)}
        self.decode = KnownMessage(strict(members, attributes={before: "before"}))

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a record of this table; None if it has to be read exactly."""
        parsed = self.decode(value)
        if parsed is None:
            return None
        metadata, reader = parsed.metadata, self.reader
        operation = ROWS[metadata.operation]
        before, whole = None, False
        if parsed.before is UNSET or parsed.before is None:
            after = reader.read(parsed.data)
        else:
            before, after = reader.reads(parsed.before, parsed.data)
            if before == reader.empty:
                before = None
            elif operation == "delete":
                if contradicted(after, before) >= 0:
                    return None
                # Whatever is known about the row that is gone.
                self.overlay(before, after)
                before, after, whole = None, before, True
            elif operation != "update":
                return None
        if after == reader.empty:
            return None
        if self.missing != "unchanged" and operation != "delete" and reader.gaps(after):
            if self.missing == "refuse":
                return None
            reader.with_nulls(after)
        row = (operation, before, after, _extra(metadata))
        return [_change(message, reader.schema, metadata, row, whole)]


def _extra(parsed: Any, others: _Others | None = None) -> bytes:
    """What only a DMS target can carry on."""
    carried = _json(_carried_of(parsed))
    if others is None:
        return b'{"dms":%b}' % carried
    if others.metadata:
        more = _json(others.metadata)
        carried = more if carried == b"{}" else b"%b,%b" % (carried[:-1], more[1:])
    record = b"%b%b" % (RECORD, _json(others.record)) if others.record else b""
    return in_one_line(b'{"dms":%b%b}' % (carried, record))


def _change(
    message: Message,
    schema: TableSchema,
    parsed: Any,
    row: tuple[str, Any, Any, bytes],
    whole: bool = False,
) -> Change:
    """The change of a record.

    Args:
        message: where it came from.
        schema: the table.
        parsed: the metadata.
        row: operation, image before, image in `data`, and what is carried on.
        whole: whether a delete stated the row before apart, so that its nulls are nulls.
    """
    operation, before, after, extra = row
    if operation == "delete":
        before, after = after if whole else key_alone(schema, after), None
    transaction, place = (
        None if number is UNSET else number
        for number in (parsed.transaction_id, parsed.transaction_record_id)
    )
    for number, field in ((transaction, "transaction-id"), (place, "transaction-record-id")):
        if number is not None and number < 0:
            raise Refusal("shape", f"{field} is {number}, which is below zero")
    sequence = order_of(parsed.stream_position or None, transaction, place)
    time = micros_of(parsed.commit_timestamp or None, "commit-timestamp")
    if time is None:
        time = micros_of(parsed.timestamp or None, "timestamp")
    return Change(
        operation,
        schema,
        message,
        before=before,
        after=after,
        sequence=sequence,
        full_row=operation == "read" and sequence is None,
        source_time=time,
        transaction=None if transaction is None else str(transaction),
        extra=extra,
    )
