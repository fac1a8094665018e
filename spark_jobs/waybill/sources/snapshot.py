"""Stage `snapshot`: the source's new messages into the archive, bytes untouched."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from waybill.counting import counted
from waybill.errors import Code, SourceError
from waybill.lake import LOG_PROPERTIES
from waybill.lake.row_sizes import RowSizes
from waybill.lake.stage_commit import land, repeated
from waybill.lake_columns import ARCHIVE
from waybill.mapping.rules import fits
from waybill.report import BEGAN, StageReport
from waybill.sources.dumps import Known, plan_dumps, read_dumps, with_digests
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake import Branch, Commit, Lake
    from waybill.sources.dumps import DumpTask
    from waybill.sources.tasks import FileCounts
    from waybill.spec.migration import Dump, Migration
    from waybill.stage_context import StageContext

STAGE = "snapshot"
SOURCE = "source"
"""Key of a cursor that names the kind of source it is of; files where it is missing."""


class SourceWork(Protocol):
    """What one batch brings from a source: planned when it is made, then read, then remembered."""

    @property
    def announced(self) -> str:
        """What is about to be read, for a person who watches."""

    def bring(self, branch: Branch, report: StageReport, sizes: RowSizes) -> None:
        """Put the messages on the branch, and their counts into the report."""

    def cursor(self) -> dict[str, Any]:
        """What has been read after this batch."""

    def landed(self) -> list[str]:
        """Do what may only be done once the batch is visible; returns what went wrong with it."""


def run_snapshot(spec: Migration, context: StageContext) -> StageReport:
    """Read what is new in the source, up to what is there now.

    Raises:
        SourceError: the source is not what was read before, or cannot be read.
        ConfigurationError: its connection or its topics are not there.
        UnreachableError: its servers do not answer.
        ConflictError: another run moved the archive first.
        ReconciliationError: the rows written are not the messages read.
    """
    started = time.monotonic()
    lake, batch = context.lake, context.batch
    archive = lake.ensure(lake.log("archive"), ARCHIVE, properties=LOG_PROPERTIES)
    done = lake.find(archive, STAGE, batch)
    if done is not None:
        context.progress("snapshot: batch %s was done before", batch)
        return repeated(done, "archive")
    branch = lake.branch(archive, STAGE, batch)
    began = round(time.time(), 3)
    work = _begin(spec, context, archive)
    loaded = _loaded(lake, archive)
    dumps: list[DumpTask] = []
    if context.options.mode != "replay":
        dumps, loaded = plan_dumps(_dumps(spec, context), loaded)
    context.progress("snapshot: %s", work.announced)
    report = StageReport(STAGE, batch, file=context.spec.digest)
    sizes = RowSizes(context.spark.sparkContext)
    work.bring(branch, report, sizes)
    if dumps:
        digests = _load(context, branch, dumps, report, sizes)
        loaded = with_digests(loaded, dumps, digests)
    sizes.tell(report, "archive")
    # Whatever was in the source by then is in the batch.
    report.details[BEGAN] = began
    report.cursor = {**work.cursor(), "full": loaded}
    land(branch, report, "archive", started)
    context.progress("snapshot: %s in the archive", counted(report.rows_out, "message"))
    for trouble in work.landed():
        context.progress("snapshot: %s", trouble)
        report.warnings.append(trouble)
    return report


def _begin(spec: Migration, context: StageContext, archive: str) -> SourceWork:
    """The work of the migration's kind of source."""
    kind = "files" if spec.source.kafka is None else "kafka"
    commits = _commits(context, archive, kind)
    if spec.source.kafka is not None:
        from waybill.sources.kafka.work import KafkaWork

        return KafkaWork(spec.source.kafka, context, commits)
    from waybill.sources.file_work import FileWork

    assert spec.source.files is not None, "a source is one of the two"
    return FileWork(spec.source.files, context, commits)


def _commits(context: StageContext, archive: str, kind: str) -> Iterator[Commit]:
    """What was committed from this kind of source, newest first."""
    last = context.lake.last(archive, STAGE)
    if last is not None and context.options.mode == "incremental":
        before = last.cursor.get(SOURCE, "files")
        if before != kind:
            message = (
                f"the archive was filled from {before} so far, and the source is in {kind} now: "
                "run with mode full (`--full`) to read it from its beginning if the envelope has "
                "sequence ids, else give the migration a new name"
            )
            raise SourceError(message, code=Code.SOURCE_KIND)
    stamped = context.lake.commits(archive)
    return (
        commit
        for commit in stamped
        if commit.stage == STAGE and commit.cursor.get(SOURCE, "files") == kind
    )


def _dumps(spec: Migration, context: StageContext) -> dict[str, Dump]:
    """The dumps that the batch looks at; of a reload those of its tables."""
    if context.options.mode != "reload":
        return spec.full
    return {
        table: dump for table, dump in spec.full.items() if fits((table,), context.options.tables)
    }


def _loaded(lake: Lake, archive: str) -> Known:
    """The full loads of earlier batches."""
    last = lake.last(archive, STAGE)
    return {} if last is None else dict(last.cursor.get("full", {}))


def _load(
    context: StageContext,
    branch: Branch,
    dumps: list[DumpTask],
    report: StageReport,
    sizes: RowSizes,
) -> dict[str, str]:
    """Put the rows of dumps beside the messages; returns the digests of the files by task."""
    size = sum(task.size for task in dumps) / 1e6
    files = counted(len(dumps), "file")
    context.progress("snapshot: full loads of %s with %.1f MB", files, size)
    tally, batch = Tally(context.spark.sparkContext), context.batch

    def tell(task: DumpTask, counts: FileCounts) -> None:
        tally.add({task.name: (counts.rows, counts.digest)})

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for numbers in batches:
            numbered: list[Any] = numbers.column(0).to_pylist()
            for number in numbered:
                yield from sizes.of(read_dumps([dumps[number]], batch, tell))

    frame = context.spark.range(0, len(dumps), 1, len(dumps))
    report.rows_out += branch.append_made(frame, read, ARCHIVE)
    rows = {task.name: tally.counts[task.name][0] for task in dumps}
    report.rows_in += sum(rows.values())
    report.details["full_loads"] = rows
    return {task.name: tally.counts[task.name][1] for task in dumps}
