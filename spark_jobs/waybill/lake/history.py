"""What stages have committed to the tables of a migration, read from their metadata alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake import commit as commits
from waybill.lake.branches import branch_base, branches, same_as_main, whole
from waybill.lake.metadata import Span
from waybill.lake.names import branch_prefix, split
from waybill.lake.settings import CATALOG
from waybill.lake.snapshot_ranges import added
from waybill.lake.table_properties import cut_tables, kept_since
from waybill.lake_columns import log_namespace

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.metadata import Metadata, Snapshot


class Chosen(NamedTuple):
    """Which rows are wanted, as far as their values in some columns tell.

    Attributes:
        columns: those that are asked.
        accepts: whether a row with such values is wanted.
        likely: of an Arrow table with these columns, a mask that leaves out most rows that are not
          wanted, and none that is; None where nothing can be said so fast.
    """

    columns: Sequence[str]
    accepts: Callable[[dict[str, Any]], bool]
    likely: Callable[[Any], Any] | None = None


class BranchInfo(NamedTuple):
    """A branch that is waiting: written, not visible."""

    name: str
    head: int
    commit: Commit | None


def in_order(values: Iterable[Any]) -> tuple[Any, ...]:
    """What rows are sorted by: their values, in which None goes first."""
    return tuple((value is not None, 0 if value is None else value) for value in values)


class History(ABC):
    """The tables of one migration for whoever only looks, with Spark or without.

    Args:
        migration: its name.
    """

    def __init__(self, migration: str) -> None:
        self.migration = migration

    @abstractmethod
    def exists(self, table: str) -> bool:
        """Whether the table is there."""

    @abstractmethod
    def metadata(self, table: str) -> Metadata:
        """Snapshots and refs of a table as they are now."""

    @abstractmethod
    def found(self, table: str) -> Metadata | None:
        """Snapshots and refs of a table as they are now; None where it is not there."""

    @abstractmethod
    def table_names(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""

    @abstractmethod
    def owner(self, name: str) -> str | None:
        """The source table of a merged table."""

    @abstractmethod
    def scan(
        self,
        table: str,
        columns: Sequence[str],
        where: Mapping[str, Sequence[str | int]],
        snapshot: int | None = None,
        chosen: Chosen | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Rows of a table, in no order.

        Args:
            table: full name.
            columns: those that are wanted; what rows do not have is None, and so are days and
                times outside the years 1 to 9999.
            where: the values that rows have in some columns.
            snapshot: the rows of this one, not of the newest that is visible.
            chosen: which of those; its columns are among `columns`.
        """

    def first(
        self,
        table: str,
        columns: Sequence[str],
        where: Mapping[str, Sequence[str | int]],
        by: Sequence[str],
        limit: int,
        snapshot: int | None = None,
        chosen: Chosen | None = None,
    ) -> list[dict[str, Any]]:
        """The first rows of a table in the order of some columns, in which None goes first.

        Args:
            table: see `scan`, as for what is not stated here.
            columns: those that are wanted, those of `by` among them.
            where: the values that rows have in some columns.
            by: the columns to sort by.
            limit: at most so many rows.
            snapshot: the rows of this one, not of the newest that is visible.
            chosen: which of those.
        """
        rows = self.scan(table, columns, where, snapshot, chosen)
        return nsmallest(limit, rows, key=lambda row: in_order(row[name] for name in by))

    def log(self, name: str) -> str:
        """Full name of a batch table: archive, changes, outbox, published, runs."""
        return f"{CATALOG}.{log_namespace(self.migration)}.{name}"

    def merged_tables(self) -> dict[str, str]:
        """Full names of the merged tables that are there, by source table, sorted."""
        owned = {self.source_of(table): table for table in self.full_names()}
        return {source: owned[source] for source in sorted(owned)}

    def full_names(self) -> list[str]:
        """Full names of the merged tables that are there, of which none is looked at."""
        return [f"{CATALOG}.{self.migration}.{name}" for name in self.table_names(self.migration)]

    def source_of(self, table: str) -> str:
        """The source table of a merged table by its full name; its own name if none is stated."""
        name = split(table)[1]
        owner = self.owner(name)
        return name if owner is None else owner

    def head(self, table: str, ref: str = "main") -> int | None:
        """Id of the snapshot that a branch or tag names; None if there is none.

        Of main it is the whole one, with the rows that are kept aside (`branches.whole`).
        """
        metadata = self.found(table)
        if metadata is None:
            return None
        return whole(metadata) if ref == "main" else metadata.refs.get(ref)

    def commits(self, table: str) -> Iterator[Commit]:
        """What stages committed to main, newest first."""
        return self.between(table, None, None)

    def known_since(self, table: str) -> int:
        """The time (milliseconds since 1970) main's history goes back to, 0 if it is whole."""
        metadata = self.metadata(table)
        line = metadata.ancestors(metadata.refs.get("main"))
        return line[-1].time_ms if line and line[-1].parent is not None else 0

    def kept_since(self, table: str) -> str | None:
        """Since when a table of messages is whole, as people read it; None where none was deleted.

        Batches that ended before have lost messages to `retention`.
        """
        metadata = self.found(table)
        return None if metadata is None else kept_since(metadata.properties)

    def changes_since(self, qualified: str | None = None) -> str | None:
        """Since when all changes of rows are there, as people read it; None if all ever are.

        Args:
            qualified: of which source table; None for all of them.
        """
        metadata = self.found(self.log("changes"))
        cut = {} if metadata is None else cut_tables(metadata.properties)
        if metadata is None or not cut or (qualified is not None and qualified not in cut):
            return None
        return kept_since(metadata.properties)

    def cut_tables(self) -> frozenset[str]:
        """The source tables of whose rows changes were ever deleted."""
        metadata = self.found(self.log("changes"))
        return frozenset() if metadata is None else frozenset(cut_tables(metadata.properties))

    def cut_below(self, qualified: str) -> str | None:
        """The order up to which changes of a source table may be gone; None if none ever was."""
        metadata = self.found(self.log("changes"))
        return None if metadata is None else cut_tables(metadata.properties).get(qualified)

    def between(self, table: str, after: int | None, upto: int | None) -> Iterator[Commit]:
        """What stages committed after one snapshot and up to another, newest first.

        Both may be snapshots that upkeep made, which carry no stamp.

        Args:
            table: full name.
            after: snapshot that is excluded, None to go on to the beginning.
            upto: newest snapshot, None for the newest there is.
        """
        for snapshot in self._stamped(table, after, upto):
            commit = commits.read_commit(snapshot)
            assert commit is not None, "it is stamped"
            yield commit

    def batches(self, table: str) -> Iterator[str]:
        """The batches that stages committed to main, newest first, one for each commit.

        What a stage noted with a batch is not read, which takes longer than all the rest.
        """
        return (snapshot.summary[commits.BATCH] for snapshot in self._stamped(table))

    def _stamped(
        self, table: str, after: int | None = None, upto: int | None = None
    ) -> Iterator[Snapshot]:
        """The snapshots of main that a stage committed, newest first; see `between`."""
        metadata = self.found(table)
        if metadata is None:
            return
        inside = upto is None
        for snapshot in metadata.ancestors(metadata.refs.get("main")):
            if snapshot.id == after:
                return
            inside = inside or snapshot.id == upto
            if inside and commits.is_stamped(snapshot):
                yield snapshot

    def newest(self, table: str, after: int | None = None) -> int | None:
        """Up to where a consumer can read: the newest snapshot of main that a stage committed.

        What upkeep put on top of it brings no rows, and could not be distinguished by its stamp.

        Args:
            table: full name.
            after: where the consumer stands, which is returned where nothing has come since.
        """
        metadata = self.found(table)
        if metadata is None:
            return None
        for snapshot in metadata.ancestors(metadata.refs.get("main")):
            if snapshot.id == after or commits.is_stamped(snapshot):
                return snapshot.id
        return None

    def find(self, table: str, stage: str, batch: str) -> Commit | None:
        """The visible commit of a stage and batch, None if the batch has not been done."""
        for snapshot in self._stamped(table):
            summary = snapshot.summary
            if summary[commits.STAGE] == stage and summary[commits.BATCH] == batch:
                return commits.read_commit(snapshot)
        return None

    def last(self, table: str, stage: str) -> Commit | None:
        """The newest visible commit of a stage, whose cursor the next batch starts from."""
        for snapshot in self._stamped(table):
            if snapshot.summary[commits.STAGE] == stage:
                return commits.read_commit(snapshot)
        return None

    def waiting(
        self, table: str, stage: str, batch: str | None = None, metadata: Metadata | None = None
    ) -> list[BranchInfo]:
        """Branches of a stage (and batch) that are there and not visible.

        Args:
            table: full name.
            stage: that wrote them.
            batch: that they were written for, None for any.
            metadata: what the table is like, if that was just asked for.
        """
        metadata = metadata or self.found(table)
        return [] if metadata is None else self._waiting(metadata, stage, batch)

    @staticmethod
    def _waiting(metadata: Metadata, stage: str, batch: str | None) -> list[BranchInfo]:
        prefix = f"{stage}_" if batch is None else branch_prefix(stage, batch)
        return [
            BranchInfo(name, head, commits.read_commit(metadata.snapshots[head]))
            for name, head in metadata.refs.items()
            if name in branches(metadata) and name.startswith(prefix)
        ]

    def held_commits(
        self, table: str, stage: str, batch: str | None = None
    ) -> list[tuple[str, Commit]]:
        """Branches that are stamped and wait and that main has not left behind, the newest last."""
        metadata = self.found(table)
        if metadata is None:
            return []
        waiting = self._waiting(metadata, stage, batch)
        same = same_as_main(metadata)
        found = [
            (info.name, info.commit)
            for info in waiting
            if info.commit is not None and branch_base(metadata, info.name) in same
        ]
        # Two runs of a batch at once may leave two. Whoever asks takes the same one, also of two
        # that were stamped in one millisecond.
        return sorted(found, key=lambda one: (one[1].time_ms, one[0]))

    def added_rows(self, table: str, after: int | None, upto: int | None) -> int:
        """How many rows `increment` has, from the metadata alone.

        Rows that were deleted again count too, as they do there; not so where `after` is None.
        """
        return self._added(Span(table, after, upto), "added-records", "total-records")

    def shown_rows(self, table: str, snapshot: int | None) -> int:
        """How many rows a reader of a snapshot has, about, from the metadata alone.

        A deletion whose data file was rewritten since counts until upkeep clears it away.
        """
        if snapshot is None:
            return 0
        summary = self.metadata(table).snapshots[snapshot].summary
        deleted = int(summary.get("total-position-deletes", 0))
        return max(0, int(summary.get("total-records", 0)) - deleted)

    def _added(self, span: Span, counter: str, total: str) -> int:
        if span.empty:
            return 0
        return added(self.metadata(span.table), span, counter, total)
