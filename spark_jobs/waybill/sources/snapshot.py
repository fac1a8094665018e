"""Stage `snapshot`: the source's new messages into the archive, bytes untouched."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from waybill.errors import ConfigurationError
from waybill.lake import LOG_PROPERTIES
from waybill.lake.landing import land, repeated
from waybill.layout import ARCHIVE
from waybill.report import StageReport
from waybill.sources.cursor import FileState, read_cursor, write_cursor
from waybill.sources.dumps import Known, plan_dumps, read_dumps
from waybill.sources.files import Plan, grouped, plan, read_tasks
from waybill.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.context import StageContext
    from waybill.lake import Branch, Lake
    from waybill.sources.dumps import DumpTask
    from waybill.sources.tasks import FileCounts, FileTask
    from waybill.spec import FilesSource, Migration

STAGE = "snapshot"
EMPTY_LINES = "empty line"
SHOWN_FILES = 100
"""How many files a report names."""


def run_snapshot(spec: Migration, context: StageContext) -> StageReport:
    """Read what is new in the source, up to what is there now.

    Raises:
        SourceError: a file that was read before has changed or is gone, or one cannot be read.
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
    source = _files_of(spec)
    branch = lake.branch(archive, STAGE, batch)
    commits = (c for c in lake.commits(archive) if c.stage == STAGE)
    cursor = read_cursor(c.cursor for c in commits)
    afresh = context.options.mode == "full"
    loaded = _loaded(lake, archive)
    dumps: list[DumpTask] = []
    if context.options.mode == "replay":
        work = Plan(cursor.base or "", [], len(cursor.files), {}, cursor.next_number)
    else:
        work = plan(source, cursor, afresh)
        dumps, loaded = plan_dumps(spec.full, loaded)
    context.progress("snapshot: %s", _announced(work))
    report = StageReport(STAGE, batch)
    states: dict[str, FileState] = dict(work.touched)
    if work.tasks:
        tally = Tally(context.spark.sparkContext)
        written = branch.append(_messages(context, source, work.tasks, tally))
        counts = {task.name: tally.counts[task.name] for task in work.tasks}
        report.rows_in = sum(rows + empty for rows, empty, _ in counts.values())
        report.rows_out = written
        empty = sum(empty for _, empty, _ in counts.values())
        report.skipped = {EMPTY_LINES: empty} if empty else {}
        for task in work.tasks:
            rows, _empty, digest = counts[task.name]
            states[task.name] = FileState(task.number, task.size, task.token, digest, rows)
    _describe(report, work, states)
    if dumps:
        _load(context, branch, dumps, report)
    report.cursor = write_cursor(cursor, work.base, states, work.next_number, afresh)
    report.cursor["full"] = loaded
    land(branch, report, "archive", started)
    context.progress("snapshot: %d messages in the archive", report.rows_out)
    return report


def _loaded(lake: Lake, archive: str) -> Known:
    """The full loads of earlier batches."""
    last = lake.last(archive, STAGE)
    return {} if last is None else dict(last.cursor.get("full", {}))


def _load(
    context: StageContext, branch: Branch, dumps: list[DumpTask], report: StageReport
) -> None:
    """Put the rows of dumps beside the messages."""
    size = sum(task.size for task in dumps) / 1e6
    context.progress("snapshot: full loads of %d files with %.1f MB", len(dumps), size)
    tally, batch = Tally(context.spark.sparkContext), context.batch

    def tell(task: DumpTask, counts: FileCounts) -> None:
        tally.add({task.name: (counts.rows, 0, "")})

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for numbers in batches:
            numbered: list[Any] = numbers.column(0).to_pylist()
            for number in numbered:
                yield from read_dumps([dumps[number]], batch, tell)

    from pyspark.sql.pandas.types import from_arrow_schema

    frame = context.spark.range(0, len(dumps), 1, len(dumps))
    report.rows_out += branch.append(frame.mapInArrow(read, from_arrow_schema(ARCHIVE)))
    rows = {task.name: tally.counts[task.name][0] for task in dumps}
    report.rows_in += sum(rows.values())
    report.details["full_loads"] = rows


def _files_of(spec: Migration) -> FilesSource:
    if spec.source.files is None:
        message = f"the source of {spec.name} is not in files, and no other source is known here"
        raise ConfigurationError(message)
    return spec.source.files


def _messages(
    context: StageContext, source: FilesSource, tasks: list[FileTask], tally: Tally
) -> DataFrame:
    groups, layout, batch = grouped(tasks), source.layout, context.batch

    def tell(task: FileTask, counts: FileCounts) -> None:
        tally.add({task.name: (counts.rows, counts.empty, counts.digest)})

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for numbers in batches:
            numbered: list[Any] = numbers.column(0).to_pylist()
            for number in numbered:
                yield from read_tasks(groups[number], layout, batch, tell)

    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(ARCHIVE)
    return context.spark.range(0, len(groups), 1, len(groups)).mapInArrow(read, schema)


def _announced(work: Plan) -> str:
    size = sum(task.size for task in work.tasks) / 1e6
    text = f"{len(work.tasks)} new files with {size:.1f} MB, {work.known} known ones"
    return text if work.tasks else f"no new files, {work.known} known ones"


def _describe(report: StageReport, work: Plan, states: dict[str, FileState]) -> None:
    files: list[dict[str, Any]] = [
        {"file": task.name, "number": task.number, "rows": states[task.name].rows}
        for task in work.tasks[:SHOWN_FILES]
    ]
    report.details = {
        "new_files": len(work.tasks),
        "known_files": work.known,
        "bytes": sum(task.size for task in work.tasks),
        "files": files,
    }
    if work.left_out:
        report.warnings.append(
            f"{len(work.left_out)} files of other layouts were left out, e.g. {work.left_out[0]}"
        )
