"""Writes rows of DMS's files, one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.dms.encoder import LOST, OPERATIONS
from waybill.envelopes.dms.files.decoder import _LETTERS, _json
from waybill.envelopes.dms.files.settings import OPERATION, DmsFilesWriteSettings
from waybill.envelopes.dms.values import (
    FILES,
    SEQUENCE_DIGITS,
    check_names,
    key_alone,
    style_of,
    time_text,
)
from waybill.envelopes.sequence.written import PackedSequence
from waybill.envelopes.snapshot_rows import in_order
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.generated import fill
from waybill.values.json_rows import RowWriter
from waybill.values.temporal import blank_from_iso

if TYPE_CHECKING:
    from waybill.records import Change, TableSchema


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
        count_kind(change, losses)
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
            old_row = change.before
            if old_row is not None and (
                before is None or key_alone(schema, old_row) is not old_row
            ):
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
        settings = self.settings
        check_names(schema, settings.before_prefix)
        for name in (OPERATION, settings.timestamp_column, settings.sequence_column):
            if name in schema.index:
                sentence = f"column {name!r} would be taken for the one that DMS adds"
                raise Refusal("encoding", sentence)
        names = {"schema-name": schema.database or "", "table-name": schema.table or ""}
        return RowWriter(schema, style_of(FILES, settings)), _json(names)

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
        settings, head = self.settings, {}
        if change.source_time is not None:
            if settings.timestamp_column:
                text = time_text(change.source_time)
                head[settings.timestamp_column] = blank_from_iso(text[:-1])
            else:
                losses.append("source_time")
        if change.sequence is not None and order is not None:
            head[settings.sequence_column] = order
        return head


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
