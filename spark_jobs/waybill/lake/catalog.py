"""Iceberg's own API, reached through the session's JVM: metadata costs milliseconds, no query."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.lake.aside import ASIDE, cleared, keep_aside, whole_of
from waybill.lake.data_files import DataFileWriter, WrittenFile, with_field_ids
from waybill.lake.file_settings import FewSettings
from waybill.lake.footers import Footers
from waybill.lake.future_columns import schema_shown
from waybill.lake.metadata import Metadata, read_metadata
from waybill.lake.settings import CATALOG
from waybill.lake_columns import columns_of
from waybill.storage.objects.places import is_object_url, place_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from waybill.lake.position_deletes import WrittenDeletes
    from waybill.lake.table_places import TablePlaces

FOREVER_MS = 100 * 365 * 24 * 3600 * 1000
"""Age in milliseconds up to which main's snapshots are kept, whoever asks for their expiry."""


class Catalog:
    """The Iceberg catalog behind the Spark catalog `lake` of a session.

    Args:
        spark: the session.
        warehouse: the migration's folder, with the name of its connection where it has one.
        places: where its tables are, None where only Java can tell.
    """

    def __init__(
        self, spark: SparkSession, warehouse: str, places: TablePlaces | None = None
    ) -> None:
        self.spark = spark
        self._warehouse = warehouse.rstrip("/")
        self._on_disk = None if is_object_url(warehouse) else FewSettings(spark, self.java)
        self.jvm: Any = spark._jvm
        self._identifiers: dict[tuple[str, str], Any] = {}
        self._places = places
        self._known: dict[tuple[str, str], tuple[str, Metadata]] = {}
        manager = spark._jsparkSession.sessionState().catalogManager()
        self.iceberg: Any = manager.catalog(CATALOG).icebergCatalog()

    @cached_property
    def _footers(self) -> Footers:
        return Footers(self.java, self.spark.sparkContext._gateway)

    def java(self, name: str) -> Any:
        """A class of Java by its full name, kept: each part would be looked for in every jar."""
        found = getattr(self.jvm, name)
        setattr(self.jvm, name, found)
        return found

    def equal(self, column: str, value: str | bool) -> Any:
        """Iceberg's expression for rows with a value in a column."""
        return self.java("org.apache.iceberg.expressions.Expressions").equal(column, value)

    def identifier(self, namespace: str, name: str) -> Any:
        """Iceberg's identifier of a table."""
        found = self._identifiers.get((namespace, name))
        if found is None:
            gateway = self.spark.sparkContext._gateway
            names = gateway.new_array(self.java("java.lang.String"), 2)  # type: ignore[union-attr]
            names[0], names[1] = namespace, name
            found = self.java("org.apache.iceberg.catalog.TableIdentifier").of(names)
            self._identifiers[namespace, name] = found
        return found

    def tables(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""
        if self._places is not None:
            with suppress(sqlite3.Error):
                return self._places.names(namespace)
        space = self.identifier(namespace, "any").namespace()
        if not self.iceberg.namespaceExists(space):
            return []
        return sorted(str(found.name()) for found in self.iceberg.listTables(space))

    def load(self, namespace: str, name: str) -> Any:
        """The table as it is now."""
        table = self.iceberg.loadTable(self.identifier(namespace, name))
        if self._on_disk is not None:
            self._on_disk.give(table)
        return table

    def metadata(self, namespace: str, name: str) -> Metadata:
        """Snapshots and refs as they are now."""
        # Java says what is missing where it is not there.
        return self.find(namespace, name) or self._in_java(namespace, name)

    def _of_place(self, namespace: str, name: str, place: str) -> Metadata | None:
        """What stands in a file of metadata, None where it lies on no disk of this machine."""
        known = self._known.get((namespace, name))
        if known is not None and known[0] == place:
            return known[1]
        path = re.sub(r"^file:/+", "/", place)
        if not path.startswith("/"):
            return None
        try:
            found = read_metadata(Path(path).read_bytes())
        except (OSError, EOFError, zlib.error, msgspec.MsgspecError):
            # Many commits may have followed since; of what is damaged Java says what it is.
            return None
        # What is in such a file never changes: every commit writes another one.
        self._known[namespace, name] = place, found
        return found

    def _in_java(self, namespace: str, name: str) -> Metadata:
        current = self.load(namespace, name).operations().current()
        place = current.metadataFileLocation()
        found = None if place is None else self._of_place(namespace, name, str(place))
        if found is None:
            # Texts of more than 8 KB come in two parts, of which the second waits 40 ms for the
            # network's word that the first has arrived: nothing is asked for twice.
            text = self.java("org.apache.iceberg.TableMetadataParser").toJson(current)
            found = read_metadata(str(text))
            if place is not None:
                self._known[namespace, name] = str(place), found
        return found

    def find(self, namespace: str, name: str) -> Metadata | None:
        """Snapshots and refs as they are now; None where the table is not there."""
        if self._places is not None:
            # Where its file cannot be read, Java says why.
            with suppress(sqlite3.Error):
                place = self._places.place(namespace, name)
                if place is None:
                    return None
                return self._of_place(namespace, name, place) or self._in_java(namespace, name)
        try:
            return self._in_java(namespace, name)
        except Exception as error:
            if is_java(error, "NoSuchTableException", "NoSuchNamespaceException"):
                return None
            raise

    def create(
        self,
        namespace: str,
        name: str,
        schema: pa.Schema,
        partition_by: tuple[str, ...],
        properties: dict[str, str],
    ) -> None:
        """Make a table and its namespace; nothing happens where it is there already."""
        identifier = self.identifier(namespace, name)
        space = identifier.namespace()
        if not self.iceberg.namespaceExists(space):
            try:
                self.iceberg.createNamespace(space)
            except Exception:
                # Where another table's thread or another run made it meanwhile, a catalog in a
                # database fails with the database's own error.
                if not self.iceberg.namespaceExists(space):
                    raise
        columns = self._columns(schema)
        spec = self.java("org.apache.iceberg.PartitionSpec").builderFor(columns)
        for column in partition_by:
            spec = spec.identity(column)
        try:
            self.iceberg.createTable(identifier, columns, spec.build(), properties)
        except Exception as error:
            if not is_java(error, "AlreadyExistsException"):
                raise

    def complete(self, namespace: str, name: str, schema: pa.Schema) -> None:
        """Add the columns that the table does not have yet."""
        lacking = self.metadata(namespace, name).shape.lacking(schema.names)
        if lacking:
            # Of those that are there the union would take another type, or fail because of it.
            columns = self._columns(columns_of(schema, *lacking))
            self.load(namespace, name).updateSchema().unionByNameWith(columns).commit()

    def keep_aside(self, namespace: str, name: str, column: str) -> None:
        """Let a table keep the rows aside in which a column is true, see `waybill.lake.aside`."""
        parts = [part for part, _ in self.metadata(namespace, name).shape.partitions]
        try:
            keep_aside(self.load(namespace, name), column, column in parts)
        except Exception:  # Another run of the batch may have done it meanwhile.
            if self.metadata(namespace, name).properties.get(ASIDE) != column:
                raise

    def data_file_writer(
        self, namespace: str, name: str, schema: pa.Schema
    ) -> DataFileWriter | None:
        """What writes rows of a table in tasks, without Spark's own writer.

        Args:
            namespace: of the table.
            name: of the table.
            schema: the rows.

        Returns:
            None where only Iceberg knows where files go, or how to write there: a layout of its
            own, a partition that is computed, a file system that tasks cannot open by themselves.
        """
        table = self.metadata(namespace, name)
        shape, properties = table.shape, table.properties
        folder = properties.get("write.data.path") or f"{shape.location}/data"
        parts = shape.partitions
        laid_out = properties.get("write.object-storage.enabled", "false").lower() == "true"
        opened = None if laid_out else self.opened_by_tasks(folder)
        if opened is None or any(transform != "identity" for _, transform in parts):
            return None
        names = tuple(part for part, _ in parts)
        return DataFileWriter(folder, opened, with_field_ids(schema, shape.schema), names)

    def opened_by_tasks(self, folder: str) -> str | None:
        """A folder as tasks can open it: on disk, or in the migration's own bucket; else None."""
        if folder.startswith(("/", "file:///")):
            return folder
        if is_object_url(folder) and is_object_url(self._warehouse):
            # Iceberg does not know the connection that the warehouse names.
            known = place_of(self._warehouse).url.rstrip("/")
            if folder.startswith(f"{known}/"):
                return self._warehouse + folder.removeprefix(known)
        return None

    def append_files(
        self,
        namespace: str,
        name: str,
        branch: str,
        start: int | None,
        files: Sequence[WrittenFile],
        summary: Mapping[str, str],
    ) -> None:
        """Commit data files that tasks have written to a branch.

        Args:
            namespace: of the table.
            name: of the table.
            branch: where to.
            start: the snapshot that the branch is made of in the same step, None where it is there
                or where the table has none.
            files: what tasks reported of them (`data_files.WRITTEN_DDL`).
            summary: what the snapshot's summary says besides.

        Raises:
            ReconciliationError: a file does not hold what its task says.
        """
        described = self._footers.described(self.load(namespace, name), files) if files else []

        def append(step: Any) -> Any:
            # A stamp alone has no reason to join manifests.
            update = step.newAppend() if files else step.newFastAppend()
            for data in described:
                update = update.appendFile(data)
            return update

        self._commit_to_branch(namespace, name, branch, start, append, summary)

    def _commit_to_branch(
        self,
        namespace: str,
        name: str,
        branch: str,
        start: int | None,
        make: Callable[[Any], Any],
        summary: Mapping[str, str],
    ) -> None:
        """Commit a new snapshot to a branch, which is made in the same step if it has a start.

        Iceberg itself makes a branch that it does not find, of main, but counts its rows from
        nothing; and the step that makes one it does not repeat after another's commit.
        """
        while True:
            table = self.load(namespace, name)
            transaction = None if start is None else table.newTransaction()
            if transaction is not None:
                transaction.manageSnapshots().createBranch(branch, start).commit()
            update = make(transaction or table)
            for key, value in summary.items():
                update = update.set(key, value)
            update.toBranch(branch).commit()
            if transaction is None:
                return
            try:
                transaction.commitTransaction()
            except Exception as error:
                if is_java(error, "CommitFailedException"):
                    continue
                raise
            return

    def replace_rows(
        self,
        namespace: str,
        name: str,
        branch: str,
        start: int | None,
        since: int | None,
        files: Sequence[WrittenFile],
        deletes: Sequence[WrittenDeletes],
        summary: Mapping[str, str],
    ) -> None:
        """Commit data files that tasks have written, and the deletes of rows they replace.

        Args:
            namespace: of the table.
            name: of the table.
            branch: where to.
            start: the snapshot that the branch is made of in the same step, None where it is there
                or where the table has none.
            since: the snapshot whose rows the deletes are of.
            files: what tasks reported of them (`data_files.WRITTEN_DDL`).
            deletes: the files of position deletes.
            summary: what the snapshot's summary says besides.

        Raises:
            ReconciliationError: a file does not hold what its task says.
        """
        table = self.load(namespace, name)
        described = self._footers.described(table, files)
        bounds = self.java("org.apache.iceberg.MetricsConfig").forPositionDelete()
        metadata = self.java("org.apache.iceberg.FileMetadata")
        gone, specs = [], table.specs()
        for delete in deletes:
            source = table.io().newInputFile(delete.path)
            # They belong where the rows are that they delete.
            file = metadata.deleteFileBuilder(specs.get(delete.of.partitioning))
            file = file.ofPositionDeletes().withPath(delete.path).withFormat("parquet")
            if delete.of.partition is not None:
                file = file.withPartitionPath(delete.of.partition)
            file = file.withFileSizeInBytes(delete.bytes)
            gone.append(file.withMetrics(self._footers.metrics(source, bounds)).build())

        def replace(step: Any) -> Any:
            update = step.newRowDelta()
            if since is not None:
                update = update.validateFromSnapshot(since)
            for data in described:
                update = update.addRows(data)
            for file in gone:
                update = update.addDeletes(file)
            if deletes:
                # Deletes of a file that is gone would let its rows, written elsewhere since, stay.
                named = [delete.of.path for delete in deletes]
                update = update.validateDataFilesExist(named).validateDeletedFiles()
            return update

        self._commit_to_branch(namespace, name, branch, start, replace, summary)

    def _columns(self, schema: pa.Schema) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        text = from_arrow_schema(schema, prefer_timestamp_ntz=True).json()
        spark_type = self.java("org.apache.spark.sql.types.DataType").fromJson(text)
        return self.java("org.apache.iceberg.spark.SparkSchemaUtil").convert(spark_type)

    def move(
        self,
        namespace: str,
        name: str,
        expected: int | None,
        to: int,
        drop: str | None = None,
        becomes: Mapping[str, str] | None = None,
        alone: bool = False,
    ) -> bool:
        """Let main be `to` if it still is `expected`, and drop a branch, in one atomic step.

        Of a table that keeps rows aside main names `to` without those.

        Args:
            namespace: of the table.
            name: of the table.
            expected: what main has to be, None if there is none yet.
            to: what it is then.
            drop: a branch that goes in the same step.
            becomes: names that columns get in the same step, in the place of those that have them.
            alone: whether there may be no branch beside main and that one.

        Returns:
            False when main is something else, or another branch is there that must not be.
        """
        while True:
            table = self.load(namespace, name)
            operations = table.operations()
            before = operations.current()
            main = whole_of(before)
            if main == to:
                # Our own commit whose answer was lost on the way.
                return True
            if main != expected or (alone and self._branches(before) - {"main", drop}):
                return False
            after = self.java("org.apache.iceberg.TableMetadata").buildFrom(before)
            aside = before.properties().get(ASIDE)
            made = None if aside is None else cleared(table, self.equal(str(aside), True), drop)
            if made is not None:
                if made.parentId() != to:
                    return False
                after = after.addSnapshot(made)
            ref = self.java("org.apache.iceberg.SnapshotRef")
            ref = ref.branchBuilder(to if made is None else made.snapshotId())
            after = after.setRef("main", ref.maxSnapshotAgeMs(FOREVER_MS).build())
            if becomes:
                parser = self.java("org.apache.iceberg.SchemaParser")
                schema = schema_shown(parser, before.schema(), becomes)
                after = after.setCurrentSchema(schema, before.lastColumnId())
            if drop is not None:
                after = after.removeRef(drop)
            if self.commit(operations, before, after.build()):
                return True

    def set_ref(self, namespace: str, name: str, ref: str, snapshot: int, tag: bool) -> None:
        """Let a tag or branch name a snapshot, whatever it named before."""
        kind = self.java("org.apache.iceberg.SnapshotRef")
        while True:
            operations = self.load(namespace, name).operations()
            before = operations.current()
            builder = kind.tagBuilder(snapshot) if tag else kind.branchBuilder(snapshot)
            after = self.java("org.apache.iceberg.TableMetadata").buildFrom(before)
            if self.commit(operations, before, after.setRef(ref, builder.build()).build()):
                return

    def remove_refs(self, namespace: str, name: str, refs: list[str]) -> None:
        """Drop branches or tags; those that are gone already do not matter."""
        while refs:
            operations = self.load(namespace, name).operations()
            before = operations.current()
            builder = self.java("org.apache.iceberg.TableMetadata").buildFrom(before)
            there = [ref for ref in refs if self._snapshot_of(before, ref) is not None]
            for ref in there:
                builder = builder.removeRef(ref)
            if not there or self.commit(operations, before, builder.build()):
                return

    @staticmethod
    def _snapshot_of(metadata: Any, ref: str) -> int | None:
        found = metadata.ref(ref)
        return None if found is None else int(found.snapshotId())

    @staticmethod
    def _branches(metadata: Any) -> set[str]:
        refs = metadata.refs()
        return {str(name) for name in refs if refs[name].isBranch()}

    @staticmethod
    def commit(operations: Any, before: Any, after: Any) -> bool:
        """Whether the change of metadata went through; False when another commit came first."""
        try:
            operations.commit(before, after)
        except Exception as error:
            if is_java(error, "CommitFailedException", "CommitStateUnknownException"):
                return False
            raise
        return True


def is_java(error: BaseException, *names: str) -> bool:
    """Whether an error of the JVM, or one that caused it, has one of these short class names."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while thrown is not None:
        if str(thrown.getClass().getSimpleName()) in names:
            return True
        thrown = thrown.getCause()
    return False
