"""DataHub TUPLE topics with the metadata columns of DataWorks: the declaration, and writing.

Reading is in `decoder`. The rules are those of "DataHub message formats", section Tuple data
format: a record for each image, with I, U or D and two flags; both images of an update share the
sequence id. Values are the texts that the service has for the ten types, in both notations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.datahub.blob.operations import FULL_ROW_ID
from waybill.envelopes.datahub.blob.written import key_writer, row_before, same_key
from waybill.envelopes.datahub.tuple.decoder import ABSENT
from waybill.envelopes.datahub.tuple.topics import (
    AFTER,
    BEFORE,
    METADATA,
    OPERATION,
    SEQUENCE,
    TABLE,
    TIMES,
    Topics,
)
from waybill.envelopes.datahub.tuple.values import (
    LOGICAL,
    USED_BY_STEPS,
    step_of,
    type_for,
    writer,
)
from waybill.envelopes.sequence.written import (
    DATAWORKS_DIGITS,
    WrittenSequence,
)
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.types import LAST_MICRO, STRING
from waybill.values.declared import shown
from waybill.values.generated import fill, function, gaps, nulls
from waybill.values.instants import Zone
from waybill.values.row_functions import Step, statements

if TYPE_CHECKING:
    from waybill.envelopes.datahub.tuple.settings import TupleWriteSettings
    from waybill.envelopes.datahub.tuple.topics import Field as TopicField
    from waybill.records import Change, TableSchema

_OPERATIONS = {"insert": "I", "read": "I", "upsert": "I", "update": "U", "delete": "D"}
_LOST = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_BEFORE_FLAGS, _AFTER_FLAGS = ("Y", "N"), ("N", "Y")

_json = msgspec.json.Encoder().encode
_into = msgspec.json.Encoder().encode_into


class _Extra(msgspec.Struct, gc=False):
    """What a record carried beside its row."""

    attributes: dict[str, str] = {}


class _Family(msgspec.Struct, gc=False):
    datahub: _Extra


_EXTRA_HEAD = b'{"datahub":{'
_extra = msgspec.json.Decoder(_Family).decode


class TupleEncoder:
    """Writes records of TUPLE topics.

    Args:
        settings: notation, topics' schemas, spellings.
    """

    def __init__(self, settings: TupleWriteSettings) -> None:
        self.settings = settings
        self.topics = Topics(settings.schemas)
        self.ids = WrittenSequence(settings, DATAWORKS_DIGITS)
        self._tables: Bounded[TableSchema, WrittenTable] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The records of one change, two for an update; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when the topic cannot hold the row.
        """
        count_kind(change, losses)
        change = self.ids.packed.as_own_message(change, losses, counts_gaps=True)
        operation = _OPERATIONS.get(change.operation)
        if operation is None:
            losses.append(_LOST.get(change.operation, change.operation))
            return []
        schema = change.schema
        table = self.table(schema)
        before, after = row_before(change), change.after
        inserts = operation == "I" and (before is None or change.operation == "read")
        full_row = inserts and change.full_row
        number = FULL_ROW_ID if full_row else str(self.ids.of(change, losses))
        time = table.time(change, losses)
        _count(change, table, full_row, losses)
        attributes = _attributes(change)
        if operation == "D" or after is None:
            if before is None:
                raise Refusal("encoding", f"there is no row to write for this {change.operation}")
            record = table.record(operation, number, time, _BEFORE_FLAGS, before, attributes)
            return [Encoded(table.key(before), record)]
        after = table.completed(after, before)
        if inserts or before is None:
            operation = "I" if inserts else "U"
            record = table.record(operation, number, time, _AFTER_FLAGS, after, attributes)
            return [Encoded(table.key(after), record)]
        old_key = None
        if change.moved_from is not None or not table.same_key(before, after):
            old_key = change.old_key_image()
        key = table.key(after)
        old = table.record("U", number, time, _BEFORE_FLAGS, before, attributes)
        new = table.record("U", number, time, _AFTER_FLAGS, after, attributes)
        return [Encoded(key if old_key is None else _json(old_key), old), Encoded(key, new)]

    def table(self, schema: TableSchema) -> WrittenTable:
        """What writes the records of a table.

        Raises:
            Refusal: kind `encoding`, when its columns are not those of the topic.
        """
        table = self._tables.get(schema)
        if table is None:
            fields = self.topics.find(schema.qualified_name, schema.table)
            if fields is None and self.settings.schemas and self.settings.shape == "record":
                sentence = f"`schemas` has no topic for table {shown(schema.qualified_name)}"
                raise Refusal("encoding", f"{sentence}, so the order of its columns is not known")
            table = self._tables[schema] = WrittenTable(schema, self.settings, fields)
        return table


class WrittenTable:
    """What a table, and the schema of its topic if there is one, decide for writing its rows."""

    def __init__(
        self,
        schema: TableSchema,
        settings: TupleWriteSettings,
        fields: tuple[TopicField, ...] | None,
    ) -> None:
        self.schema = schema
        self.place = _place(schema, settings)
        self.bare = settings.source_table == "name"
        self.in_order = settings.shape == "record"
        self.timeless = False
        self.key = key_writer(schema) if schema.key else _no_key
        self.same_key = same_key(schema)
        self.gaps = gaps(len(schema.columns))
        self.nulls = nulls(len(schema.columns))
        names = [field.name for field in fields or ()]
        kinds = {field.name: field.type for field in fields or ()}
        if fields is None:
            names = [SEQUENCE, OPERATION, settings.execute_time, TABLE, BEFORE, AFTER]
            names += schema.names
            kinds = {column.name: _kind(column, schema) for column in schema.columns}
        else:
            # An object has its metadata columns whatever the topic's schema says.
            time = next((name for name in names if name in TIMES), str(settings.execute_time))
            head_names = (SEQUENCE, OPERATION, time, TABLE, BEFORE, AFTER)
            missing = [name for name in head_names if name not in names]
            if self.in_order:
                _check_metadata(missing, time)
                self.timeless = time in missing
            else:
                names = [*missing, *names]
        for name in schema.names:
            if name in METADATA:
                raise Refusal("encoding", f"column {shown(name)} would be taken for metadata")
            if name not in kinds:
                raise Refusal("encoding", f"column {shown(name)} is not in the topic's schema")
        # Fields that the table is not known to have: none of its rows tells them.
        strange = [name for name in names if name not in METADATA and name not in schema.index]
        self.strange = strange if self.in_order else []
        self.micros = any(kinds.get(name) == "TIMESTAMP" for name in TIMES)
        natural = [LOGICAL[kinds[c.name]] == c.type for c in schema.columns]
        if fields is None:
            # Nothing in a record tells the types: a reader finds texts.
            natural = [c.type == STRING for c in schema.columns] if not self.in_order else [False]
        self.lossy = not all(natural)
        self.typed = fields is not None
        # Encoding into the same buffer again spares much of the time.
        self.buffer = bytearray()
        self.names, self.kinds = names, kinds
        self._write = self._writer(names, kinds, Zone(settings.timezone))

    def _writer(self, names: list[str], kinds: dict[str, str], zone: Zone) -> Any:
        """A function from the parts of a record to what its JSON is made of."""
        local = {
            SEQUENCE: "number",
            OPERATION: "operation",
            **dict.fromkeys(TIMES, "time"),
            TABLE: "place",
            BEFORE: "before",
            AFTER: "after",
        }
        parts = []
        steps: dict[int, Step] = {}
        for name in names:
            if name in local:
                parts.append(local[name])
                continue
            i = self.schema.index.get(name)
            if i is None:
                parts.append("None" if self.in_order else "UNSET")
                continue
            column = self.schema.columns[i]
            write = writer(column, kinds[name], zone)
            steps[i] = step_of(write, kinds[name], column.type, "{v}.__class__ is str")
            parts.append(f"v{i}")
        written, called = statements(steps, "v")
        lines = [*(f"v{i} = image.f{i}" for i in steps), *written]
        if self.in_order:
            lines += [f"if v{i} is UNSET: v{i} = None" for i in steps]
        scope: dict[str, Any] = {"place": self.place, **USED_BY_STEPS, **called}
        made = f"[{', '.join(parts)}]"
        if not self.in_order:
            scope["Wire"] = msgspec.defstruct(
                "Wire",
                [(f"m{i}", Any, UNSET) for i in range(len(names))],
                rename={f"m{i}": name for i, name in enumerate(names)},
                gc=False,
            )
            made = f"Wire({', '.join(parts)})"
        header = "write(operation, number, time, before, after, image)"
        return function(header, [*lines, f"return {made}"], scope)

    def record(
        self,
        operation: str,
        number: str,
        time: str | None,
        flags: tuple[str, str],
        image: Any,
        attributes: dict[str, str],
    ) -> bytes:
        """One record.

        Raises:
            Refusal: kind `encoding`, when a type does not hold a value.
        """
        made = self._write(operation, number, time, *flags, image)
        if self.in_order:
            if self.strange or self.gaps(image):
                absent = [
                    name
                    for i, name in enumerate(self.schema.names)
                    if getattr(image, f"f{i}") is UNSET
                ]
                absent += self.strange
                attributes = {**attributes, ABSENT: _json(absent).decode()}
            made = {"Data": made, "Attributes": attributes}
        _into(made, self.buffer)
        return bytes(self.buffer)

    def completed(self, after: Any, before: Any) -> Any:
        """A row for a topic whose records hold all columns.

        A consumer takes a null there for a value, so a column that was not sent is taken from the
        row before, which it did not change.

        Raises:
            Refusal: kind `encoding`, when the row before does not tell it.
        """
        if not self.in_order or not self.gaps(after):
            return after
        row = after.__copy__()
        if before is not None:
            fill(row, before)
        if self.gaps(row):
            at = next(i for i in range(len(self.schema.names)) if getattr(row, f"f{i}") is UNSET)
            sentence = f"column {shown(self.schema.names[at])} was not sent, and Data holds every"
            raise Refusal("encoding", f"{sentence} column; write it with shape: object")
        return row

    def time(self, change: Change, losses: list[str]) -> str | None:
        """The time of the change in the source, None where it is not stated."""
        time = change.source_time
        if time is None:
            return None
        if self.timeless or time < 0 or time > LAST_MICRO:
            losses.append("source_time")
            return None
        if self.micros:
            return str(time)
        ms, rest = divmod(time, 1000)
        if rest:
            losses.append("source_time")
        return str(ms)


def _check_metadata(missing: list[str], time: str) -> None:
    """Refuse a topic whose records could not tell what happened to a row; a time is counted."""
    needed = [name for name in missing if name != time]
    if needed:
        sentence = f"the topic's schema has no field {needed[0]}"
        raise Refusal("encoding", f"{sentence}, so no record can hold it; write with shape: object")


def _no_key(_image: Any) -> None:
    """Records without primary key are spread over the shards as they come."""


def _kind(column: Any, schema: TableSchema) -> str:
    """The DataHub type of a column without a schema of the topic; one that it came with stays."""
    if schema.dialect == "datahub" and column.source_type in LOGICAL:
        return str(column.source_type)
    return type_for(column.type)


def _place(schema: TableSchema, settings: TupleWriteSettings) -> str | None:
    """What `_source_table_` says.

    Raises:
        Refusal: a name holds a dot, so that it could not be distinguished from two.
    """
    if settings.source_table == "name":
        return schema.table
    if schema.schema is not None:
        parts = [schema.database or "", schema.schema, schema.table or ""]
    else:
        parts = [schema.database, schema.table] if schema.database else [schema.table]  # type: ignore[list-item]
    if any("." in (part or "") for part in parts):
        sentence = f"a name of {shown(schema.qualified_name)} holds a dot"
        raise Refusal("encoding", f"{sentence}: set source_table: name")
    return ".".join(part or "" for part in parts)


def _attributes(change: Change) -> dict[str, str]:
    given = change.extra
    if given is None or not given.startswith(_EXTRA_HEAD):
        return {}
    return _extra(given).datahub.attributes


def _count(change: Change, table: WrittenTable, full_row: bool, losses: list[str]) -> None:
    """The losses that do not depend on how the row is written."""
    schema = change.schema
    images = [image for image in (change.before, change.after) if image is not None]
    if table.lossy or (not table.typed and any(table.nulls(image) for image in images)):
        losses.append("types")
    if schema.key:
        losses.append("key_columns")
    left_out = change.after is not None and table.gaps(change.after)
    if left_out or (table.strange and change.operation == "update"):
        losses.append("unchanged_columns")
    if table.bare and (schema.database or schema.schema):
        losses.append("schema_name")
    if change.transaction is not None:
        losses.append("transactions")
    if change.operation == "read" and not full_row:
        losses.append("full_rows")
    if full_row and change.sequence is not None:
        losses.append("sequence_id")
