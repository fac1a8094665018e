"""The lake of one migration: its tables, what was committed to them, and branches to write on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, ConfigurationError
from waybill.lake import commit as commits
from waybill.lake import new_branches
from waybill.lake.aside import ASIDE, LISTS
from waybill.lake.branches import branch_base, branches
from waybill.lake.catalog import Catalog
from waybill.lake.catalog_properties import catalog_properties
from waybill.lake.commit import Branch, Commit
from waybill.lake.future_columns import as_shown, becomes_at, becomes_of
from waybill.lake.history import Chosen, History
from waybill.lake.metadata import Span
from waybill.lake.names import distinct_name, quoted, split, table_name
from waybill.lake.ordered_rows import RowGroup, row_groups
from waybill.lake.parquet_rows import rows_of_files
from waybill.lake.plain_rows import plain_rows
from waybill.lake.session import lake_session
from waybill.lake.settings import ANY_BYTES, ARROW_BYTES, ARROW_ROWS, CATALOG, SESSION_SETTINGS
from waybill.lake.sizing import (
    BATCH_BYTES,
    FEW_FILES,
    LARGEST_PIECE,
    MOST_ROWS,
    SMALLEST_PIECE,
    rows_per_batch,
    shuffle_partitions,
)
from waybill.lake.snapshot_ranges import longest_row, onward
from waybill.lake.table_files import data_files, searched_files, stored_files
from waybill.lake.table_places import TablePlaces
from waybill.lake.table_properties import QUALIFIED, TABLE_PROPERTIES
from waybill.lake.task_rows import FilePiece, TaskRows, read_in_tasks, read_piece
from waybill.lake_columns import log_namespace
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waybill.lake.data_files import DataFileWriter
    from waybill.lake.metadata import Metadata, TableShape
    from waybill.lake.stored_files import StoredFile
    from waybill.spec.migration import Migration

SHUFFLE = "spark.sql.shuffle.partitions"


class Lake(History):
    """The Iceberg tables of one migration.

    Attributes:
        spark: the session whose catalog `lake` this is; use it for every query of the lake.
        migration: name of the migration.
    """

    def __init__(self, spark: SparkSession, spec: Migration, pieces: int | None = None) -> None:
        super().__init__(spec.name)
        self.spark = spark
        self._pieces = pieces
        places = TablePlaces.of_file(catalog_properties(spec))
        self._catalog = Catalog(spark, spec.lake.warehouse, places)

    @classmethod
    def open(cls, spark: SparkSession, spec: Migration) -> Lake:
        """The lake of a migration, whatever session is there; the session is left as it is.

        Raises:
            ConfigurationError: the catalog cannot be opened.
        """
        given = spec.spark.get(SHUFFLE) or spark.sparkContext.getConf().get(SHUFFLE)
        pieces = None if given is None else int(given)
        return cls(lake_session(spark, spec), spec, pieces)

    # Names. A full name is `lake.<namespace>.<table>`, plain words that need no quotes.

    def merged(self, qualified: str) -> str:
        """Full name of the merged table of a source table (`shop.orders` -> `…shop_orders`).

        Two source tables whose names differ only in signs or case get different tables.
        """
        return self._merged(qualified)[0]

    def _merged(self, qualified: str) -> tuple[str, Metadata | None]:
        """The merged table of a source table: its full name, and what it is like if it is there."""
        table = f"{CATALOG}.{self.migration}.{table_name(qualified)}"
        found = self.found(table)
        if found is None or _owned(found, qualified):
            return table, found
        table = f"{CATALOG}.{self.migration}.{distinct_name(qualified)}"
        return table, self.found(table)

    def owner(self, name: str) -> str | None:
        """The source table of a merged table."""
        return self._catalog.metadata(self.migration, name).properties.get(QUALIFIED)

    # Tables.

    def table_names(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""
        return self._catalog.tables(namespace)

    def exists(self, table: str) -> bool:
        """Whether the table is there."""
        return self.found(table) is not None

    def ensure(
        self,
        table: str,
        schema: pa.Schema,
        partition_by: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Make the table if it is not there, and add the columns that it lacks.

        Args:
            table: full name.
            schema: its columns.
            partition_by: columns to partition by, as they are.
            properties: Iceberg properties beside `TABLE_PROPERTIES`.

        Returns:
            The full name.
        """
        self._ensure(table, self.found(table), schema, partition_by, properties)
        return table

    def _ensure(
        self,
        table: str,
        found: Metadata | None,
        schema: pa.Schema,
        partition_by: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Metadata:
        """Make the table that was found to be like this, or add what it lacks."""
        namespace, name = split(table)
        if found is None:
            merged = {**TABLE_PROPERTIES, **(properties or {})}
            self._catalog.create(namespace, name, schema, partition_by, merged)
        elif found.shape.lacking(schema.names):
            self._catalog.complete(namespace, name, schema)
        else:
            return found
        return self.metadata(table)

    def ensure_merged(
        self,
        qualified: str,
        schema: pa.Schema,
        aside: str,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[str, TableShape]:
        """Make the merged table of a source table if it is not there.

        Args:
            qualified: the source table's name.
            schema: its columns.
            aside: the column that is true in rows that are kept aside (`waybill.lake.aside`).
            properties: Iceberg properties beside `TABLE_PROPERTIES`.

        Returns:
            The full name, and how its rows are laid out.
        """
        own = {QUALIFIED: qualified, ASIDE: aside, **LISTS, **(properties or {})}
        for _ in range(2):  # Another table may take the name in the same moment.
            table, found = self._merged(qualified)
            made = self._ensure(table, found, schema, (aside,), own)
            if _owned(made, qualified):
                break
        self.keep_aside(table, aside)
        return table, made.shape

    def keep_aside(self, table: str, column: str) -> None:
        """Let a table keep the rows aside in which a column is true (`waybill.lake.aside`)."""
        if self.metadata(table).properties.get(ASIDE) != column:
            self._catalog.keep_aside(*split(table), column)

    def properties(self, table: str) -> dict[str, str]:
        """The table's Iceberg properties."""
        return dict(self.metadata(table).properties)

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Set Iceberg properties of a table."""
        update = self._catalog.load(*split(table)).updateProperties()
        for key, value in properties.items():
            update = update.set(key, value)
        update.commit()

    # Writing.

    def branch(self, table: str, stage: str, batch: str, at_once: bool = True) -> Branch:
        """A new branch from main for one run of a stage.

        Branches that a killed run of the same stage and batch left behind are dropped; should that
        run be alive after all, it ends with a `ConflictError`.

        Args:
            table: full name.
            stage: that writes.
            batch: that is written.
            at_once: False leaves it to the first commit to make it, which saves one. For tables
                that are written to next to at once, or whose record tells which branch counts.
        """
        return new_branches.start_branch(self._catalog, table, stage, batch, at_once)

    def held(self, table: str, stage: str, batch: str | None = None) -> list[tuple[Commit, Branch]]:
        """What is stamped and waits, the newest last; main has left none of it behind."""
        return [
            (commit, self.reopen(table, name))
            for name, commit in self.held_commits(table, stage, batch)
        ]

    def reopen(self, table: str, name: str, metadata: Metadata | None = None) -> Branch:
        """A branch that another stage wrote, e.g. to judge or to fast-forward it.

        Args:
            table: full name.
            name: of the branch.
            metadata: what the table is like, if that was just asked for.

        Raises:
            ConfigurationError: there is no such branch.
        """
        metadata = metadata or self.metadata(table)
        if name not in branches(metadata):
            message = f"there is no branch {name} of {table}: run the stage that writes it again"
            raise ConfigurationError(message, code=Code.STAGE_MISSING)
        head = metadata.refs[name]
        branch = Branch(self._catalog, table, name, branch_base(metadata, name), head)
        branch.becomes = becomes_of(metadata.snapshots[head], commits.CURSOR)
        return branch

    def drop_branches(self, table: str, names: Sequence[str]) -> None:
        """Remove branches; those that are gone already do not matter."""
        self._catalog.remove_refs(*split(table), [*names])

    # Reading.

    def scan(
        self,
        table: str,
        columns: Sequence[str],
        where: Mapping[str, Sequence[str | int]],
        snapshot: int | None = None,
        chosen: Chosen | None = None,
    ) -> Iterator[dict[str, Any]]:
        """See `History.scan`; a query of Spark where files are many or large."""
        files = searched_files(self._catalog, table, snapshot, where)
        if files is not None:
            names = self.metadata(table).shape.other_names
            yield from rows_of_files(files, _opened, columns, chosen, other_names=names)
            return
        rows = self.read(table, snapshot)
        for column, values in where.items():
            rows = rows.where(rows[column].isin(*values))
        for row in plain_rows(rows, columns):
            if chosen is None or chosen.accepts(row):
                yield row

    def read(self, table: str, snapshot: int | None = None) -> DataFrame:
        """The visible rows of a table, or those of a snapshot with the columns as it is shown."""
        name = quoted(CATALOG, *split(table))
        if snapshot is None:
            return self.spark.table(name)
        rows = self.spark.read.option("versionAsOf", str(snapshot)).table(name)
        return as_shown(rows, becomes_at(self.metadata(table), snapshot, commits.CURSOR))

    def increment(
        self, table: str, after: int | None, upto: int | None, parallel: bool = False
    ) -> DataFrame:
        """The rows appended after one snapshot (all rows if None) and up to another.

        Rows that were appended and deleted again in between are among them.

        Args:
            table: full name.
            after: snapshot that is excluded, None to read from the beginning.
            upto: newest snapshot.
            parallel: cut the files so that every core gets some, for work that costs more than
                reading.
        """
        options = self._small_splits(table, after, upto) if parallel else {}
        return commits.increment(self._catalog, table, after, upto, options)

    def onward(self, table: str, after: int | None, upto: int | None) -> Span:
        """What a batch has to read of a table: nothing where a later one has read past its end.

        Args:
            table: full name.
            after: snapshot up to which everything was read, None if nothing was.
            upto: newest snapshot that the batch knows of.
        """
        span = Span(table, after, upto)
        if after is None or span.empty:
            return span
        return onward(self.metadata(table), span)

    def task_rows(
        self, span: Span, schema: pa.Schema, where: Mapping[str, Sequence[str]]
    ) -> TaskRows:
        """The rows of a span for work in tasks, cut so that every core gets some.

        Args:
            span: which rows.
            schema: the columns that the work needs.
            where: the values that rows have in columns that the table is partitioned by.
        """
        files = None if span.empty else data_files(self._catalog, span, where)
        if files is None:
            return TaskRows.of(self._rows(span, schema, where))
        size = self._piece_size(sum(file.bytes for file in files))
        query = partial(self._rows, span, schema, where)
        few = len(files) <= FEW_FILES and self._is_little(span)
        return read_in_tasks(self.spark, query, files, schema, size, few)

    def _is_little(self, span: Span) -> bool:
        """Whether all rows of a span fit into the memory of one process many times over."""
        longest, rows = self.longest_row(span), self.added_rows(*span)
        return longest is not None and rows <= MOST_ROWS and rows * longest <= BATCH_BYTES

    def few_rows(
        self, span: Span, schema: pa.Schema, where: Mapping[str, Sequence[str]]
    ) -> list[dict[str, Any]]:
        """The rows of a span that are known to be few, without a query where that can be.

        Args:
            span: which rows.
            schema: the columns that are wanted.
            where: the values that rows have in columns that the table is partitioned by.
        """
        files = [] if span.empty else data_files(self._catalog, span, where)
        if files is None:
            return [row.asDict() for row in self._rows(span, schema, where).collect()]
        pieces = [FilePiece(file.path, 0, file.bytes) for file in files]
        return [
            row
            for piece in pieces
            for batch in read_piece(piece, schema)
            for row in batch.to_pylist()
        ]

    def _rows(self, span: Span, schema: pa.Schema, where: Mapping[str, Sequence[str]]) -> DataFrame:
        rows = self.increment(*span, parallel=True)
        for column, values in where.items():
            rows = rows.where(rows[column].isin(*values))
        return rows.select(*schema.names)

    def row_groups(
        self,
        span: Span,
        where: Mapping[str, Sequence[str]],
        bounds: Sequence[str],
        counted: Sequence[str],
    ) -> list[RowGroup] | None:
        """The row groups that hold the rows of a span and no other, None if that is unknown.

        Args:
            span: which rows.
            where: the values that rows have in columns that the table is partitioned by.
            bounds: columns whose least and greatest values are asked for.
            counted: columns whose nulls are counted.
        """
        if span.empty:
            return []
        files = data_files(self._catalog, span, where)
        return None if files is None else row_groups(files, bounds, counted)

    def stored_files(self, table: str, snapshot: int | None) -> list[StoredFile] | None:
        """The data files of a snapshot with what was deleted from them.

        Args:
            table: full name.
            snapshot: which one; None for a table that has no rows yet.

        Returns:
            None where tasks cannot read one of them.
        """
        return [] if snapshot is None else stored_files(self._catalog, table, snapshot)

    def data_file_writer(self, table: str, schema: pa.Schema) -> DataFileWriter | None:
        """What writes rows of a table in tasks; None where only Spark can.

        Args:
            table: full name.
            schema: the rows.
        """
        return self._catalog.data_file_writer(*split(table), schema)

    def _small_splits(self, table: str, after: int | None, upto: int | None) -> dict[str, str]:
        split = self._piece_size(self._added_bytes(Span(table, after, upto)))
        return {"split-size": str(split), "file-open-cost": str(split // 8)}

    def _piece_size(self, size: int) -> int:
        cores = self.spark.sparkContext.defaultParallelism
        return max(SMALLEST_PIECE, min(LARGEST_PIECE, size // (2 * cores)))

    def cut_shuffles(self, table: str, after: int | None, upto: int | None) -> dict[str, int]:
        """Let the session shuffle an increment into pieces of a good size.

        A number that the migration or the submission gives stays.

        Returns:
            What was chosen, and the bytes that it was chosen for, for the report.
        """
        size = self._added_bytes(Span(table, after, upto))
        cores = self.spark.sparkContext.defaultParallelism
        pieces = self._pieces or shuffle_partitions(size, cores)
        self.spark.conf.set(SHUFFLE, str(pieces))
        return {"bytes": size, "shuffle_partitions": pieces}

    @contextmanager
    def batches_by_rows(self, *spans: Span) -> Iterator[None]:
        """While this lasts, rows go to Python in batches of a number that suits what is read.

        Where the longest row is not known, and where the migration says how large batches are,
        nothing changes.

        Args:
            spans: all that is read.
        """
        conf = self.spark.conf
        longest = [self.longest_row(span) for span in spans]
        usual = {name: SESSION_SETTINGS[name] for name in (ARROW_ROWS, ARROW_BYTES)}
        if None in longest or any(conf.get(name) != value for name, value in usual.items()):
            yield
            return
        try:
            conf.set(ARROW_ROWS, str(rows_per_batch(max(filter(None, longest), default=0))))
            conf.set(ARROW_BYTES, ANY_BYTES)
            yield
        finally:
            for name, value in usual.items():
                conf.set(name, value)

    def longest_row(self, span: Span) -> int | None:
        """Bytes of the longest row of a span, None if nobody can tell."""
        return longest_row(self.metadata(span.table), span)

    def _added_bytes(self, span: Span) -> int:
        return self._added(span, "added-files-size", "total-files-size")

    def mark_read(self, table: str, consumer: str, snapshot: int | None) -> None:
        """Note that a consumer has read up to a snapshot; what follows is kept from expiry."""
        if snapshot is None:
            return
        ref = f"read_by_{consumer}"
        if self.metadata(table).refs.get(ref) != snapshot:
            self._catalog.set_ref(*split(table), ref, snapshot, tag=True)

    def metadata(self, table: str) -> Metadata:
        """Snapshots and refs of a table as they are now."""
        return self._catalog.metadata(*split(table))

    def found(self, table: str) -> Metadata | None:
        """Snapshots and refs of a table as they are now; None where it is not there."""
        return self._catalog.find(*split(table))

    def iceberg(self, table: str) -> Any:
        """The table in Iceberg's own API."""
        return self._catalog.load(*split(table))

    def java(self, name: str) -> Any:
        """A class of Java by its full name."""
        return self._catalog.java(name)

    def tables(self) -> dict[str, list[str]]:
        """Names of the tables that are there, by namespace."""
        spaces: list[Any] = [self.migration, log_namespace(self.migration)]
        return {space: self.table_names(space) for space in spaces}


def _owned(table: Metadata, qualified: str) -> bool:
    """Whether a merged table is that of a source table; one that does not say so may be."""
    return table.properties.get(QUALIFIED, qualified) == qualified


def _opened(path: str) -> Any:
    """A data file for whoever reads all of it here."""
    system, place = open_storage(path)
    return system.open(place, "rb")
