"""What one shape of an OMS table decides: schema, readers of values, the typed decoder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from waybill.envelopes.oms.lobs import forget, untouchable
from waybill.envelopes.oms.rows import ROWS, row_reader
from waybill.envelopes.oms.type_names import DIALECT, in_notation
from waybill.envelopes.oms.values import TRUTH, WIRE_TYPES, notation_of, read_one
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.envelopes.stated_keys import is_compared
from waybill.records import Column, intern_schema
from waybill.types import BOOLEAN
from waybill.values.generated import function
from waybill.values.json_rows import row_values
from waybill.values.values import quotes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.records import Change, Message, TableSchema
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
        told: the type names that the message tells, None for a column without.
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
    told: tuple[str | None, ...] = ()
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
        stated = shape.told or (None,) * len(shape.names)
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
        named = tuple((shape.primary_key or "").split("\u0001"))
        self.told_key = named == shape.key and is_compared(self.schema)
        """Whether `record_primary_value` has to be the key of the row."""
        self.lobs = untouchable(self.schema) if lobs else ()
        self.forget = forget(self.lobs)
        self.light = shape.light
        self.in_messages = in_messages
        self.Image = self.schema.Image
        light: list[Any] = [] if shape.light is None else [("light", Raw | UnsetType, UNSET)]
        wire = msgspec.defstruct(
            "Row",
            [*[(f"f{i}", WIRE_TYPES[n.wire]) for i, n in enumerate(self.notations)], *light],
            rename={f"f{i}": name for i, name in enumerate(shape.names)} | {"light": LIGHT_TYPE},
            forbid_unknown_fields=True,
            gc=False,
        )
        fields = set(shape.fields)
        self.fast = {"allMetaData", "recordType"} <= fields <= {
            "allMetaData",
            "recordType",
            *_IMAGES,
        } and _UNSAFE.search("".join(shape.meta)) is None
        if self.fast:
            self.read = self._reader(shape, wire)

    def _reader(self, shape: Shape, wire: Any) -> Callable[[Message, bytes], list[Change] | None]:
        """A function that reads messages of this shape; None for one that needs a closer look.

        The shape's fields are required and no other is allowed. It raises one of `JSON_ERRORS`
        for another shape, and a Refusal for a bad value.
        """
        exact: dict[str, str | None] = {
            "record_primary_key": shape.primary_key,
            "dbType": shape.db_type,
            "table_name": shape.table,
            "db": shape.db,
        }
        kinds: dict[str, Any] = {
            **{n: None if text is None else Literal[text] for n, text in exact.items()},
            "storeDataSequence": SEQUENCE | None,
            "timestamp": str | None,
            "record_primary_value": str | int | None,
        }
        other = str | int | None
        attributes = {n: n if n in kinds else f"x{i}" for i, n in enumerate(shape.meta)}
        meta = msgspec.defstruct(
            "Meta",
            [(attributes[name], kinds.get(name, other)) for name in shape.meta],
            rename={attribute: name for name, attribute in attributes.items()},
            namespace={n: None for n in _READ if n not in shape.meta},
            forbid_unknown_fields=True,
            gc=False,
        )
        parts = {
            "allMetaData": meta,
            "recordType": Literal[tuple(ROWS)],
            "prevStruct": wire | None,
            "postStruct": wire | None,
        }
        record = msgspec.defstruct(
            "Record",
            [(name, parts[name]) for name in shape.fields],
            namespace={n: None for n in _IMAGES if n not in shape.fields},
            forbid_unknown_fields=True,
            gc=False,
        )
        carried = {
            attribute: name
            for name, attribute in attributes.items()
            if name not in DERIVED
            and name != "storeDataSequence"
            and (name != "db" or database_of(shape.db, shape.db_type, self.tenant) != shape.db)
        }
        extra = msgspec.defstruct("Carried", [(a, Any) for a in carried], rename=carried, gc=False)
        return row_reader(
            self.schema,
            self.notations,
            msgspec.json.Decoder(record).decode,
            extra,
            _quote_counter(shape, list(attributes.values()), self.notations),
            self.lobs,
            None if self.light is None else Raw(self.light),
            self.in_messages,
            self.told_key,
        )

    def image(self, row: Mapping[str, Raw]) -> Any:
        """The image of a row on the slow way; columns that are not there are absent.

        Raises:
            Refusal: a value does not have its column's notation.
        """
        return self.Image(*row_values(row, self.schema.names, self.notations, read_one))


def _quote_counter(
    shape: Shape, attributes: list[str], notations: list[Notation]
) -> Callable[[Any], int]:
    """A function that tells how many quotes a message needs for what was decoded of it."""
    # Names and the record type; those of the images come with them.
    lines = [f"n = {len(shape.fields) + len(shape.meta) + 1}", "meta = record.allMetaData"]
    lines += [f"if meta.{name}.__class__ is str: n += 1" for name in attributes]
    for name in _IMAGES:
        lines += [f"row = record.{name}", "if row is not None:", f"    n += {len(notations)}"]
        lines += [
            f"    if row.f{i}.__class__ is str: n += 1"
            for i, notation in enumerate(notations)
            if notation.wire in ("text", "boolean", "moment")
        ]
        if shape.light is not None:
            # The name and what the types are written with.
            quotes = 1 + quotes_of(shape.light) // 2
            lines.append(f"    if row.light is not UNSET: n += {quotes}")
    return function("quotes(record)", [*lines, "return 2 * n"], {})
