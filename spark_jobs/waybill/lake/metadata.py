"""A table's metadata as Iceberg writes it down, as far as Waybill asks for it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Snapshot(NamedTuple):
    """One snapshot of a table; `manifests` is the place of the list of its files."""

    id: int
    parent: int | None
    time_ms: int
    summary: dict[str, str]
    manifests: str | None = None


class Metadata(NamedTuple):
    """A table's snapshots and refs at one moment."""

    snapshots: dict[int, Snapshot]
    refs: dict[str, int]
    tags: frozenset[str]
    properties: dict[str, str]

    def ancestors(self, snapshot: int | None) -> list[Snapshot]:
        """A snapshot and those before it, newest first; ends where one was expired."""
        line = []
        while snapshot is not None and snapshot in self.snapshots:
            line.append(self.snapshots[snapshot])
            snapshot = line[-1].parent
        return line


def read_metadata(text: str | bytes) -> Metadata:
    """What a table's metadata says about snapshots and refs."""
    data = msgspec.json.decode(text, type=_Metadata)
    snapshots = {
        found.id: Snapshot(
            found.id, found.parent, found.time_ms, found.summary, found.manifest_list
        )
        for found in data.snapshots
    }
    refs = {name: ref.snapshot for name, ref in data.refs.items()}
    tags = frozenset(name for name, ref in data.refs.items() if ref.type == "tag")
    return Metadata(snapshots, refs, tags, data.properties)


class _Snapshot(msgspec.Struct):
    id: int = msgspec.field(name="snapshot-id")
    time_ms: int = msgspec.field(name="timestamp-ms")
    parent: int | None = msgspec.field(name="parent-snapshot-id", default=None)
    summary: dict[str, str] = {}
    manifest_list: str | None = msgspec.field(name="manifest-list", default=None)


class _Ref(msgspec.Struct):
    snapshot: int = msgspec.field(name="snapshot-id")
    type: str = "branch"


class _Metadata(msgspec.Struct):
    snapshots: list[_Snapshot] = []
    refs: dict[str, _Ref] = {}
    properties: dict[str, str] = {}


class Span(NamedTuple):
    """Rows appended to a table after one snapshot (all rows if None) and up to another."""

    table: str
    after: int | None
    upto: int | None

    @property
    def empty(self) -> bool:
        """Whether there can be no row."""
        return self.upto is None or self.after == self.upto
