"""DMS with S3 as its target: rows of its files, one JSON object a line.

Sources of the rules: AWS DMS user guide, "Using Amazon S3 as a target"; Qlik Replicate, Headers.
`Op` is I, U or D in files of changes and missing in those of a full load. A row names neither its
table nor its key: the folder does, and `tables` of the migration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from waybill.caches import Bounded
from waybill.envelopes.dms.files.rows import ROWS, FileTable, file_change, sequence_of
from waybill.envelopes.dms.files.settings import MAX_PARTS, OPERATION, DmsFilesReadSettings
from waybill.envelopes.dms.images import parted, refuse_before, refuse_disagreement
from waybill.envelopes.dms.values import FILES, contradicted, micros_of, style_of
from waybill.envelopes.memory.remembering import Remembering
from waybill.errors import Refusal
from waybill.records import Change, skipped
from waybill.values.json_rows import Readers, Row
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.records import Message
    from waybill.tables import TableName, TableRules

_json = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_NULL = Raw(b"null")
_decode_text = msgspec.json.Decoder(str | None).decode


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

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        if message.value is None:
            return [skipped(message, "no value")]
        return [self._slow(message, message.value)]

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
        settings = self.settings
        row = dict(top)
        kind = _text(row.pop(OPERATION, None), OPERATION)
        operation = "read" if not kind else ROWS.get(kind)
        if operation is None:
            raise Refusal("operation", f"DMS has no Op {(kind or '')[:40]!r}")
        time, order = (
            _text(row.pop(column, None), what) if column else None
            for column, what in (
                (settings.timestamp_column, "the time"),
                (settings.sequence_column, "the order"),
            )
        )
        place = micros_of(time, "the time"), sequence_of(order, settings.sequence_column)
        row, prefixed = parted(row, settings.before_prefix)
        old = self._old(kind, operation, prefixed)
        if not row:
            raise Refusal("shape", "a row without columns")
        name = self.table(message)
        reader = self._readers.find(name, (row, old), None)
        if operation == "delete":
            found = contradicted(reader.image(row), reader.image(old))
            columns = f"the columns with {settings.before_prefix}"
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
            self._files[name] = FileTable(
                reader, settings.timestamp_column, settings.sequence_column
            )
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
        return database or None, parts[1] if len(parts) == MAX_PARTS else None, parts[-1]


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


_LETTERS = {"insert": "I", "upsert": "I", "update": "U", "delete": "D"}
