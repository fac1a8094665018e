"""A table's metadata as Iceberg writes it down, as far as Waybill asks for it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

GZIP = b"\x1f\x8b"
"""How a file begins that is compressed, as ours of metadata are."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch

_SQL_NAMES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
"""What Iceberg's JSON calls otherwise than Spark's SQL."""


class Snapshot(NamedTuple):
    """One snapshot of a table.

    Attributes:
        id: its number.
        parent: the snapshot before it.
        time_ms: when it was made, milliseconds since 1970.
        summary: what was said of it.
        manifests: the place of the list of its files.
        sequence: grows from snapshot to snapshot of all branches; files have that of the one that
          added them.
    """

    id: int
    parent: int | None
    time_ms: int
    summary: dict[str, str]
    manifests: str | None = None
    sequence: int = 0


class TableShape(NamedTuple):
    """How a table's rows are laid out at one moment.

    Attributes:
        location: its folder.
        schema: its columns, as Iceberg's JSON has them.
        partitions: the columns that it is partitioned by, and how values are made of theirs.
        partitionings: how many ways to partition it has had; its files may be of any of them.
        schemas: every one that it has had; its files may be of any of them.
    """

    location: str = ""
    schema: Mapping[str, Any] = MappingProxyType({"fields": ()})
    partitions: tuple[tuple[str, str], ...] = ()
    partitionings: int = 1
    schemas: tuple[Mapping[str, Any], ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """The types of columns that are not lists or structs, as SQL names them."""
        fields = ((field["name"], field["type"]) for field in self.schema["fields"])
        return {
            name: _SQL_NAMES.get(described, described.replace(" ", ""))
            for name, described in fields
            if isinstance(described, str)
        }

    @property
    def other_names(self) -> dict[tuple[str, int], str]:
        """The names of columns that data files may have under another one, by that and the id.

        Files may be of any schema that there was.
        """
        fields = [field for schema in (self.schema, *self.schemas) for field in schema["fields"]]
        names = {(_avro_name(field["name"]), field["id"]): field["name"] for field in fields}
        return {written: name for written, name in names.items() if written[0] != name}

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are not there."""
        there = {field["name"] for field in self.schema["fields"]}
        return [name for name in names if name not in there]


def _avro_name(name: str) -> str:
    """What Iceberg in Java calls a column in data files, Parquet as well as Avro.

    Source: Apache Iceberg, `AvroSchemaUtil.makeCompatibleName`, which looks at units of UTF-16.
    """

    def written(at: int, one: str) -> str:
        if one == "_" or one.isalpha() or (at and one.isdecimal()):
            return one
        return f"_{one}" if one.isdecimal() else f"_x{ord(one):X}"

    units = name.encode("utf-16-be", "surrogatepass")
    ones = (chr(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
    return name if _PLAIN(name) else "".join(map(written, count(), ones))


class Metadata(NamedTuple):
    """A table's snapshots and refs at one moment, and how its rows are laid out."""

    snapshots: dict[int, Snapshot]
    refs: dict[str, int]
    tags: frozenset[str]
    properties: dict[str, str]
    shape: TableShape = TableShape()

    def ancestors(self, snapshot: int | None) -> list[Snapshot]:
        """A snapshot and those before it, newest first; ends where one was expired."""
        line = []
        while snapshot is not None and snapshot in self.snapshots:
            line.append(self.snapshots[snapshot])
            snapshot = line[-1].parent
        return line


def uncompressed(content: bytes) -> bytes:
    """The text of a file of metadata, which may be compressed."""
    return gzip.decompress(content) if content.startswith(GZIP) else content


def read_metadata(text: str | bytes) -> Metadata:
    """What a table's metadata says, from its file or from text.

    Source: Apache Iceberg table spec, "Table Metadata Fields".
    """
    if isinstance(text, bytes):
        text = uncompressed(text)
    data = msgspec.json.decode(text, type=_Metadata)
    snapshots = {
        found.id: Snapshot(
            found.id,
            found.parent,
            found.time_ms,
            found.summary,
            found.manifest_list,
            found.sequence,
        )
        for found in data.snapshots
    }
    refs = {name: ref.snapshot for name, ref in data.refs.items()}
    tags = frozenset(name for name, ref in data.refs.items() if ref.type == "tag")
    schema = next((s for s in data.schemas if s["schema-id"] == data.schema_id), {})
    spec = next((spec.fields for spec in data.specs if spec.id == data.spec_id), [])
    partitions = tuple((field.name, field.transform) for field in spec)
    ways = max(1, len(data.specs))
    shape = TableShape(data.location, schema, partitions, ways, tuple(data.schemas))
    return Metadata(snapshots, refs, tags, data.properties, shape)


class _Snapshot(msgspec.Struct):
    id: int = msgspec.field(name="snapshot-id")
    time_ms: int = msgspec.field(name="timestamp-ms")
    parent: int | None = msgspec.field(name="parent-snapshot-id", default=None)
    summary: dict[str, str] = {}
    manifest_list: str | None = msgspec.field(name="manifest-list", default=None)
    sequence: int = msgspec.field(name="sequence-number", default=0)


class _Ref(msgspec.Struct):
    snapshot: int = msgspec.field(name="snapshot-id")
    type: str = "branch"


class _Partition(msgspec.Struct):
    name: str
    transform: str


class _Spec(msgspec.Struct):
    id: int = msgspec.field(name="spec-id")
    fields: list[_Partition] = []


class _Metadata(msgspec.Struct):
    location: str = ""
    snapshots: list[_Snapshot] = []
    refs: dict[str, _Ref] = {}
    properties: dict[str, str] = {}
    schemas: list[dict[str, Any]] = []
    schema_id: int = msgspec.field(name="current-schema-id", default=0)
    specs: list[_Spec] = msgspec.field(name="partition-specs", default_factory=list)
    spec_id: int = msgspec.field(name="default-spec-id", default=0)


class Span(NamedTuple):
    """Rows appended to a table after one snapshot (all rows if None) and up to another."""

    table: str
    after: int | None
    upto: int | None

    @property
    def empty(self) -> bool:
        """Whether there can be no row."""
        return self.upto is None or self.after == self.upto
