"""Chooses or makes the plan for the rows of a table, from a schema or from the rows themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.debezium.connect import DECIMAL, Field, sql_type
from waybill.envelopes.debezium.row_readers import KeyShape, RowPlan, fault_of, fields_of
from waybill.envelopes.debezium.schema_envelope import is_no_key, key_shape, opened_key
from waybill.envelopes.debezium.values.reading import Readings
from waybill.envelopes.debezium.values.texts import SPECIAL, object_kind
from waybill.errors import Refusal

if TYPE_CHECKING:
    from msgspec import Raw

    from waybill.envelopes.debezium.settings import DebeziumReadSettings
    from waybill.envelopes.debezium.source import Source
    from waybill.envelopes.debezium.values.readings import ColumnReading
    from waybill.envelopes.debezium.values.texts import Placeholders
    from waybill.records import Message
    from waybill.tables import TableRule, TableRules
    from waybill.types import LogicalType

Identity = tuple[str | None, str | None, str | None]

_ROUTED = "__dbz__physicalTableIdentifier"
"""What Debezium's topic routing adds to message keys; no column of the table."""

NO_ROW = "a delete has neither a row in `before` nor a message key"
KEY_UNKNOWN = (
    "of a deleted row of PostgreSQL only the key can be trusted, and neither a message key nor the "
    "row shows whether the table has one: keep the message keys, declare the key under `tables` "
    "(`key: []` for a table without one), or set `replica_identity: full` if the rows before are "
    "whole"
)

_NOTHING = ("none", "absent", "hollow")
_NUMBERS = frozenset({"int", "real"})


class _Rows(NamedTuple):
    """The row types of an inline schema."""

    after: tuple[Field, ...]
    before: tuple[Field, ...]


class _Kind(NamedTuple):
    """What the JSON values of a column have been so far."""

    kind: str = "none"
    loose: bool = False


class Plans:
    """Every plan made so far, and what is known of columns without a schema.

    Args:
        settings: how the connector was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DebeziumReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self._plans: Bounded[tuple[Any, ...], RowPlan] = Bounded()
        self._schemas: Bounded[bytes, _Rows] = Bounded()
        self._readings: dict[str, Readings] = {}
        self._numbers: Bounded[bytes, frozenset[str]] = Bounded()
        self._kinds: Bounded[Identity, dict[str, _Kind]] = Bounded()
        self._last_kinds: tuple[Identity, dict[str, _Kind]] | None = None
        self._keys: Bounded[tuple[bytes, str], dict[str, ColumnReading]] = Bounded()

    def plan(
        self,
        schema: bytes | None,
        source: Source,
        rows: tuple[Raw, Raw],
        key: bytes | None,
        known: RowPlan | None,
        keys: tuple[dict[str, Raw], ...] = (),
    ) -> RowPlan:
        """The plan for a message.

        Args:
            schema: its inline schema.
            source: the table and the connector.
            rows: after image and before image, null where there is none.
            key: the message key.
            known: the plan of the table so far, whose columns serve a delete that shows no row.
            keys: the key under which the row was before or is now, from the message's headers.

        Raises:
            Refusal: the schema, a column or the key cannot be understood.
        """
        identity = (source.db, source.schema, source.table)
        shape = key_shape(key)
        readings = self._readings_of(source.connector)
        self._last_kinds = None
        if schema is None:
            images = [_fields(row) for row in rows]
            shown, gone = any(images), bytes(rows[0]) == b"null"
            if not shown and (gone or key is not None):
                if key is None:
                    raise Refusal("key", NO_ROW)
                images = [{}, opened_key(key).fields]
            names = tuple(dict.fromkeys(name for image in images for name in image))
            if known is not None and gone and known.has(names if shown else ()):
                # A delete that shows a part of the row says nothing about the other columns, and
                # one that shows none brings no columns: its key names some, or is no key.
                names = tuple(known.columns)
            self.rules.admit(len(names), *identity)
            columns = self._seen(identity, names, [*images, *keys], readings)
            required = frozenset(images[0] or names)
            known_by: Any = tuple((name, kind) for name, kind in columns.items())
        else:
            known_by, columns, required = schema, {}, frozenset()
        numbers = frozenset[str]() if schema is None else self._decimals_as_numbers(schema, rows)
        cached = (known_by, required, identity, source.connector, shape, numbers)
        plan = self._plans.get(cached)
        if plan is None:
            rule = self.rules.find(*identity)
            if schema is None:
                plan = self._from_kinds(identity, columns, required, readings, rule, shape, source)
            else:
                plan = self._from_schema(schema, identity, readings, rule, shape, source, numbers)
            self._plans[cached] = plan
        self._last_kinds = identity, columns
        return plan

    def remember(self) -> None:
        """Keep what the last message showed of its columns; only one that is taken counts."""
        if self._last_kinds is not None:
            identity, columns = self._last_kinds
            certain = {name: kind for name, kind in columns.items() if kind.kind != "mixed"}
            if certain:
                kinds = self._kinds.setdefault(identity, {})
                kinds.update(certain)
                if len(kinds) > self.rules.max_columns:
                    # A table whose messages have ever new columns is known by the last one.
                    self._kinds[identity] = certain

    def key_of(self, plan: RowPlan, key: bytes) -> Any:
        """The key image that a message key tells, or a header that holds one.

        Args:
            plan: the plan of its table.
            key: the bytes.

        Raises:
            Refusal: it is no key of the table, or does not fit the schema that it brings.
        """
        opened = opened_key(key)
        if opened.schema is not None:
            columns = self._key_columns(opened.schema, plan.connector)
            for name, raw in opened.fields.items():
                reading = columns.get(name)
                if reading is None:
                    raise Refusal("shape", f"the schema of the key has no column {name!r}")
                found = fault_of(reading, raw)
                if found is not None:
                    raise Refusal("value", f"column {name!r} of the key: {found}")
        return plan.key_of(opened.fields)

    def _key_columns(self, schema: bytes, connector: str | None) -> dict[str, ColumnReading]:
        """The columns of the inline schema of a key."""
        found = self._keys.get((schema, connector or ""))
        if found is None:
            readings = self._readings_of(connector)
            try:
                fields = [Field.read(raw) for raw in Field.read(schema).fields]
                found = {f.field or "": readings.of_field(f, None, numbers=True) for f in fields}
            except (ValueError, KeyError, RecursionError) as error:
                sentence = f"the inline schema of the key cannot be read: {error}"
                raise Refusal("schema", sentence) from None
            self._keys[schema, connector or ""] = found
        return found

    def _readings_of(self, connector: str | None) -> Readings:
        readings = self._readings.get(connector or "")
        if readings is None:
            readings = Readings(self.settings, connector or "")
            self._readings[connector or ""] = readings
        return readings

    # With a schema

    def _types_of(self, schema: bytes) -> _Rows:
        rows = self._schemas.get(schema)
        if rows is None:
            rows = self._schemas[schema] = _row_types(schema)
        return rows

    def _decimals_as_numbers(self, schema: bytes, rows: tuple[Raw, Raw]) -> frozenset[str]:
        """Columns of Connect's Decimal that messages of this schema have shown as JSON numbers.

        Kafka Connect's JSON converter writes them so with `decimal.format=NUMERIC`; the schema is
        the same as with Base64.
        """
        types = self._types_of(schema)
        decimals = {f.field for f in (*types.after, *types.before) if f.name == DECIMAL}
        known = self._numbers.get(schema, frozenset())
        if decimals <= known:
            return known
        seen = {
            name
            for row in rows
            for name, raw in _fields(row).items()
            if name in decimals and bytes(raw)[:1] in _NUMBER_STARTS
        }
        if not seen <= known:
            known = self._numbers[schema] = known | seen
        return known

    def _from_schema(
        self,
        schema: bytes,
        identity: Identity,
        readings: Readings,
        rule: TableRule,
        shape: KeyShape,
        source: Source,
        numbers: frozenset[str],
    ) -> RowPlan:
        rows = self._types_of(schema)
        first = rows.after or rows.before
        fields = {field.field or "": field for field in first}
        for field in rows.before:
            fields.setdefault(field.field or "", field)
        self.rules.admit(len(fields), *identity)
        columns = {}
        for name, field in fields.items():
            try:
                declared = rule.columns.get(name)
                columns[name] = readings.of_field(field, declared, name in numbers)
            except (ValueError, KeyError) as error:
                raise Refusal("schema", f"column {name!r}: {error}") from None
        sql = {name: sql_type(field) for name, field in fields.items()}
        dialect = "connect"
        if readings.mysql and all(sql.values()):
            dialect = "mysql"
            columns = {
                name: reading._replace(source_type=sql[name]) for name, reading in columns.items()
            }
        return RowPlan(
            identity,
            columns,
            frozenset(field.field or "" for field in first),
            {name: field.optional for name, field in fields.items()},
            _key(rule, shape, columns),
            shape,
            dialect,
            source.connector,
            self._key_only(source, rule),
        )

    # Without a schema

    def _from_kinds(
        self,
        identity: Identity,
        kinds: dict[str, _Kind],
        required: frozenset[str],
        readings: Readings,
        rule: TableRule,
        shape: KeyShape,
        source: Source,
    ) -> RowPlan:
        columns: dict[str, ColumnReading] = {}
        for name, (kind, loose) in kinds.items():
            try:
                columns[name] = readings.of_json(kind, rule.columns.get(name), loose)
            except ValueError as error:
                raise Refusal("value", f"column {name!r}: {error}") from None
        return RowPlan(
            identity,
            columns,
            required,
            {},
            _key(rule, shape, columns),
            shape,
            "json",
            source.connector,
            self._key_only(source, rule),
            # One that takes nearly anything would take the next messages for what they are not.
            lasting=required == kinds.keys() and all(k.kind != "mixed" for k in kinds.values()),
        )

    def _seen(
        self,
        identity: Identity,
        names: tuple[str, ...],
        images: list[dict[str, Raw]],
        readings: Readings,
    ) -> dict[str, _Kind]:
        """The kind of every column of a message, those of nulls from the messages before it."""
        before = self._kinds.get(identity, {})
        declared = self.rules.find(*identity).columns
        columns: dict[str, _Kind] = {}
        for name in names:
            marks = readings.placeholders(declared.get(name))
            seen = {kind_of(image[name], marks) for image in images if name in image}
            columns[name] = _settled(before.get(name, _Kind()), seen, declared.get(name))
        return columns

    def _key_only(self, source: Source, rule: TableRule) -> bool:
        """Whether nothing but the key of a row before can be trusted.

        PostgreSQL publishes updates and deletes of a table without key with REPLICA IDENTITY FULL
        alone, so their rows before are whole. A message without key does not say that there is
        none: files of lines have lost the message keys. Of deletes `is_whole` says more.
        """
        if source.connector != "postgresql" or self.settings.replica_identity == "full":
            return False
        return rule.key is None or bool(rule.key)


_NUMBER_STARTS = frozenset(b"-0123456789"[i : i + 1] for i in range(11))


def _fields(row: bytes | Raw) -> dict[str, Raw]:
    return {} if bytes(row) == b"null" else fields_of(row)


def _key(
    rule: TableRule, shape: KeyShape, columns: dict[str, ColumnReading]
) -> tuple[str, ...] | None:
    """The key columns: declared, or those of the message key.

    Raises:
        Refusal: one of them is no column of the row.
    """
    if rule.key is not None:
        missing = [name for name in rule.key if name not in columns]
        if missing:
            raise Refusal("key", f"the declared key column {missing[0]!r} is not in the row")
        return rule.key
    if shape.names is None:
        return None
    names = tuple(name for name in shape.names if name != _ROUTED)
    missing = [name for name in names if name not in columns]
    if missing:
        sentence = f"the message key names the column {missing[0]!r}, which is not in the row"
        raise Refusal("key", f"{sentence}: declare the key under `tables`")
    return names or None


def _row_types(schema: bytes) -> _Rows:
    try:
        found = {}
        for raw in Field.read(schema).fields:
            field = Field.read(raw)
            if field.field in ("before", "after"):
                found[field.field] = tuple(Field.read(column) for column in field.fields)
    except (ValueError, RecursionError) as error:
        raise Refusal("schema", f"the inline schema cannot be read: {error}") from None
    rows = _Rows(found.get("after", ()), found.get("before", ()))
    if not rows.after and not rows.before:
        raise Refusal("schema", "the inline schema describes neither `before` nor `after`")
    return rows


def kind_of(raw: bytes | Raw, marks: Placeholders) -> str:
    """The kind of a JSON value.

    Args:
        raw: its JSON text.
        marks: what stands for values that were not sent.

    Returns:
        none, bool, int, real, str, special (NaN and the infinities), absent, hollow (the same as an
        array or object), structure, variable (a number with its scale) or geometry.
    """
    text = str(raw, "utf-8")
    first = text[0]
    if first in "[{" and text.replace(" ", "") in marks.structures:
        return "hollow"
    if first == '"':
        if text in marks.texts:
            return "absent"
        return "special" if text in SPECIAL else "str"
    if first == "{":
        return object_kind(raw)
    if first in _FIRST:
        return _FIRST[first]
    return "real" if set(text) & set(".eE") or text == "-0" else "int"


_FIRST = {"[": "structure", "t": "bool", "f": "bool", "n": "none"}


def _settled(before: _Kind, seen: set[str], declared: LogicalType | None) -> _Kind:
    """The kind of a column after one more message."""
    kinds = seen - set(_NOTHING)
    if "special" in kinds:
        # Beside another text of the message it is a text. Else a declared type decides; only of an
        # undeclared column what came before does.
        if kinds & _NUMBERS:
            number = True
        elif declared is None or declared.kind == "unknown":
            number = before.kind in _NUMBERS
        else:
            number = declared.is_number
        kinds = kinds - {"special"} | {"real" if number and "str" not in kinds else "str"}
    if kinds and kinds <= _NUMBERS and (len(kinds) > 1 or before.kind == "real"):
        kinds = {"real"}
    kind = before.kind if not kinds else kinds.pop() if len(kinds) == 1 else "mixed"
    loose = "hollow" in seen or ("absent" in seen and kind != "str")
    return _Kind(kind, before.loose or loose)


def is_whole(message: Message, plan: RowPlan, before: Any) -> bool:
    """Whether the row before of a delete of PostgreSQL is whole although no setting says so.

    A table whose key is not known sends deletes with the whole row where it has none (REPLICA
    IDENTITY FULL), and with nothing but the key otherwise. It has none if the queue, which gave the
    message its time, has no key for it: Debezium gives every table with a key a message key. And a
    column that may be null is no key column: with a value, the row is whole.

    Source: PostgreSQL documentation, "Logical Replication", "Publication" (replica identity);
    Debezium documentation, PostgreSQL connector, "Data change events".
    """
    if plan.schema.key is not None or not is_no_key(message.key):
        return False
    values = [getattr(before, f"f{place}") for place in range(len(plan.schema.columns))]
    if UNSET in values:
        return False
    return message.timestamp is not None or any(
        column.nullable and value is not None
        for column, value in zip(plan.schema.columns, values, strict=True)
    )
