"""What one shape of an OMS table decides: schema, readers of values, the typed decoder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.generated import function
from waybill.envelopes.notation.values import is_integer_text, quotes_of
from waybill.envelopes.oms.columns import WIRE_TYPES, Notation, notation_of, read_one
from waybill.errors import Refusal
from waybill.records import Change, Column, intern_schema
from waybill.types import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.records import Message, TableSchema
    from waybill.types import LogicalType

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "ROW": "read"}
"""Record types that carry a row, and their operations; ROW is a row of a full synchronization."""

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first second of year 1 and the last of year 9999."""
_LONGEST = 12

OCEANBASE = frozenset({"OCEANBASE", "OB_MYSQL", "OB_ORACLE"})
"""Values of `dbType` whose `db` is `tenant.database`."""

DERIVED = ("record_primary_key", "record_primary_value", "table_name", "timestamp")
"""Fields of `allMetaData` that the canonical change holds; the others are carried on as they are,
but for `storeDataSequence`, which is the sequence."""

_IMAGES = ("prevStruct", "postStruct")
_UNSAFE = re.compile(r'["\\\x00-\x1f]')
"""What a name in a typed decoder cannot hold."""
_json = msgspec.json.Encoder().encode
_plain = notation_of(NUMBER).read


class Shape(NamedTuple):
    """Everything of a message that the way to read it depends on.

    Attributes:
        fields: names at the top of the message, in order.
        meta: names in `allMetaData`, in order.
        db: `db` as it stands there.
        table: `table_name`.
        db_type: `dbType`.
        primary_key: `record_primary_key` as it stands there.
        names: the columns.
        types: their types, as declared or as JSON says.
        key: the key columns, as declared or as `record_primary_key` says.
    """

    fields: tuple[str, ...]
    meta: tuple[str, ...]
    db: str | None
    table: str
    db_type: str | None
    primary_key: str | None
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    key: tuple[str, ...]


def database_of(db: str | None, db_type: str | None) -> str | None:
    """The database in `db`, which is `tenant.database` where the source is OceanBase."""
    if db and db_type in OCEANBASE and "." in db:
        return db.partition(".")[2] or None
    return db or None


class OmsTable:
    """A table as messages of one shape describe it.

    Args:
        shape: what those messages have in common.
    """

    def __init__(self, shape: Shape) -> None:
        self.schema: TableSchema = intern_schema(
            database_of(shape.db, shape.db_type),
            None,
            shape.table,
            tuple(Column(n, t) for n, t in zip(shape.names, shape.types, strict=True)),
            shape.key,
        )
        self.notations = [notation_of(kind) for kind in shape.types]
        wire = msgspec.defstruct(
            "Row",
            [(f"f{i}", WIRE_TYPES[n.wire]) for i, n in enumerate(self.notations)],
            rename={f"f{i}": name for i, name in enumerate(shape.names)},
            forbid_unknown_fields=True,
            gc=False,
        )
        self.build, self.build_pair = _builders(self.notations, self.schema.Image)
        self.count = _counter(self.notations)
        # Many messages share a second.
        self.timestamp: str | None = None
        self.time: int | None = None
        fields = set(shape.fields)
        self.fast = {"allMetaData", "recordType"} <= fields <= {
            "allMetaData",
            "recordType",
            *_IMAGES,
        } and _UNSAFE.search("".join(shape.meta)) is None
        self.carries_db = database_of(shape.db, shape.db_type) != shape.db
        if self.fast:
            self.decode = self._typed_decoder(shape, wire)

    def _typed_decoder(self, shape: Shape, wire: Any) -> Callable[[bytes], Any]:
        """A decoder of whole messages; the shape's fields are required, no other is allowed."""
        exact: dict[str, str | None] = {
            "record_primary_key": shape.primary_key,
            "dbType": shape.db_type,
            "table_name": shape.table,
            "db": shape.db,
        }
        kinds: dict[str, Any] = {
            **{n: None if text is None else Literal[text] for n, text in exact.items()},
            "storeDataSequence": int | None,
            "timestamp": str | None,
        }
        other = str | int | None
        attributes = {n: n if n in kinds else f"x{i}" for i, n in enumerate(shape.meta)}
        meta = msgspec.defstruct(
            "Meta",
            [(attributes[name], kinds.get(name, other)) for name in shape.meta],
            rename={attribute: name for name, attribute in attributes.items()},
            namespace={n: None for n in ("storeDataSequence", "timestamp") if n not in shape.meta},
            forbid_unknown_fields=True,
            gc=False,
        )
        parts = {
            "allMetaData": meta,
            "recordType": Literal["INSERT", "UPDATE", "DELETE", "ROW"],
            "prevStruct": wire | None,
            "postStruct": wire | None,
        }
        made = msgspec.defstruct(
            "Record",
            [(name, parts[name]) for name in shape.fields],
            namespace={n: None for n in _IMAGES if n not in shape.fields},
            forbid_unknown_fields=True,
            gc=False,
        )
        unused = [n for n in (*DERIVED, "storeDataSequence") if n in shape.meta]
        if not self.carries_db and "db" in shape.meta:
            unused.append("db")
        # Names and the record type; those of the images come with them.
        self.strings = len(shape.fields) + len(shape.meta) + 1
        lines = [f"if meta.{name}.__class__ is str: n += 1" for name in attributes.values()]
        self.count_meta = function("count(meta)", ["n = 0", *lines, "return n"], {})
        self.strip = function(
            "strip(meta)", [f"meta.{attributes[name]} = UNSET" for name in unused], {}
        )
        return msgspec.json.Decoder(made).decode

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this table; None if it needs a closer look.

        Raises:
            Exception: one of `JSON_ERRORS`, or a Refusal for a bad value.
        """
        record = self.decode(value)
        if not self._understood(record, value):
            return None
        operation = ROWS[record.recordType]
        before, after = record.prevStruct, record.postStruct
        if operation == "delete":
            if before is None or after is not None:
                return None
        elif after is None or (before is not None and operation != "update"):
            return None
        if before is None:
            after = self.build(after)
        elif after is None:
            before = self.build(before)
        else:
            before, after = self.build_pair(before, after)
        meta = record.allMetaData
        sequence = meta.storeDataSequence
        timestamp = meta.timestamp
        if timestamp != self.timestamp:
            self.time = seconds(timestamp)
            self.timestamp = timestamp
        self.strip(meta)
        return [
            Change(
                operation,
                self.schema,
                message,
                0,
                before,
                after,
                None if sequence is None else (sequence,),
                1,
                operation == "read" and sequence is None,
                None,
                None,
                self.time,
                None,
                None,
                b'{"oms":%b}' % _json(meta),
            )
        ]

    def _understood(self, record: Any, value: bytes) -> bool:
        """Whether a message says nothing but what was decoded: no name stands twice in it.

        Encoding it gives the same bytes again, or at least, where a producer writes JSON in other
        ways, as many quotes: every name and every string has two.
        """
        if _json(record) == value:
            return True
        strings: int = self.strings + self.count_meta(record.allMetaData)
        if record.prevStruct is not None:
            strings += self.count(record.prevStruct)
        if record.postStruct is not None:
            strings += self.count(record.postStruct)
        return 2 * strings == quotes_of(value)

    def image(self, row: Mapping[str, Raw]) -> Any:
        """The image of a row on the slow way; columns that are not there are absent.

        Raises:
            Refusal: a value does not have its column's notation.
        """
        values: list[Any] = []
        for name, notation in zip(self.schema.names, self.notations, strict=True):
            if name not in row:
                values.append(UNSET)
                continue
            try:
                values.append(read_one(notation, row[name]))
            except Refusal as refusal:
                raise Refusal(refusal.kind, f"column {name!r}: {refusal.sentence}") from None
        return self.schema.Image(*values)


def seconds(timestamp: str | None) -> int | None:
    """Microseconds since 1970 of `timestamp`, which is whole seconds in a string.

    Raises:
        Refusal: it is none, or not a time that a timestamp can hold.
    """
    if timestamp is None or timestamp == "":
        return None
    if len(timestamp) > _LONGEST or is_integer_text(timestamp) is None:
        raise Refusal("shape", f"timestamp is {timestamp[:40]!r} and not seconds since 1970")
    number = int(timestamp)
    if not FIRST_SECOND <= number <= LAST_SECOND:
        sentence = "timestamp is not in the years 1 to 9999; it must be in seconds"
        raise Refusal("shape", sentence)
    return number * 1_000_000


def _builders(
    notations: list[Notation], image: type[Any]
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], tuple[Any, Any]]]:
    """Functions from one decoded row to its image, and from the two rows of an update to theirs.

    The second spares the columns that the update did not change.
    """
    names: dict[str, Any] = {"Image": image}
    one: list[str] = []
    two: list[str] = []
    for i, notation in enumerate(notations):
        if notation.read is not None:
            names[f"c{i}"] = notation.read
        taken = _taken(i, notation)
        one += [f"v = row.f{i}", *taken, f"a{i} = v"]
        two += [f"v = after.f{i}", f"w = before.f{i}", "same = v == w", *taken, f"a{i} = v"]
        two += ["if not same:", "    v = w", *(f"    {line}" for line in taken), f"b{i} = v"]
    after = ", ".join(f"a{i}" for i in range(len(notations)))
    before = after.replace("a", "b")
    return (
        function("build(row)", [*one, f"return Image({after})"], names),
        function(
            "build_pair(before, after)",
            [*two, f"return Image({before}), Image({after})"],
            names,
        ),
    )


def _taken(i: int, notation: Notation) -> list[str]:
    """Statements that turn what was decoded, `v`, into its canonical text."""
    if notation.wire == "integer":
        return ["if v is not None: v = str(v)"]
    if notation.wire != "number":
        return [] if notation.read is None else [f"if v is not None: v = c{i}(v)"]
    # The digits of whole numbers are their text; what else there is needs a look.
    test = "if not v.isdecimal(): " if notation.read is _plain else ""
    return ['v = str(v, "ascii")', f"{test}v = c{i}(v)"]


def _counter(notations: list[Notation]) -> Callable[[Any], int]:
    """A function that tells how many names and strings a decoded row holds."""
    lines = [f"n = {len(notations)}"]
    for i, notation in enumerate(notations):
        if notation.wire in ("text", "boolean"):
            lines.append(f"if row.f{i}.__class__ is str: n += 1")
    return function("count(row)", [*lines, "return n"], {})
