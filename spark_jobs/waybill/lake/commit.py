"""The commit rule: work on a branch, one stamped commit, then compare-and-swap.

A branch starts at the snapshot that the cursor was read from. Its last snapshot carries batch,
stage, cursor and report; then `main` moves to it if `main` still is where the branch started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConflictError, WaybillError
from waybill.lake.branches import STAGED, same_as_main, whole
from waybill.lake.data_files import WRITTEN_DDL, WrittenFile
from waybill.lake.local_rows import local_rows
from waybill.lake.names import literal, quoted, split
from waybill.lake.settings import CATALOG
from waybill.lake.sizing import FEW_BYTES, FEW_ROWS
from waybill.lake.task_rows import FilePiece, read_piece
from waybill.lake_columns import MESSAGE_PLACE
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from waybill.lake.catalog import Catalog
    from waybill.lake.metadata import Metadata, Snapshot
    from waybill.lake.position_deletes import WrittenDeletes
    from waybill.spark_tasks.worker_startup import Make

BATCH, STAGE, CURSOR, REPORT = "waybill.batch", STAGED, "waybill.cursor", "waybill.report"
"""Keys of a stamped snapshot's summary."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Commit(NamedTuple):
    """What a stage committed.

    Attributes:
        snapshot: id of the stamped snapshot.
        batch: id of the batch.
        stage: name of the stage.
        cursor: what was consumed, up to where.
        report: the stage's report as plain data.
        time_ms: when, in milliseconds since 1970.
        parent: the snapshot before, None for a table's first.
    """

    snapshot: int
    batch: str
    stage: str
    cursor: dict[str, Any]
    report: dict[str, Any]
    time_ms: int
    parent: int | None


def is_stamped(snapshot: Snapshot) -> bool:
    """Whether a stage has committed with this snapshot."""
    return STAGE in snapshot.summary


def read_commit(snapshot: Snapshot) -> Commit | None:
    """The stamp of a snapshot, None if it has none."""
    summary = snapshot.summary
    if not is_stamped(snapshot):
        return None
    return Commit(
        snapshot.id,
        summary[BATCH],
        summary[STAGE],
        json.loads(summary[CURSOR]),
        json.loads(summary[REPORT]),
        snapshot.time_ms,
        snapshot.parent,
    )


class Branch:
    """A branch that one run of a stage writes; made by `Lake.branch`.

    Attributes:
        table: full name of the table.
        name: name of the branch; no two runs use the same.
        base: visible snapshot that it starts from (`branches.whole`), None for an empty table.
        becomes: the names that columns of its own get when it becomes visible (`future_columns`).
        emptied: whether all rows were taken away before anything was written (`empty`).

    Data files that were written for it are committed when somebody asks for its rows, at the latest
    with its stamp: a table that is only appended to gets one snapshot. Of a branch that is not
    there yet the first of them makes it.
    """

    def __init__(
        self, catalog: Catalog, table: str, name: str, base: int | None, head: int | None
    ) -> None:
        self._catalog = catalog
        self._path = split(table)
        self.table = table
        self.name = name
        self.base = base
        self._head = self._begun = base if head is None else head
        self._there = head is not None
        self._written: list[WrittenFile] = []
        self.becomes: Mapping[str, str] = {}
        self.emptied = False

    @property
    def head(self) -> int:
        """Its newest snapshot, with all that was written so far."""
        self._settle()
        assert self._head is not None, "a branch that is there has a snapshot"
        return self._head

    @property
    def begun(self) -> int | None:
        """Its newest snapshot so far; what it starts from where none was written yet."""
        return self._head

    @property
    def begins_empty(self) -> bool:
        """Whether the table has no rows on it but those that were written to it."""
        return self.base is None or self.emptied

    @property
    def _start(self) -> int | None:
        """The snapshot that the next commit makes the branch of, None where it needs no making."""
        return None if self._there else self.base

    @property
    def identifier(self) -> str:
        """The branch as SQL names it."""
        return quoted(CATALOG, *self._path, f"branch_{self.name}")

    def begin(self) -> None:
        """Make the branch, if it is not there."""
        self._settle()

    def empty(self) -> None:
        """Take all rows away that it starts from; main keeps them until it is this branch.

        Raises:
            ConflictError: another run took the branch away.
        """
        self._settle()
        if self.base is not None:
            self.sql("DELETE FROM {branch}")
            self._begun, self.emptied = self._head, True

    def append(self, rows: DataFrame, mark: str | None = None) -> int:
        """Append rows by column name.

        Args:
            rows: the rows.
            mark: a key that the summary of the snapshot has besides.

        Returns:
            How many rows were written.

        Raises:
            ConflictError: another run took the branch away.
        """
        self._settle()
        summary = {} if mark is None else {f"snapshot-property.{mark}": "true"}
        with self._writing():
            rows.writeTo(self.identifier).options(**summary).append()
        return self._advance("added-records")

    def append_rows(self, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> int:
        """Append a few rows that are here already, without a query where that can be.

        Args:
            rows: the values of each, in the order of the columns.
            schema: the rows.

        Returns:
            How many rows were written.

        Raises:
            ConflictError: another run took the branch away.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        if not rows:
            return 0
        writer = self._catalog.data_file_writer(*self._path, schema)
        if writer is None:
            return self.append(local_rows(self._catalog.spark, rows, from_arrow_schema(schema)))
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        for written in writer.write([batch]):
            self._take(written.to_pylist())
        return len(rows)

    def append_made(self, rows: DataFrame, make: Make, schema: pa.Schema) -> int:
        """Append what a function makes of rows in tasks, which write it themselves if they can.

        Args:
            rows: what the function is given.
            make: from batches of those to batches of the table's rows.
            schema: the rows that it makes.

        Returns:
            How many rows were written.

        Raises:
            ConflictError: another run took the branch away.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        writer = self._catalog.data_file_writer(*self._path, schema)
        if writer is None:
            return self.append(rows.mapInArrow(light(make), from_arrow_schema(schema)))
        writer = replace(writer, by_place=set(MESSAGE_PLACE) <= set(schema.names))

        def write(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            return writer.write(make(batches))

        with self._writing():
            files = rows.mapInArrow(light(write), WRITTEN_DDL).collect()
        self._check_there()
        return self._take([file.asDict() for file in files])

    def _take(self, files: Iterable[Mapping[str, Any]]) -> int:
        """Remember data files for the next commit; returns how many rows they hold."""
        written = [WrittenFile(**file) for file in files]
        self._written += written
        return sum(file.rows for file in written)

    def _settle(self, stamp: Mapping[str, str] | None = None) -> None:
        """Commit the data files that were written since the last commit.

        Raises:
            ConflictError: another run took the branch away.
            ReconciliationError: a file does not hold what was written.
        """
        files, self._written = self._written, []
        if not files and not stamp and self._there:
            return
        if files or stamp or self.base is None:
            self._check_there()
            with self._writing():
                self._catalog.append_files(*self._path, self.name, self._start, files, stamp or {})
            self._advance("")
        else:
            self._catalog.set_ref(*self._path, self.name, self.base, tag=False)
            self._there = True
        if not files:
            self._begun = self._head

    def few_written(self, columns: pa.Schema) -> pa.Table | None:
        """The rows that were appended, read from their data files without a query.

        Args:
            columns: the columns that are wanted.

        Returns:
            None where they are more, or where something else than appended rows may be among what
            the branch brings.
        """
        import pyarrow as pa

        many = sum(file.rows for file in self._written) > FEW_ROWS
        if many or self._head != self._begun or sum(f.bytes for f in self._written) > FEW_BYTES:
            return None
        opened = [self._catalog.opened_by_tasks(file.path) for file in self._written]
        return pa.Table.from_batches(
            [
                batch
                for path, file in zip(opened, self._written, strict=True)
                for batch in read_piece(FilePiece(str(path), 0, file.bytes), columns)
            ],
            columns,
        )

    def replace_rows(
        self,
        files: Sequence[WrittenFile],
        deletes: Sequence[WrittenDeletes],
        stamp: Mapping[str, str] | None = None,
    ) -> None:
        """Append data files that tasks have written, and delete the rows that they replace.

        Args:
            files: the data files.
            deletes: which rows of the branch's data files are gone.
            stamp: what the snapshot carries, if it is the branch's last.

        Raises:
            ConflictError: another run took the branch away.
        """
        if self._written:
            self._settle()
        with self._writing():
            self._catalog.replace_rows(
                *(*self._path, self.name, self._start, self._head),
                *(files, deletes, stamp or {}),
            )
        self._advance("added-records")

    def overwrite(self, rows: DataFrame, where: Column) -> int:
        """Put rows in the place of those that `where` holds for, which must be whole partitions.

        Returns:
            How many rows were written.
        """
        self._settle()
        with self._writing():
            rows.writeTo(self.identifier).overwrite(where)
        return self._advance("added-records")

    def delete_partition(self, column: str, value: str) -> int:
        """Delete the rows of a partition, which costs no query; returns how many they were."""
        rows = self._catalog.equal(column, value)
        return self.change(lambda t: t.newDelete().deleteFromRowFilter(rows), "deleted-records")

    def change(self, make: Callable[[Any], Any], counter: str) -> int:
        """Commit what Iceberg's own API makes of the table; returns a counter of the snapshot."""
        self._settle()
        make(self._catalog.load(*self._path)).toBranch(self.name).commit()
        return self._advance(counter)

    def sql(self, statement: str, values: Mapping[str, str | int] | None = None) -> dict[str, str]:
        """Run a statement in which `{branch}` stands for this branch, e.g. a MERGE.

        Args:
            statement: SQL; names that are not our own must be quoted (`names.quoted`).
            values: literals for further placeholders, `{name}` in the statement.

        Returns:
            The summary of the snapshot it made, empty if it made none.
        """
        before = self.head
        # Spark binds no parameters inside the clauses of a MERGE, so literals are written out.
        known = {name: literal(value) for name, value in (values or {}).items()}
        known["branch"] = self.identifier
        text = _PLACEHOLDER.sub(lambda match: known[match[1]], statement)
        with self._writing():
            self._catalog.spark.sql(text)
        self._advance("")
        if self.head == before:
            return {}
        return self._catalog.metadata(*self._path).snapshots[self.head].summary

    def read(self) -> DataFrame:
        """The rows of the table as the branch has them."""
        self._settle()
        return self._catalog.spark.read.option("branch", self.name).table(
            quoted(CATALOG, *self._path)
        )

    def added(self) -> DataFrame:
        """The rows appended to the branch so far."""
        return increment(self._catalog, self.table, self.base, self.head)

    def commit(
        self, cursor: Mapping[str, Any], report: Mapping[str, Any], batch: str, stage: str
    ) -> int:
        """Stamp the branch: its newest snapshot carries these from now on.

        Returns:
            Id of the stamped snapshot.
        """
        self._settle(stamp_of(cursor, report, batch, stage))
        return self.head

    def fast_forward(self, alone: bool = False) -> None:
        """Let main be this branch, if main still is where the branch started; drop the branch.

        Where main was only compacted since, the branch takes the place of the compaction, which
        brought no rows: upkeep can do its work again, a batch that is half shown cannot.

        Args:
            alone: only while no other branch is there, so that none of them is left behind.

        Raises:
            ConflictError: main moved; the branch stays.
        """
        move = partial(self._catalog.move, *self._path)
        moved = move(self.base, self.head, self.name, self.becomes, alone)
        if not moved and not alone:
            metadata = self._catalog.metadata(*self._path)
            main, same = whole(metadata), self.base in same_as_main(metadata)
            moved = same and move(main, self.head, self.name, self.becomes)
        if not moved:
            message = (
                f"another run has moved {self.table} since this one started, so nothing of this "
                "run was made visible: run the batch again"
            )
            raise ConflictError(message, code=Code.CONCURRENT_RUN)

    def stands(self) -> bool:
        """Whether it is visible, or still there as it was last seen with main where it started."""
        metadata = self._catalog.metadata(*self._path)
        if metadata.refs.get(self.name) == self._head:
            return self.base in same_as_main(metadata) or whole(metadata) == self._head
        return any(one.id == self._head for one in metadata.ancestors(metadata.refs.get("main")))

    def drop(self) -> None:
        """Remove the branch."""
        self._catalog.remove_refs(*self._path, [self.name])

    def _advance(self, counter: str) -> int:
        """Take the branch's new head; it must follow from the one this run knows.

        Returns:
            The counter of the new snapshot's summary, 0 if there is no new one.
        """
        metadata = self._catalog.metadata(*self._path)
        head = metadata.refs.get(self.name)
        # A write to a branch that was dropped meanwhile makes a new one, from main.
        if head is None or not self._follows(metadata, head):
            if head is not None:
                self.drop()
            raise ConflictError(self._taken(), code=Code.CONCURRENT_RUN)
        moved, self._head, self._there = head != self._head, head, True
        return int(metadata.snapshots[head].summary.get(counter, 0)) if moved else 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say errors of tasks as what they are, and that the branch is gone where it is."""
        try:
            with unwrapped():
                yield
        except WaybillError:
            raise
        except Exception as error:
            if self._there and self.name not in self._catalog.metadata(*self._path).refs:
                raise ConflictError(self._taken(), code=Code.CONCURRENT_RUN) from error
            raise

    def _check_there(self) -> None:
        """Raise ConflictError if another run has taken the branch away.

        Iceberg would make it again, from main; on that one this run must not go on.
        """
        if self._there and self.name not in self._catalog.metadata(*self._path).refs:
            raise ConflictError(self._taken(), code=Code.CONCURRENT_RUN)

    def _taken(self) -> str:
        return (
            f"another run of this batch took over the branch {self.name} of {self.table}, so "
            "nothing of this run was made visible: wait for the other one"
        )

    def _follows(self, metadata: Metadata, head: int) -> bool:
        return head == self._head or metadata.snapshots[head].parent == self._head


def stamp_of(
    cursor: Mapping[str, Any], report: Mapping[str, Any], batch: str, stage: str
) -> dict[str, str]:
    """What the summary of a stamped snapshot says beside what Iceberg writes there."""
    return {BATCH: batch, STAGE: stage, CURSOR: compact(cursor), REPORT: compact(report)}


def compact(data: Mapping[str, Any]) -> str:
    """JSON without blanks, as it is kept in snapshot summaries."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def increment(
    catalog: Catalog,
    table: str,
    after: int | None,
    upto: int | None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows appended after one snapshot and up to another."""
    name = quoted(CATALOG, *split(table))
    if upto is None or after == upto:
        return catalog.spark.table(name).limit(0)
    reader = catalog.spark.read.options(**(options or {}))
    if after is None:
        return reader.option("versionAsOf", str(upto)).table(name)
    between = {"start-snapshot-id": str(after), "end-snapshot-id": str(upto)}
    return reader.options(**between).table(name)
