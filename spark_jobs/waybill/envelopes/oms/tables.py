"""What one shape of an OMS table decides: schema, readers of values, the typed decoder."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from waybill.envelopes.oms.lobs import forget, untouchable
from waybill.envelopes.oms.records import ROWS, seconds
from waybill.envelopes.oms.type_names import DIALECT, in_notation
from waybill.envelopes.oms.values import TRUTH, WIRE_TYPES, notation_of, read_one
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.envelopes.sequence.settings import settled
from waybill.envelopes.stated_keys import SEPARATOR, is_compared, key_text
from waybill.records import Change, Column, intern_schema
from waybill.types import BOOLEAN, INTEGER_RANGE
from waybill.values.generated import function
from waybill.values.json_rows import row_values
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import AS_IT_IS, Step, one_row, two_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.records import Message, TableSchema
    from waybill.types import LogicalType
    from waybill.values.notation import Notation

OCEANBASE = frozenset({"OCEANBASE", "OB_MYSQL", "OB_ORACLE"})
"""Values of `dbType` whose `db` is `tenant.database`."""

_READ = ("storeDataSequence", "timestamp", "record_primary_value")
"""Fields of `allMetaData` that decide what a change is, and may be missing."""
DERIVED = ("record_primary_key", "record_primary_value", "table_name", "timestamp")
"""Fields of `allMetaData` that the canonical change holds; the others are carried on as they are,
but for `storeDataSequence`, which is the sequence."""

_IMAGES = ("prevStruct", "postStruct")
SEQUENCE = Annotated[int, Meta(ge=0)]
"""`storeDataSequence`: seconds and a counter, or a log sequence number."""
_UNSAFE = re.compile(r'["\\\x00-\x1f]')
"""What a name in a typed decoder cannot hold."""
_MINUS_ZERO = re.compile(rb":\s*-0[,}\s]")
"""An integer that is carried on as it stands, and is another one once it was decoded."""
_MAX_TIMES = 1_000

_json = msgspec.json.Encoder().encode


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
        inferred: whether JSON says the type of each column.
        stated_types: the type names in the message, None for a column without.
        light: the JSON that tells them, None where the message does not.
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
    inferred: tuple[bool, ...]
    stated_types: tuple[str | None, ...] = ()
    light: bytes | None = None


def database_of(db: str | None, db_type: str | None, tenant: str | None) -> str | None:
    """The database in `db`, which is `tenant.database` where the source is OceanBase.

    The tenant is part of the name, so that tables of two tenants stay two.

    Args:
        db: as the message says it.
        db_type: `dbType`.
        tenant: the tenant whose name is left out.
    """
    if db and tenant and db_type in OCEANBASE and db.startswith(f"{tenant}."):
        db = db[len(tenant) + 1 :]
    return db or None


def split_tenant(
    db: str | None, db_type: str | None, stated: str | None = None
) -> tuple[str, str | None]:
    """The tenant in the name of a database, with its point, and what statements name it by.

    Args:
        db: the name.
        db_type: `dbType`.
        stated: the database that a statement names; the whole name may be one, too.
    """
    if db and db_type in OCEANBASE and "." in db and stated != db:
        tenant, _, database = db.partition(".")
        return f"{tenant}.", database
    return "", db


class OmsTable:
    """A table as messages of one shape describe it.

    Args:
        shape: what those messages have in common.
        earlier: values are in the notation before V3.3.0.
        lobs: a LOB column that is null in both images of an update was not touched.
        in_messages: changes have a sequence id.
        tenant: the tenant whose name is left out of that of the database.

    Raises:
        Refusal: a column has a name that cannot be carried, or the key is none of the row's.
    """

    def __init__(
        self,
        shape: Shape,
        earlier: bool = False,
        lobs: bool = False,
        in_messages: bool = True,
        tenant: str | None = None,
    ) -> None:
        stated = shape.stated_types or (None,) * len(shape.names)
        columns = zip(shape.names, shape.types, stated, strict=True)
        self.tenant = tenant
        self.schema: TableSchema = intern_schema(
            database_of(shape.db, shape.db_type, tenant),
            None,
            shape.table,
            tuple(Column(*column) for column in columns),
            shape.key,
            DIALECT if any(stated) else "",
        )
        _ = self.schema.key_places  # refuses rows without their key, and a key of one column twice
        self.notations = [
            TRUTH if inferred and column.type == BOOLEAN else notation_of(column.type, earlier)
            for column, inferred in zip(
                in_notation(self.schema, earlier).columns, shape.inferred, strict=True
            )
        ]
        named = tuple((shape.primary_key or "").split(SEPARATOR))
        compared = named == shape.key and is_compared(self.schema)
        self.key_text = key_text(self.schema) if compared else None
        """What `record_primary_value` has to be for a row; None where it is not compared."""
        self.lobs = untouchable(self.schema) if lobs else ()
        self.forget = forget(self.lobs)
        self.light = None if shape.light is None else Raw(shape.light)
        self.in_messages = in_messages
        self.Image = self.schema.Image
        self.shape = shape
        self.times = _Times()
        fields = set(shape.fields)
        self.fast = {"allMetaData", "recordType"} <= fields <= {
            "allMetaData",
            "recordType",
            *_IMAGES,
        } and _UNSAFE.search("".join(shape.meta)) is None

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this shape; None if it has to be read exactly.

        Raises:
            ValueError: it is of another shape (`JSON_ERRORS`).
            Refusal: a value is bad.
        """
        record = self.decode(value)
        if record is None or (self.light is not None and not self._tells_types(record)):
            return None
        meta, kind = record.allMetaData, record.recordType
        before, after = record.prevStruct, record.postStruct
        if before is None or after is None:
            if after is before or (after is None) is not (kind == "DELETE"):
                return None
            before = None if before is None else self.one(before)
            after = None if after is None else self.one(after)
        elif kind == "UPDATE":
            before, after = self.two(before, after)
            self.forget(before, after)
        else:
            return None
        stated = meta.record_primary_value
        if (
            stated is not None
            and self.key_text is not None
            and stated != self.key_text(before if after is None else after)
        ):
            return None
        sequence, operation = meta.storeDataSequence, ROWS[kind]
        change = Change(
            operation,
            self.schema,
            message,
            before=before,
            after=after,
            sequence=None if sequence is None else (sequence,),
            full_row=operation == "read" and sequence is None,
            source_time=self.times[meta.timestamp],
            extra=b'{"oms":%b}' % _json(self.carried(meta)),
        )
        if sequence is not None and self.in_messages:
            return [change]
        return [settled(change, "storeDataSequence", self.in_messages, timed=True)]

    def _tells_types(self, record: Any) -> bool:
        """Whether the rows say about their types what those of this shape do."""
        before, after = record.prevStruct, record.postStruct
        if before is None or after is None:
            one = after or before
            return one is not None and one.light == self.light
        return after.light == self.light and before.light in (self.light, UNSET)

    @cached_property
    def decode(self) -> KnownMessage:
        """Decodes a message; the shape's fields are required and no other is allowed."""
        shape = self.shape
        light: list[Any] = [] if shape.light is None else [("light", Raw | UnsetType, UNSET)]
        row = msgspec.defstruct(
            "Row",
            [*[(f"f{i}", WIRE_TYPES[n.wire]) for i, n in enumerate(self.notations)], *light],
            rename={f"f{i}": name for i, name in enumerate(shape.names)} | {"light": LIGHT_TYPE},
            forbid_unknown_fields=True,
            gc=False,
        )
        members = {
            "allMetaData": self.meta,
            "recordType": Literal[tuple(ROWS)],
            "prevStruct": row | None,
            "postStruct": row | None,
        }
        absent = [name for name in _IMAGES if name not in shape.fields]
        record = strict({name: members[name] for name in shape.fields}, absent)
        return KnownMessage(record, _MINUS_ZERO.search)

    @cached_property
    def meta(self) -> type[Any]:
        """The struct of `allMetaData`."""
        shape = self.shape
        exact = {
            "record_primary_key": shape.primary_key,
            "dbType": shape.db_type,
            "table_name": shape.table,
            "db": shape.db,
        }
        kinds: dict[str, Any] = {
            **{n: None if text is None else Literal[text] for n, text in exact.items()},
            "storeDataSequence": SEQUENCE | None,
            "timestamp": str | None,
        }
        members = {name: kinds.get(name, str | int | None) for name in shape.meta}
        return strict(members, [name for name in _READ if name not in shape.meta])

    @cached_property
    def carried(self) -> Callable[[Any], Any]:
        """From `allMetaData` to what is carried on of it."""
        known = {"storeDataSequence", *DERIVED}
        if database_of(self.shape.db, self.shape.db_type, self.tenant) == self.shape.db:
            known.add("db")
        fields = zip(self.meta.__struct_fields__, self.shape.meta, strict=True)
        names = {field: name for field, name in fields if name not in known}
        made = msgspec.defstruct("Carried", [(f, Any) for f in names], rename=names, gc=False)
        return function(
            "carried(meta)",
            [f"return Carried({', '.join(f'meta.{field}' for field in names)})"],
            {"Carried": made},
        )

    @cached_property
    def one(self) -> Callable[[Any], Any]:
        """From a decoded row to an image; raises a Refusal for a bad value."""
        return one_row(self._steps, self.Image)

    @cached_property
    def two(self) -> Callable[[Any, Any], tuple[Any, Any]]:
        """The same for both rows of an update."""
        return two_rows(self._steps, self.Image)

    @property
    def _steps(self) -> list[Step]:
        return [_step(notation) for notation in self.notations]

    def image(self, row: Mapping[str, Raw]) -> Any:
        """The image of a row in the exact way; columns that are not there are absent.

        Raises:
            Refusal: a value does not have its column's notation.
        """
        return self.Image(*row_values(row, self.schema.names, self.notations, read_one))


def _step(notation: Notation) -> Step:
    """What turns a decoded value into its canonical text."""
    if notation.wire in INTEGER_RANGE:
        # The decoder knows the limits of all but the largest type.
        beyond = f"    if {{v}} > {INTEGER_RANGE['uint64'][1]}: raise ValueError"
        checked = [beyond] if notation.wire == "uint64" else []
        return Step(("if {v} is not None:", *checked, "    {v} = str({v})"))
    if notation.wire == "number":
        convert = "{v} = {c}({v})"
        if notation.plain:
            # JSON that stands between these two is a number; most have no exponent.
            plain = '"," < {v} < ":" and "e" not in {v} and "E" not in {v}'
            convert = f"if not ({plain}): {convert}"
        return Step(('{v} = str({v}, "ascii")', convert), notation.read)
    if notation.read is None:
        return AS_IT_IS
    return Step(("if {v} is not None: {v} = {c}({v})",), notation.read)


class _Times(dict[str | None, int | None]):
    """Microseconds by `timestamp`: many messages share a second."""

    def __missing__(self, timestamp: str | None) -> int | None:
        if len(self) >= _MAX_TIMES:
            self.clear()
        time = self[timestamp] = seconds(timestamp)
        return time
