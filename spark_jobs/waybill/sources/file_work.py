"""The files of a source that one batch brings, read in Spark tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.lake_columns import ARCHIVE
from waybill.report import SEEN
from waybill.sources.cursor import FileState, read_cursor, write_cursor
from waybill.sources.files import FilesPlan, grouped, left_out_sentence, plan, read_tasks
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake import Branch, Commit
    from waybill.lake.row_sizes import RowSizes
    from waybill.report import StageReport
    from waybill.sources.tasks import FileCounts, FileTask
    from waybill.spec.endpoints import FilesSource
    from waybill.stage_context import StageContext

EMPTY_LINES = "empty line"
SHOWN_FILES = 100
"""How many files a report names."""


class FileWork:
    """What is new in the files of a source, see `waybill.sources.snapshot.SourceWork`.

    Args:
        source: where the files are.
        context: the stage.
        commits: what was committed so far, newest first.

    Raises:
        SourceError: a file that was read before has changed or is gone.
    """

    kind = "files"

    def __init__(
        self, source: FilesSource, context: StageContext, commits: Iterable[Commit]
    ) -> None:
        self._source = source
        self._context = context
        self._afresh = context.options.mode == "full"
        self._cursor = read_cursor(commit.cursor for commit in commits)
        self._asked: int | None = None
        if not context.options.reads_source:
            known = self._cursor
            self._plan = FilesPlan(
                known.base or "", [], len(known.files), {}, known.next_number, topic=known.topic
            )
        else:
            self._asked = int(time.time() * 1000)
            self._plan = plan(source, self._cursor, self._afresh)
        self._states: dict[str, FileState] = dict(self._plan.touched)

    @property
    def announced(self) -> str:
        """What is about to be read."""
        work = self._plan
        size = sum(task.size for task in work.tasks) / 1e6
        known = counted(work.known, "known one")
        new = counted(len(work.tasks), "new file")
        return f"{new} with {size:.1f} MB, {known}" if work.tasks else f"no new files, {known}"

    def bring(self, branch: Branch, report: StageReport, sizes: RowSizes) -> None:
        """Put the messages on the branch and their counts into the report.

        Raises:
            SourceError: a file cannot be read.
        """
        tasks = self._plan.tasks
        if tasks:
            tally = Tally(self._context.spark.sparkContext)
            written = self._write(branch, tasks, tally, sizes)
            counts = {task.name: tally.counts[task.name] for task in tasks}
            report.rows_in = sum(rows + empty for rows, empty, _ in counts.values())
            report.rows_out = written
            empty = sum(empty for _, empty, _ in counts.values())
            report.skipped = {EMPTY_LINES: empty} if empty else {}
            for task in tasks:
                rows, _empty, digest = counts[task.name]
                state = FileState(task.number, task.size, task.token, digest, rows)
                self._states[task.name] = state
        self._describe(report)

    def cursor(self) -> dict[str, Any]:
        """What has been read after this batch."""
        work = self._plan
        return write_cursor(
            self._cursor, work.base, self._states, work.next_number, self._afresh, work.topic
        )

    def landed(self) -> list[str]:
        """Nothing is left to do once the batch is visible."""
        return []

    def _write(self, branch: Branch, tasks: list[FileTask], tally: Tally, sizes: RowSizes) -> int:
        groups, layout, batch = grouped(tasks), self._source.layout, self._context.batch

        def tell(task: FileTask, counts: FileCounts) -> None:
            tally.add({task.name: (counts.rows, counts.empty, counts.digest)})

        def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for numbers in batches:
                numbered: list[Any] = numbers.column(0).to_pylist()
                for number in numbered:
                    yield from sizes.of(read_tasks(groups[number], layout, batch, tell))

        frame = self._context.spark.range(0, len(groups), 1, len(groups))
        return branch.append_made(frame, read, ARCHIVE)

    def _describe(self, report: StageReport) -> None:
        work = self._plan
        files: list[dict[str, Any]] = [
            {"file": task.name, "number": task.number, "rows": self._states[task.name].rows}
            for task in work.tasks[:SHOWN_FILES]
        ]
        report.details = {
            "new_files": len(work.tasks),
            "known_files": work.known,
            "bytes": sum(task.size for task in work.tasks),
            "files": files,
        }
        if self._asked is not None:
            report.details[SEEN] = {"at": self._asked, "left": 0}
        if work.left_out:
            report.warnings.append(left_out_sentence(work.left_out))
        if work.other:
            have = counted(len(work.other), "file has", "files have")
            sentence = f"{have} other content than before, e.g. {work.other[0]}"
            report.warnings.append(
                f"{sentence}: their changes have the positions of what was there, and where the "
                "envelope has no sequence ids they lose against it"
            )
