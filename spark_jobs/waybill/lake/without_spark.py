"""The lake for whoever only looks: without Java, in a second and not in twenty.

Nothing is made and nothing is written. The answers are worked out by the same code as on Spark's
side (`History`); only opening the catalog and reading rows differ. A lake of a thousand batches has
thousands of snapshots and files, so no more of them is read than what is asked for. PyIceberg opens
object storage, and reads tables with deletes or files of a kind that is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, LakeError, WaybillError
from waybill.lake.arrow_rows import objects
from waybill.lake.avro_records import UnknownCodecError
from waybill.lake.catalog_properties import catalog_properties
from waybill.lake.file_memory import FileMemory
from waybill.lake.history import Chosen, History, in_order
from waybill.lake.metadata import Metadata, read_metadata, uncompressed
from waybill.lake.names import split
from waybill.lake.parquet_rows import rows_of_files
from waybill.lake.planned_files import Planned, planned_files
from waybill.lake.settings import CATALOG
from waybill.lake.storage_errors import plainly
from waybill.lake.table_places import TablePlaces
from waybill.lake.table_properties import QUALIFIED

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from waybill.lake.planned_files import Where
    from waybill.spec.migration import Migration

ACCESS = {
    "s3.endpoint": "s3.endpoint",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "client.region": "s3.region",
}
"""What a store's key is called by Iceberg in Java, and by PyIceberg."""

RANDOM_NAME = re.compile(r"/[0-9]+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*$")
"""What metadata of a table is called: a number that grows, and one that was drawn.

Source: Apache Iceberg table spec, "Metastore Tables".
"""

METADATA_BYTES = 2
"""What a byte of a table's metadata takes in memory, about."""

FILES_AT_ONCE = 16
"""How many files are looked into before it is asked whether the others can hold any row."""


class LakeWithoutSpark(History):
    """The Iceberg tables of one migration, each as it was when it was first looked at.

    Args:
        migration: its name.
        places: where the tables are.
        access: the key to the object storage that they are in, as PyIceberg takes it.
        memory: what their files have said to others before.
    """

    def __init__(
        self,
        migration: str,
        places: TablePlaces,
        access: Mapping[str, str],
        memory: FileMemory | None = None,
    ) -> None:
        super().__init__(migration)
        self._memory = FileMemory() if memory is None else memory
        self._places = places
        self._access = access
        self._place = cache(lambda table: places.place(*split(table)))
        self._metadata = cache(self._loaded)

    @classmethod
    def open(cls, spec: Migration, memory: FileMemory | None = None) -> LakeWithoutSpark | None:
        """The lake of a migration; None where only Spark can open its catalog.

        Args:
            spec: the migration.
            memory: what files of lakes have said before.

        Raises:
            ConfigurationError: a connection is not there, or the catalog cannot be where it is.
        """
        properties = catalog_properties(spec)
        if "io-impl" in spec.lake.catalog:
            return None
        places = TablePlaces.open(properties)
        if places is None:
            return None
        access = {theirs: properties[ours] for ours, theirs in ACCESS.items() if ours in properties}
        return cls(spec.name, places, access, memory)

    def table_names(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""
        return self._places.names(namespace)

    def owner(self, name: str) -> str | None:
        """The source table of a merged table."""
        return self.metadata(f"{CATALOG}.{self.migration}.{name}").properties.get(QUALIFIED)

    def exists(self, table: str) -> bool:
        """Whether the table is there."""
        return self._place(table) is not None

    def metadata(self, table: str) -> Metadata:
        """Snapshots and refs of a table."""
        return self._metadata(table)

    def found(self, table: str) -> Metadata | None:
        """Snapshots and refs of a table; None where it is not there."""
        return self._metadata(table) if self.exists(table) else None

    def scan(
        self,
        table: str,
        columns: Sequence[str],
        where: Where,
        snapshot: int | None = None,
        chosen: Chosen | None = None,
    ) -> Iterator[dict[str, Any]]:
        """See `History.scan`; files that cannot hold such rows are not opened."""
        files = self._files(table, where, snapshot)
        if files is not None:
            names = self.metadata(table).shape.other_names
            yield from rows_of_files(files, self._opened, columns, chosen, self._memory, names)
            return
        for row in self._by_pyiceberg(table, columns, where, snapshot):
            if chosen is None or chosen.accepts(row):
                yield row

    def first(
        self,
        table: str,
        columns: Sequence[str],
        where: Where,
        by: Sequence[str],
        limit: int,
        snapshot: int | None = None,
        chosen: Chosen | None = None,
    ) -> list[dict[str, Any]]:
        """See `History.first`; files whose rows all come later are not opened."""
        files = self._files(table, where, snapshot, by)
        if files is None:
            return super().first(table, columns, where, by, limit, snapshot, chosen)

        def place(row: dict[str, Any]) -> tuple[Any, ...]:
            return in_order(row[name] for name in by)

        names = self.metadata(table).shape.other_names
        files.sort(key=lambda file: file.least)
        found: list[dict[str, Any]] = []
        for start in range(0, len(files), FILES_AT_ONCE):
            if len(found) == limit and place(found[-1]) <= files[start].least:
                break
            some = files[start : start + FILES_AT_ONCE]
            rows = rows_of_files(some, self._opened, columns, chosen, self._memory, names)
            found = nsmallest(limit, chain(found, rows), key=place)
        return found

    def _files(
        self, table: str, where: Where, snapshot: int | None, by: Sequence[str] = ()
    ) -> list[Planned] | None:
        """The files of a snapshot that can hold some rows; None where PyIceberg has to tell them.

        Raises:
            LakeError: the list of them is damaged.
        """
        metadata = self.metadata(table)
        newest = metadata.refs.get("main") if snapshot is None else snapshot
        if newest is None:
            return []
        manifests = metadata.snapshots[newest].manifests
        if manifests is None:
            return None
        try:
            plan = planned_files(manifests, self._read, where, by, self._memory)
        except UnknownCodecError:
            return None
        except ValueError as error:
            message = (
                f"what the lake's table {table} says of its files cannot be read ({error}), "
                f"beginning with {manifests}: put them back from a copy"
            )
            raise LakeError(message, code=Code.LAKE_FILE_LOST) from error
        if plan is None:
            return None
        gone: dict[str, set[int]] = {}
        columns = ("file_path", "pos")
        for row in rows_of_files(plan.deletes, self._opened, columns, None, self._memory):
            gone.setdefault(row["file_path"], set()).add(row["pos"])
        return [
            file._replace(gone=frozenset(gone[file.path])) if file.path in gone else file
            for file in plan.files
        ]

    def _by_pyiceberg(
        self, table: str, columns: Sequence[str], where: Where, snapshot: int | None
    ) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In
        from pyiceberg.table import StaticTable

        one_of: Any = In
        wanted: BooleanExpression = AlwaysTrue()
        for column, values in where.items():
            wanted = And(wanted, one_of(column, set(values)))
        place = self._place(table)
        assert place is not None, f"{table} is asked for and is not there"
        found = StaticTable.from_metadata(place, dict(self._access))
        if snapshot is None:
            snapshot = self.metadata(table).refs.get("main")
        there = {field.name for field in found.scan(snapshot_id=snapshot).projection().fields}
        names = tuple(name for name in columns if name in there)
        lacking = {name: None for name in columns if name not in there}
        for batch in found.scan(wanted, names, snapshot_id=snapshot).to_arrow_batch_reader():
            for row in objects(pa.Table.from_batches([batch])):
                yield {**row, **lacking}

    def _loaded(self, table: str) -> Metadata:
        place = self._place(table)
        assert place is not None, f"{table} is asked for and is not there"
        # The newest of a table stands in the place of those before.
        key = (place.rpartition("/")[0], "metadata")
        known: tuple[str, Metadata] | None = self._memory.get(key)
        if known is not None and known[0] == place:
            return known[1]
        text = uncompressed(self._read(place))
        found = read_metadata(text)
        # Only what is named at random is sure never to be written again with other words.
        if RANDOM_NAME.search(place):
            self._memory.keep(key, (place, found), METADATA_BYTES * len(text))
        return found

    def _read(self, place: str) -> bytes:
        opened = self._opened(place)
        if isinstance(opened, str):
            return Path(opened).read_bytes()
        with opened as stream:
            return stream.read()  # type: ignore[no-any-return]

    def _opened(self, place: str) -> Any:
        """A file of this machine by its path, one of an object storage opened."""
        path = re.sub(r"^file:/+", "/", place)
        if path.startswith("/"):
            return path
        access = frozenset(self._access.items())
        return _storage(access, place.partition("://")[0]).new_input(place).open()


@lru_cache(maxsize=8)
def _storage(access: frozenset[tuple[str, str]], scheme: str) -> FileIO:
    """Opens files of an object storage; its connections stay open from one file to the next."""
    from pyiceberg.io import load_file_io

    return load_file_io(dict(access), f"{scheme}://")


@contextmanager
def opened(spec: Migration, memory: FileMemory | None = None) -> Iterator[LakeWithoutSpark | None]:
    """The lake of a migration for a block; None where only Spark can open its catalog.

    Args:
        spec: the migration.
        memory: what files of lakes have said before.

    Raises:
        WaybillError: it cannot be read, in the block too; the sentence says why.
    """
    with plainly(spec):
        try:
            lake = LakeWithoutSpark.open(spec, memory)
        except WaybillError:
            raise
        except Exception:  # noqa: BLE001 - Spark tries the same, and its errors can be explained
            lake = None
        yield lake
