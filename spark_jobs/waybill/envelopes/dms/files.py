"""DMS with S3 as its target: rows of its files, one JSON object a line.

Sources of the rules: AWS DMS user guide, "Using Amazon S3 as a target"; Qlik Replicate, Headers.
`Op` is I, U or D in files of changes and missing in those of a full load. A row names neither its
table nor its key: the folder does, and `tables` of the migration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Raw
from pydantic import Field, field_validator, model_validator

from waybill.caches import Bounded
from waybill.envelopes.dms.encoder import LOST, OPERATIONS
from waybill.envelopes.dms.file_rows import ROWS, FileTable, file_change, sequence_of
from waybill.envelopes.dms.images import parted, refuse_before, refuse_disagreement
from waybill.envelopes.dms.notation import (
    FILES,
    SEQUENCE_DIGITS,
    DmsFilesSettings,
    check_names,
    contradicted,
    key_alone,
    micros_of,
    style_of,
    time_text,
)
from waybill.envelopes.memory.remembering import Remembering
from waybill.envelopes.sequence.written import PackedSequence, PackedSettings
from waybill.envelopes.snapshot_rows import AS_INSERT, WITHOUT_PLACE, in_order
from waybill.errors import Refusal
from waybill.protocol import Encoded, Envelope
from waybill.records import Change, skipped
from waybill.sequence_layout import SequenceLayout
from waybill.values.generated import fill
from waybill.values.json_rows import Readers, Row, RowWriter
from waybill.values.temporal import blank_from_iso
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.bulk.readings import BulkReader
    from waybill.bulk.templates import BulkWriter
    from waybill.records import Message, TableSchema
    from waybill.tables import TableName, TableRules

OPERATION = "Op"
"""The column that tells what happened to a row."""
_MAX_PARTS = 3
"""Of the name of a table: database, schema and table."""
_json = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_NULL = Raw(b"null")
_decode_text = msgspec.json.Decoder(str | None).decode


class DmsFilesReadSettings(DmsFilesSettings):
    """What reading DMS's files needs to be told."""

    table: str = Field(
        default="",
        description="The table of the rows, database.table; empty: the last two parts of the "
        "topic's name.",
    )
    timestamp_column: str = Field(
        default="",
        description="Column with the time of the commit (TimestampColumnName of the endpoint), "
        "which is none of the table.",
    )
    sequence_column: str = Field(
        default="",
        description="Column with the order of the changes, made from the header AR_H_CHANGE_SEQ, "
        "which is none of the table.",
    )

    @property
    def has_ids(self) -> bool:
        """Whether rows have a column with their order."""
        return bool(self.sequence_column)

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        _apart(self.timestamp_column, self.sequence_column)
        return self

    @field_validator("table")
    @classmethod
    def _name(cls, name: str) -> str:
        parts = name.split(".")
        if name and (len(parts) > _MAX_PARTS or "" in parts):
            raise ValueError(f"{name!r} is not the name of a table: database.table")
        return name


def _apart(timestamp_column: str, sequence_column: str) -> None:
    """See that a column holds one thing only."""
    if OPERATION in (timestamp_column, sequence_column):
        raise ValueError(f"column {OPERATION!r} holds what happened to the row and nothing else")
    if timestamp_column and timestamp_column == sequence_column:
        message = f"timestamp_column and sequence_column both name {timestamp_column!r}"
        raise ValueError(f"{message}: a column holds one of the two, rename or empty the other")


class DmsFilesDecoder(Remembering):
    """Reads rows of DMS's files.

    Args:
        settings: the table and the columns that DMS added.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DmsFilesReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self.memory = self._readers = Readers(rules, style_of(FILES, settings), sparse=True)
        self._names: Bounded[tuple[str, bytes | None], TableName] = Bounded()
        self._files: Bounded[TableName, FileTable] = Bounded()

    def decode(self, message: Message) -> list[Change]:
        """The change of one row.

        Raises:
            Refusal: the row cannot be taken.
        """
        value = message.value
        if value is None:
            return [skipped(message, "no value")]
        file = self._files.get(self.table(message))
        if file is not None:
            try:
                change = file.read(message, value)
                if change is not None:
                    return [change]
            except (*JSON_ERRORS, Refusal):
                pass  # looked at more closely below
        return [self._slow(message, value)]

    def _slow(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            top = _decode_names(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        return self.row(message, top)

    def row(self, message: Message, top: dict[str, Raw]) -> Change:
        """The change of a row, given by its columns.

        Raises:
            Refusal: the row cannot be taken.
        """
        told = self.settings
        row = dict(top)
        kind = _text(row.pop(OPERATION, None), OPERATION)
        operation = "read" if not kind else ROWS.get(kind)
        if operation is None:
            raise Refusal("operation", f"DMS has no Op {(kind or '')[:40]!r}")
        time, order = (
            _text(row.pop(column, None), what) if column else None
            for column, what in (
                (told.timestamp_column, "the time"),
                (told.sequence_column, "the order"),
            )
        )
        place = micros_of(time, "the time"), sequence_of(order, told.sequence_column)
        row, prefixed = parted(row, told.before_prefix)
        old = self._old(kind, operation, prefixed)
        if not row:
            raise Refusal("shape", "a row without columns")
        name = self.table(message)
        reader = self._readers.find(name, (row, old), None)
        if operation == "delete":
            found = contradicted(reader.image(row), reader.image(old))
            columns = f"the columns with {told.before_prefix}"
            refuse_disagreement(reader, found, operation, "the row", columns)
            # Whatever is known about the row that is gone.
            row, old = {**row, **old}, {}
        change = file_change(message, reader.schema, operation, reader.image(row), place)
        if old:
            change.before = reader.image(old)
        self._readers.keep(reader.schema)
        if prefixed:
            return change
        file = self._files.get(name)
        if file is not None and file.reader is reader:
            return change
        repeats = reader.repeats()
        if repeats or file is not None:
            self.memory.add()
        if repeats:
            self._files[name] = FileTable(reader, told.timestamp_column, told.sequence_column)
        elif file is not None:
            del self._files[name]
        return change

    def _old(self, kind: str | None, operation: str, prefixed: Row) -> Row:
        """The row before, which the columns with the prefix tell; nulls alone tell none.

        Raises:
            Refusal: kind `shape`, when the operation has none.
        """
        if operation in ("update", "delete"):
            return prefixed if any(raw != _NULL for raw in prefixed.values()) else {}
        what = f"Op {kind}" if kind else "a row of a full load"
        refuse_before(prefixed, self.settings.before_prefix, what, "it")
        return {}

    def table(self, message: Message) -> TableName:
        """The table: as the settings, the message key or the topic say.

        Raises:
            Refusal: kind `shape`, when none of them names one.
        """
        found = self._names.get((message.topic, message.key))
        if found is None:
            found = self._names[message.topic, message.key] = self._named(message)
        return found

    def _named(self, message: Message) -> TableName:
        parts = self.settings.table.split(".")
        if not self.settings.table:
            key = table_key(message)
            parts = message.topic.split(".")[-2:]
            if key is not None:
                parts = [key.schema_name, key.table_name]
        if not parts[-1]:
            raise Refusal("shape", "neither message key nor topic names the row's table; set table")
        database = parts[0] if len(parts) > 1 else None
        return database or None, parts[1] if len(parts) == _MAX_PARTS else None, parts[-1]


class TableKey(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """The message key of a row that was written here."""

    schema_name: str
    table_name: str


_decode_key = msgspec.json.Decoder(TableKey | None).decode


def table_key(message: Message) -> TableKey | None:
    """The table that the key of a message names; None if it names none."""
    try:
        found: TableKey | None = _decode_key(message.key or b"null")
    except JSON_ERRORS:
        return None
    return found


def _text(raw: Raw | None, what: str) -> str | None:
    """A text or null; None where the column is missing.

    Raises:
        Refusal: kind `shape`, for any other value.
    """
    try:
        return None if raw is None else _decode_text(raw)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"{what} is no text: {error}") from None


class DmsFilesWriteSettings(DmsFilesSettings, PackedSettings):
    """What writing DMS's files needs to be told."""

    timestamp_column: str = Field(
        default="",
        description="Name of a column with the time of the change; empty: it is left out.",
    )
    sequence_column: str = Field(
        default="",
        description="Name of a column with the order of the changes, 35 digits as in "
        "AR_H_CHANGE_SEQ; empty: it is left out.",
    )

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        _apart(self.timestamp_column, self.sequence_column)
        return self


class DmsFilesEncoder:
    """Writes rows of DMS's files.

    Args:
        settings: the columns to add.
    """

    def __init__(self, settings: DmsFilesWriteSettings) -> None:
        self.settings = settings
        self.packed = PackedSequence(settings, 10**SEQUENCE_DIGITS - 1)
        self._tables: Bounded[TableSchema, tuple[RowWriter, bytes]] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The row of a change; see `Encoder.encode`. A change of the key becomes two rows.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in DMS.
        """
        if change.operation not in OPERATIONS:
            losses.append(LOST.get(change.operation, change.operation))
            return []
        change = self.packed.as_own_message(change, losses)
        order = self._order(change, losses)
        change = in_order(change, losses, order is not None)
        operation, schema = change.operation, change.schema
        rows, key = self.table(schema)
        image = change.before if operation == "delete" else change.after
        if image is None:
            raise Refusal("encoding", f"a {operation} without a row image")
        before, kind = None, _LETTERS.get(operation, "")
        if operation == "update":
            before = self._moved(change, rows)
            if before is not None:
                losses.append("key_change")
                kind, image = "I", _inserted(rows, image, before, losses)
            told = change.before
            if told is not None and (before is None or key_alone(schema, told) is not told):
                losses.append("before_image")
        self._count(change, rows, image, before, losses)
        head = self._head(change, order, losses)
        written = []
        if before is not None:
            written.append(Encoded(key, _row("D", head, rows.wire(before))))
        return [*written, Encoded(key, _row(kind, head, rows.wire(image)))]

    def table(self, schema: TableSchema) -> tuple[RowWriter, bytes]:
        """What writes the rows of a table, and their message key.

        Raises:
            Refusal: kind `encoding`, when one of its columns has a name that DMS takes.
        """
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = self._writer(schema)
        return table

    def _writer(self, schema: TableSchema) -> tuple[RowWriter, bytes]:
        told = self.settings
        check_names(schema, told.before_prefix)
        for name in (OPERATION, told.timestamp_column, told.sequence_column):
            if name in schema.index:
                sentence = f"column {name!r} would be taken for the one that DMS adds"
                raise Refusal("encoding", sentence)
        names = {"schema-name": schema.database or "", "table-name": schema.table or ""}
        return RowWriter(schema, style_of(FILES, told)), _json(names)

    def _moved(self, change: Change, rows: RowWriter) -> Any:
        """The row that an update of the key leaves, None if it left the key as it was."""
        if change.old_key_image() is None:
            return None
        return rows.moved(change, change.before)

    def _count(
        self, change: Change, rows: RowWriter, image: Any, before: Any, losses: list[str]
    ) -> None:
        if rows.types_lost(image, before):
            losses.append("types")
        if change.schema.key:
            losses.append("key_columns")
        if change.schema.schema is not None:
            losses.append("schema_name")
        if change.transaction is not None:
            losses.append("transactions")
        if change.operation == "delete" and key_alone(change.schema, image) is not image:
            losses.append("before_image")

    def _order(self, change: Change, losses: list[str]) -> str | None:
        """What the column with the order holds; None where the row has no such place."""
        if not self.settings.sequence_column or change.full_row:
            return None
        number = self.packed.of(change, losses)
        return None if number is None else f"{number:0{SEQUENCE_DIGITS}d}"

    def _head(self, change: Change, order: str | None, losses: list[str]) -> dict[str, str]:
        """The columns that DMS adds, besides Op."""
        told, head = self.settings, {}
        if change.source_time is not None:
            if told.timestamp_column:
                text = time_text(change.source_time)
                head[told.timestamp_column] = blank_from_iso(text[:-1])
            else:
                losses.append("source_time")
        if change.sequence is not None and order is not None:
            head[told.sequence_column] = order
        return head


_LETTERS = {"insert": "I", "upsert": "I", "update": "U", "delete": "D"}


def _inserted(rows: RowWriter, image: Any, before: Any, losses: list[str]) -> Any:
    """The row under its new key.

    Nothing ties it to the row that left, so it takes from that what the source did not send.
    """
    if not rows.gaps(image):
        return image
    losses.append("unchanged_columns")
    image = image.__copy__()
    fill(image, before)
    return image


def _row(kind: str, head: dict[str, str], row: Any) -> bytes:
    """A row with the columns that DMS adds in front."""
    first = _json({**({OPERATION: kind} if kind else {}), **head})
    columns = _json(row)
    if first == b"{}":
        return columns
    return first if columns == b"{}" else b"%b,%b" % (first[:-1], columns[1:])


def _bulk_reader(decoder: Any) -> BulkReader:
    from waybill.envelopes.dms.bulk_reading import DmsFilesReader

    return DmsFilesReader(decoder)


def _bulk_writer(encoder: Any) -> BulkWriter:
    from waybill.envelopes.dms.bulk_writing import DmsFilesWriter

    return DmsFilesWriter(encoder)


ENVELOPE = Envelope(
    name="dms-s3",
    title="AWS DMS, rows of files on S3 (JSON lines)",
    source="AWS DMS user guide, Using Amazon S3 as a target; Qlik Replicate, Headers",
    sequence="the 35 digits of a column made from AR_H_CHANGE_SEQ, where there is one; else the "
    "place in the files",
    carries=frozenset({"operations", "delete", "exact_numbers"}),
    brings=frozenset({"key_change"}),
    partly={
        "types": "dms-s3 tells numbers, texts and booleans apart and nothing more; declare the "
        "types under tables when it is read",
        "key_columns": "dms-s3 names no key columns; declare them under tables when it is read",
        "before_image": "dms-s3 holds the row before for deletes only, and with more than its key "
        "only if not all of it is null",
        "unchanged_columns": "dms-s3 has a change of the key as a delete and an insert; a column "
        "that the source left out of it is taken from the row before, and lost if that does not "
        "tell it",
        "full_rows": AS_INSERT,
        "source_time": "dms-s3 has a time only in a column that timestamp_column names",
        "sequence_id": "dms-s3 has a sequence only in a column that sequence_column names, and of "
        f"35 digits at most; {WITHOUT_PLACE}",
    },
    layouts=(SequenceLayout(("sequence column",), (), 10**SEQUENCE_DIGITS),),
    not_written={
        "BI_*": "columns with the row before are read, and not written",
        "AR_H_*": "header columns are columns of the table, but for those that timestamp_column "
        "and sequence_column name",
    },
    decoder=DmsFilesDecoder,
    encoder=DmsFilesEncoder,
    bulk_reader=_bulk_reader,
    bulk_writer=_bulk_writer,
    decode_settings=DmsFilesReadSettings,
    encode_settings=DmsFilesWriteSettings,
    key_by="the table as a JSON object of schema-name and table-name, because a row names none",
)
