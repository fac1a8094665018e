"""Canal's messages as other engines write them: rows of typed JSON values, and few fields beside.

Sources of the rules: CanalJsonSerializationSchema.java of apache/flink (`data` and `type` alone, an
update as DELETE and INSERT), of apache/flink-cdc (with `database`, `table` and `pkNames`, and the
whole row in `old`) and of apache/seatunnel (`data` and `old` are rows and no lists of them);
Flink's RowDataToJsonConverters.java for the values. None writes `mysqlType`: types are those that
are declared, and for the rest what JSON says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from waybill.counting import counted
from waybill.envelopes.canal.tables import extra_json
from waybill.envelopes.canal.text_rows import ROWS, Millis
from waybill.envelopes.memory.remembering import Remembering
from waybill.envelopes.unnamed_tables import named_by
from waybill.errors import Refusal
from waybill.records import Change, refused, skipped
from waybill.values.generated import overlay
from waybill.values.json_columns import Style
from waybill.values.json_rows import Readers, Row, row_of
from waybill.values.notation import Notation
from waybill.values.temporal import faithful, iso_from_blank, utc_from_wall, zone_named
from waybill.values.values import JSON_ERRORS, check_json, json_refusal
from waybill.values.wall_clocks import WITH_BLANK

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from waybill.envelopes.canal.settings import CanalReadSettings
    from waybill.records import Message
    from waybill.tables import TableName, TableRules

_NULL = Raw(b"null")


class _Typed(msgspec.Struct, gc=False):
    """A message; what it says beside these fields (`sqlType`, `sql`) has no use here."""

    type: str
    data: Raw = _NULL
    old: Raw = _NULL
    database: str | None = None
    table: str | None = None
    pkNames: list[str] | None = None
    isDdl: bool | None = None
    es: Millis | None = None
    ts: int | None = None
    id: int | None = None
    gtid: str | None = None


_decode = msgspec.json.Decoder(_Typed).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class TypedRowsDecoder(Remembering):
    """Reads messages whose rows hold JSON values.

    Args:
        settings: those for reading Canal.
        rules: declared keys and column types.
    """

    def __init__(self, settings: CanalReadSettings, rules: TableRules) -> None:
        self.settings, self.rules = settings, rules
        zone = zone_named(settings.timezone)
        self.memory = self._readers = Readers(rules, _style(zone))

    def decode(self, message: Message) -> list[Change]:
        """See `Decoder.decode`."""
        value = message.value
        if value is None:
            return [skipped(message, "no value")]
        check_json(value)
        try:
            parsed = _decode(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        operation = ROWS.get(parsed.type)
        if operation is None or parsed.isDdl:
            sentence = (
                f"{parsed.type[:40]!r} is no change of a row, which `values: json` reads alone"
            )
            raise Refusal("operation", sentence)
        name = self._name_of(message, parsed)
        rows, old = _rows_of(parsed.data, "data"), _rows_of(parsed.old, "old")
        if not rows:
            raise Refusal("shape", f"{parsed.type} without rows")
        if operation != "update" and any(old):
            raise Refusal("shape", f"{parsed.type} with a row in old, which only updates have")
        if operation == "update" and old and len(old) != len(rows):
            raise Refusal("shape", f"{counted(len(rows), 'row')} in data but {len(old)} in old")
        changes = []
        for index, row in enumerate(rows):
            changed = old[index] if old else {}
            try:
                changes.append(self._change(message, parsed, name, (index, row, changed)))
            except Refusal as refusal:
                here = Refusal(refusal.kind, refusal.sentence, index)
                changes.append(refused(message, here))
        return changes

    def _name_of(self, message: Message, parsed: _Typed) -> TableName:
        """The table of a message: as it says, or where it names none as the setting says.

        Raises:
            Refusal: neither does.
        """
        if parsed.table:
            return parsed.database or None, None, parsed.table
        database, table = named_by(self.settings.table, message.topic, "a message with rows")
        return parsed.database or database, None, table

    def _change(
        self, message: Message, parsed: _Typed, name: TableName, found: tuple[int, Row, Row]
    ) -> Change:
        """One row of a message.

        Raises:
            Refusal: the row or a value of it is bad.
        """
        index, row, old = found
        if not row:
            raise Refusal("shape", "a row without columns")
        for column in old:
            if column not in row:
                sentence = f"column {column!r} is in old and not in data"
                raise Refusal("shape", f"{sentence}, so that its value after the update is open")
        key = None if parsed.pkNames is None else tuple(parsed.pkNames)
        reader = self._readers.find(name, (row, old), key)
        after, before = reader.image(row), None
        operation = ROWS[parsed.type]
        if operation == "update" and old:
            before = reader.image(old)
            overlay(len(reader.schema.columns), {})(before, after)
        elif operation == "delete":
            before, after = after, None
        self._readers.keep(reader.schema)
        return Change(
            operation,
            reader.schema,
            message,
            index=index,
            before=before,
            after=after,
            source_time=None if parsed.es is None else parsed.es * 1000,
            transaction=parsed.gtid or None,
            extra=extra_json(parsed.id, parsed.ts),
        )


def _rows_of(raw: Raw, what: str) -> list[Row]:
    """The rows of `data` or `old`: a list of them, one, or none.

    Raises:
        Refusal: kind `shape`, when it is neither.
    """
    text = bytes(raw)
    if text == b"null":
        return []
    if text[:1] == b"{":
        return [row_of(raw, what)]
    try:
        found = _decode_list(raw)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"{what} has the wrong shape: {error}") from None
    return [{} if bytes(row) == b"null" else row_of(row, f"a row of {what}") for row in found]


def _style(zone: ZoneInfo) -> Style:
    """Flink's notations of values, in both of its forms of times (SQL and ISO-8601)."""
    read = _instant_reader(zone)
    return Style(
        timestamp=WITH_BLANK,
        timestamptz=Notation("text", read, faithful(lambda text: text, read)),
    )


def _instant_reader(zone: ZoneInfo) -> Callable[[str], str]:
    """Reads TIMESTAMP_LTZ, which ends in Z, and wall clocks of a zone."""
    from_wall = utc_from_wall(zone)

    def read(text: str) -> str:
        return f"{iso_from_blank(text[:-1])}Z" if text[-1:] == "Z" else from_wall(text)

    return read
