"""Values of every kind in columns of every type: the messages, and what a type holds.

`declared_as` writes values of other types and declares the column to be what it is not;
`stated_as` puts other values in place of one whose type the message states.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zlib
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import msgspec
import pyarrow as pa

from tests.contract.roundtrip import read_settings
from tests.histories import column_of, image
from tests.value_texts import edges_of
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.messages import messages_of
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import Refusal
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.protocol import Encoded
from waybill.records import Change, Message, TableSchema, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import INTEGER_RANGE, LogicalType, parse_type

if TYPE_CHECKING:
    from waybill.protocol import Envelope

TIME = 1_700_000_000_123_000

CARRIERS = {
    "string": [
        *("7", "300", "-1", "1.5", "true", "NaN", "Infinity", "1e3", "1" * 30, "abc", "", "null"),
        *("2024-02-29", "2024-13-45", "12:00:00", "25:61:61", "2024-02-29T10:00:00"),
        *("2024-02-29 10:00:00", "2024-01-01T25:00:00", "2024-02-29T10:00:00Z", "完成"),
        *("2024-02-29 10:00:00 +08:00", "AA==", "Af8=", "AQAB", "!!"),
    ],
    "int64": [
        *("0", "1", "2", "-1", "127", "128", "-129", "255", "256", "32768", "65536"),
        *("2147483648", "4294967296", "9223372036854775807", "-9223372036854775808"),
    ],
    "uint64": ["5", "18446744073709551615"],
    "number": ["7", "1.5", "0.001", "1000", "1" + "0" * 40, "18446744073709551616"],
    "decimal(38,10)": ["1.5000000000", "0.0010000000", "1000.0000000000"],
    "float64": ["1.5", "0.001", "1000.0", "1e+300", "NaN", "Infinity"],
    "boolean": ["true", "false"],
    "date": ["2024-02-29", "1970-01-02"],
    "time": ["10:00:00", "12:30:00.5"],
    "timestamp": ["2024-02-29T00:00:00", "2024-02-29T23:59:59.999999"],
    "timestamptz": ["2024-02-29T00:00:00Z", "2024-02-29T23:59:59.999999Z"],
    "bytes": ["AA==", "AP8=", "////////////////"],
    "bit(20)": ["AAH/", "D///"],
    "json": ['{"a":1}', "[1]"],
}
"""Types that values are written as, and values of them."""

TYPES = [
    *("int8", "uint8", "int32", "int64", "uint64", "decimal(5,2)", "number", "float32", "float64"),
    *("boolean", "bit(8)", "bit(9)", "bytes", "date", "time", "timestamp", "timestamptz"),
]
"""The types that columns are declared as or that messages state."""

_DAY = re.compile(r"[-+]?[0-9]{4,7}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"-?([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?")
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?")
_ZONE = re.compile(r"(?:Z| ?[-+][0-9]{2}:?[0-9]{2})\Z")


def holds(kind: LogicalType, text: str) -> bool:
    """Whether a type holds a text, by a reading of its own of what the types are."""
    if kind.is_integer:
        low, high = INTEGER_RANGE[kind.kind]
        return re.fullmatch("-?[0-9]{1,20}", text) is not None and low <= int(text) <= high
    if kind.kind in _HELD:
        return _HELD[kind.kind](text)
    if kind.kind == "decimal":
        return _is_decimal(text, kind.precision or 0, kind.scale or 0)
    if kind.kind == "bit":
        data = _data(text)
        size = kind.precision or 1
        return data is not None and len(data) == (size + 7) // 8 and not data[0] >> (size % 8 or 8)
    return True


def _is_decimal(text: str, precision: int, scale: int) -> bool:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return False
    fraction = (found[2] or "").rstrip("0")
    return len(fraction) <= scale and len(found[1].lstrip("0")) <= precision - scale


def _is_float(text: str) -> bool:
    return text in ("NaN", "Infinity", "-Infinity") or re.fullmatch("[-+.eE0-9]+", text) is not None


def _data(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_day(text: str) -> bool:
    if _DAY.fullmatch(text) is None:
        return False
    try:
        # The other ones of PostgreSQL have more digits of the year.
        return text[0] in "+-" or len(text) > 10 or date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_clock(text: str) -> bool:
    found = _CLOCK.fullmatch(text)
    return found is not None and int(found[1]) < 24 and int(found[2]) < 60 and int(found[3]) < 60


def _is_time(text: str) -> bool:
    """Whether a text is a TIME as MySQL has them: of up to 838 hours, and below zero."""
    hours, _, rest = text.removeprefix("-").partition(":")
    return (
        re.fullmatch("[0-9]{2,3}", hours) is not None
        and int(hours) < 839
        and _is_clock(f"00:{rest}")
    )


def _is_moment(text: str) -> bool:
    day, _, clock = text.replace(" ", "T", 1).partition("T")
    return _is_day(day) and _is_clock(clock)


def _is_instant(text: str) -> bool:
    zone = _ZONE.search(text)
    return zone is not None and _is_moment(text[: zone.start()])


_HELD = {
    # PostgreSQL's NUMERIC without digits holds them, too.
    "number": lambda text: _NUMBER.fullmatch(text) is not None or text in ("NaN", "Infinity"),
    "float32": _is_float,
    "float64": _is_float,
    "boolean": lambda text: text in ("true", "false"),
    "bytes": lambda text: _data(text) is not None,
    "date": _is_day,
    "time": _is_time,
    "timestamp": _is_moment,
    "timestamptz": _is_instant,
}


class Carried(NamedTuple):
    """Messages of one table, and what each of them holds."""

    name: str
    messages: list[Encoded]
    values: list[str]


class Streams(NamedTuple):
    """Messages of several tables, and how they are read."""

    tables: list[Carried]
    rules: TableRules
    settings: Any


def declared_as(envelope: Envelope, wanted: str, folder: str) -> Streams:
    """Values of every type, in columns that are declared to be of one."""
    types = {"id": parse_type("int64"), "v": parse_type(wanted)}
    rules = {f"shop.{_table_of(carrier)}": TableRule(("id",), types) for carrier in CARRIERS}
    settings = read_settings(envelope, _settings(envelope, folder))
    return Streams(_carried(envelope.name, folder), TableRules(rules), settings)


@lru_cache(maxsize=1)
def _carried(name: str, folder: str) -> list[Carried]:
    """Values of every type as an envelope writes them, once for all types that are declared."""
    envelope = registry.get(name)
    written = _settings(envelope, folder)
    tables = []
    for carrier, texts in CARRIERS.items():
        columns = (column_of("id", "int64", ""), column_of("v", carrier, ""))
        schema = intern_schema("shop", None, _table_of(carrier), columns, ("id",), "")
        messages = [(text, _written(envelope, written, schema, text)) for text in texts]
        held = [(text, one) for text, one in messages if one is not None]
        tables.append(Carried(carrier, [one for _, one in held], [text for text, _ in held]))
    return tables


def _table_of(carrier: str) -> str:
    return f"t_{re.sub('[^a-z0-9]', '_', carrier)}"


def stated_as(envelope: Envelope, type_: str, dialect: str, folder: str) -> Streams:
    """Values in place of one of the column's own type, in messages that state it as they do."""
    written = _settings(envelope, folder)
    columns = (column_of("id", "bigint" if dialect else "int64", dialect),)
    columns = (*columns, column_of("v", type_, dialect))
    schema = intern_schema("shop", None, "t", columns, ("id",), dialect)
    usual = edges_of(columns[1].type)
    made = [_written(envelope, written, schema, text) for text in dict.fromkeys(usual)]
    whole = [one for one in made if one is not None and one.value is not None]
    one, other = whole[:2]
    first, last = _between(one.value or b"", other.value or b"")
    messages, values = [one, other], list(usual[:2])
    for literal in _literals(quoted=(one.value or b"")[first - 1 : first] == b'"'):
        value = (one.value or b"")[:first] + literal + (one.value or b"")[last:]
        messages.append(Encoded(one.key, value, one.headers))
        values.append(literal.decode())
    rules = TableRules({"shop.t": TableRule(("id",), {})})
    return Streams([Carried(type_, messages, values)], rules, read_settings(envelope, written))


CONNECT_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
"""Types of Kafka Connect, and what they are in Avro."""

CONNECT_NAMES: dict[str | None, dict[str, str]] = {
    None: {},
    **{
        f"io.debezium.time.{name}": {}
        for name in (
            *("Date", "Time", "MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "Year"),
            *("NanoTimestamp", "ZonedTime", "ZonedTimestamp", "Interval", "MicroDuration"),
        )
    },
    **{f"io.debezium.data.{name}": {} for name in ("Json", "Xml", "Uuid", "EnumSet")},
    "io.debezium.data.Bits": {"length": "9"},
    "io.debezium.data.Enum": {"allowed": "a,b"},
    **{f"org.apache.kafka.connect.data.{name}": {} for name in ("Date", "Time", "Timestamp")},
    "org.apache.kafka.connect.data.Decimal": {"scale": "2", "connect.decimal.precision": "5"},
}
"""What a schema may call a type, and the parameters that belong to it."""

_SOURCE = {"connector": "mysql", "db": "shop", "table": "t"}
_RULES = TableRules({"shop.t": TableRule(("id",), {})})


def named_as(envelope: Envelope, name: str | None, folder: str) -> Streams:
    """Values of every kind in columns whose schema gives any type one name of Kafka Connect.

    In JSON any value stands there; in Avro those that the data can hold.
    """
    if envelope.name == "debezium-avro":
        made = [_in_avro(kind, name, folder) for kind in CONNECT_TYPES]
        return Streams(made, _RULES, envelope.decode_settings(schemas=folder))
    made = [_in_connect(kind, name) for kind in CONNECT_TYPES]
    return Streams(made, _RULES, envelope.decode_settings())


def _in_connect(kind: str, name: str | None) -> Carried:
    value = {"type": kind, "optional": True, "field": "v"}
    if name is not None:
        value |= {"name": name, "parameters": CONNECT_NAMES[name]}
    fields = [{"type": "int64", "optional": False, "field": "id"}, value]
    rows = [
        {"type": "struct", "optional": True, "fields": fields, "field": image}
        for image in ("before", "after")
    ]
    schema = msgspec.json.encode({"type": "struct", "fields": rows})
    source = msgspec.json.encode(_SOURCE)
    literals = _literals(quoted=False)
    event = b'{"before":null,"after":{"id":1,"v":%b},"source":%b,"op":"c","ts_ms":1}'
    values = [
        b'{"schema":%b,"payload":%b}' % (schema, event % (literal, source)) for literal in literals
    ]
    messages = [Encoded(None, value, None) for value in values]
    return Carried(f"{kind} {name}", messages, [literal.decode() for literal in literals])


def _in_avro(kind: str, name: str | None, folder: str) -> Carried:
    plain = CONNECT_TYPES[kind]
    value: dict[str, Any] = {"type": plain, "connect.type": kind}
    if name is not None:
        value |= {"connect.name": name, "connect.parameters": CONNECT_NAMES[name]}
    schema = _avro_event(value)
    number = zlib.crc32(msgspec.json.encode(schema)) & 0x7FFFFFFF
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"{number}.avsc").write_bytes(msgspec.json.encode(schema))
    parsed = fastavro.parse_schema(schema)
    messages, values = [], []
    for held in _AVRO_VALUES[plain]:
        out = io.BytesIO()
        row = {"id": 1, "v": held}
        event = {"before": None, "after": row, "source": _SOURCE, "op": "c", "ts_ms": 1}
        fastavro.schemaless_writer(out, parsed, event)
        messages.append(Encoded(None, b"\0" + number.to_bytes(4, "big") + out.getvalue(), None))
        values.append(repr(held))
    return Carried(f"{kind} {name}", messages, values)


def _avro_event(value: dict[str, Any]) -> dict[str, Any]:
    """The schema of an event whose row has a column `v` of a type."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", value]}]
    row = {"type": "record", "name": "Value", "fields": fields}
    texts = [{"name": name, "type": "string"} for name in _SOURCE]
    event_fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": texts}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "shop.t", "fields": event_fields}


_WHOLE = [int(text) for text in CARRIERS["int64"]]
_FLOATS = [0.0, -0.0, 1.5, 1e300, float("inf"), float("nan")]
_AVRO_VALUES: dict[str, list[Any]] = {
    "int": [None, *(n for n in _WHOLE if -(2**31) <= n < 2**31), 86_399_999, 86_400_000],
    "long": [None, *_WHOLE, 86_399_999_999, 86_400_000_000, 1_700_000_000_123],
    "float": [None, *(n for n in _FLOATS if n != 1e300)],
    "double": [None, *_FLOATS],
    "boolean": [None, True, False],
    "string": [None, *CARRIERS["string"], *CARRIERS["json"]],
    "bytes": [None, b"", b"\0", b"\xff", b"\1\0", b"\xff\3", b"\1\2\3\4"],
}
"""Values of Avro's types."""


def _between(one: bytes, other: bytes) -> tuple[int, int]:
    """Where the value of a message is that is all that tells it from another one."""
    first = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    ends = zip(reversed(one), reversed(other), strict=False)
    last = len(one) - next(i for i, (a, b) in enumerate(ends) if a != b)
    first = max(one.rfind(sign, 0, first) for sign in (b'"', b":", b",", b"[")) + 1
    last = min(
        at for sign in (b'"', b",", b"}", b"]") if (at := one.find(sign, max(last, first))) >= 0
    )
    return first, last


def _literals(quoted: bool) -> list[bytes]:
    """What stands in place of a value: with its quotes where it had none."""
    texts = [text for texts in CARRIERS.values() for text in texts if '"' not in text]
    bare = [text for text in texts if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|true|null", text)]
    if quoted:
        return [text.encode() for text in texts]
    return [*(text.encode() for text in bare), *(f'"{text}"'.encode() for text in texts)]


def _settings(envelope: Envelope, folder: str) -> Any:
    schemas = {"schemas": folder} if envelope.name.endswith("avro") else {}
    return envelope.encode_settings(**schemas)


def _written(envelope: Envelope, written: Any, schema: TableSchema, text: str) -> Encoded | None:
    """The message of a row; None where the envelope cannot write the value."""
    assert envelope.encoder is not None
    change = Change(
        "insert",
        schema,
        Message("topic", 0, 1, TIME // 1000, None, None),
        after=image(schema, id="1", v=text),
        sequence=(1_605_339_516_000_000_004,),
        source_time=TIME,
    )
    try:
        made = envelope.encoder(written).encode(change, [])
    except Refusal:
        return None
    # Databus writes the end of the window behind the row.
    return next(one for one in made if one.value is not None)


def archive(messages: list[Encoded]) -> pa.RecordBatch:
    """Messages as they come from a topic."""
    rows = len(messages)
    headers = [
        None if one.headers is None else [{"key": k, "value": v} for k, v in one.headers]
        for one in messages
    ]
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["topic"] * rows,
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array([TIME] * rows, pa.int64()).cast(TIMESTAMP),
            "key": pa.array([one.key for one in messages], pa.binary()),
            "value": pa.array([one.value for one in messages], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


class Read(NamedTuple):
    """What became of a message: the kind and the sentence of a refusal, or a type and a value."""

    refused: tuple[str, str] | None
    type: LogicalType | None
    text: str | None


def read(
    envelope: Envelope, streams: Streams, batches: list[pa.RecordBatch], in_bulk: bool
) -> tuple[list[list[Read]], int]:
    """What becomes of the messages of batches, and how many were read at once."""
    assert envelope.decoder is not None
    decoder = envelope.decoder(streams.settings, streams.rules)
    joiner = PairJoiner() if envelope.pairs else None
    work = ChangeBatches(decoder, "batch", joiner)
    bulk = None
    if in_bulk:
        assert envelope.bulk_reader is not None
        bulk = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1)
    schemas: dict[str, TableSchema] = {}
    found = []
    for batch in batches:
        made = work.rows(work.changes(messages_of(batch))) if bulk is None else bulk.rows(batch)
        rows = made.to_pylist()
        for row in rows:
            if row["outcome"] == "schema":
                schemas[row["schema_id"]] = TableSchema.from_json(row["extra"])
        changes = [row for row in rows if row["outcome"] in ("ok", "refused")]
        found.append([_read(row, schemas) for row in changes])
    return found, 0 if bulk is None else bulk.in_bulk


def _read(row: dict[str, Any], schemas: dict[str, TableSchema]) -> Read:
    if row["outcome"] == "refused":
        return Read((row["reason_kind"], row["reason"]), None, None)
    schema = schemas[row["schema_id"]]
    after = schema.image_decoder.decode(row["after"])
    at = schema.index["v"]
    text = getattr(after, f"f{at}")
    return Read(None, schema.columns[at].type, None if text is msgspec.UNSET else text)
