"""The ranges of topics that one batch brings, read in Spark tasks.

The tasks are `mapInArrow` over a frame of numbers, as those of files are, and not a data source of
Spark: that would be registered in the session, password and all, and stay there. What the tasks
need, the password too, travels in their pickled function and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.errors import ReconciliationError
from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.lake_columns import ARCHIVE
from waybill.report import SEEN
from waybill.sources.kafka.groups import commit_offsets
from waybill.sources.kafka.pieces import dealt, piece_size
from waybill.sources.kafka.plan import TopicsPlan, check_unchanged, plan
from waybill.sources.kafka.positions import NOTHING, OffsetRange, read_positions, write_positions
from waybill.sources.kafka.reader import RangeOptions, ReadRange, read_ranges
from waybill.spark_tasks.counters import Tally
from waybill.spec.durations import seconds_of

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake import Branch, Commit
    from waybill.lake.row_sizes import RowSizes
    from waybill.report import StageReport
    from waybill.sources.kafka.positions import Positions
    from waybill.spec.endpoints import KafkaSource
    from waybill.stage_context import StageContext

SHOWN = 100
"""How many partitions a report names."""


class KafkaWork:
    """What is new in the topics of a source, see `waybill.sources.snapshot.SourceWork`.

    Args:
        source: the topics.
        context: the stage.
        commits: what was committed so far, newest first.

    Raises:
        SourceError: a topic is not what was read before.
        ConfigurationError: the connection or a topic is not there, or may not be used.
        UnreachableError: the brokers do not answer.
    """

    def __init__(
        self, source: KafkaSource, context: StageContext, commits: Iterable[Commit]
    ) -> None:
        self._source = source
        self._context = context
        self._afresh = context.options.mode == "full"
        self._plan = TopicsPlan({}, [], [], {})
        self._before: Positions = NOTHING
        self._bytes_each = 0.0
        self._asked: int | None = None
        history = iter(commits)
        last = next(history, None)
        if last is not None:
            self._before = read_positions(commit.cursor for commit in chain([last], history))
            self._bytes_each = last.report["details"].get("bytes_each", 0.0)
        if context.options.reads_source:
            self._properties = named_properties(source.connection)
            self._cluster = Cluster(self._properties)
            self._cluster.reach()
            if context.options.until_time is None:
                self._asked = int(time.time() * 1000)
            self._plan = plan(source, self._cluster, self._before, self._afresh)

    @property
    def announced(self) -> str:
        """What is about to be read."""
        spans = [span for span in self._plan.ranges if span.offsets]
        known = counted(len(self._plan.ranges), "partition")
        topics = counted(len(self._plan.ids), "topic")
        new = counted(self._plan.offsets, "new offset")
        return f"{new} in {len(spans)} of {known} of {topics}"

    def bring(self, branch: Branch, report: StageReport, sizes: RowSizes) -> None:
        """Put the messages on the branch and their counts into the report.

        Raises:
            SourceError: messages were deleted meanwhile, or a topic was made again.
            UnreachableError: the brokers went away and did not come back.
            ReconciliationError: a range was not reported.
        """
        read: dict[OffsetRange, ReadRange] = {}
        if self._plan.offsets:
            size = piece_size(
                self._plan.offsets,
                self._context.spark.sparkContext.defaultParallelism,
                self._source.messages_per_task,
                self._bytes_each,
            )
            tasks = dealt(self._plan.ranges, size)
            tally = Tally(self._context.spark.sparkContext)
            report.rows_out = self._write(branch, tasks, tally, sizes)
            read = _read_by_tasks(tasks, tally)
            report.rows_in = sum(outcome.rows for outcome in read.values())
            check_unchanged(self._cluster, self._plan)
        self._describe(report, read)
        self._warn(report, read)

    def cursor(self) -> dict[str, Any]:
        """What has been read after this batch."""
        done = self._plan
        afresh = self._afresh and bool(done.ids)
        return write_positions(self._before, done.ids, done.ranges, afresh)

    def landed(self) -> list[str]:
        """Tell the consumer group, if there is one, what has been read."""
        if self._source.group is None or not self._plan.ranges:
            return []
        return commit_offsets(self._properties, self._source.group, self._plan.ranges)

    def _write(
        self, branch: Branch, tasks: list[list[OffsetRange]], tally: Tally, sizes: RowSizes
    ) -> int:
        reading = RangeOptions(
            self._properties,
            self._context.batch,
            float(seconds_of(self._source.stall)),
            self._source.on_data_loss == "earliest",
            self._source.unreadable_headers == "leave_out",
        )

        def tell(span: OffsetRange, outcome: ReadRange) -> None:
            tally.add({str(span): tuple(outcome)})

        def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for numbers in batches:
                numbered: list[Any] = numbers.column(0).to_pylist()
                for number in numbered:
                    yield from sizes.of(read_ranges(tasks[number], reading, tell))

        frame = self._context.spark.range(0, len(tasks), 1, len(tasks))
        return branch.append_made(frame, read, ARCHIVE)

    def _describe(self, report: StageReport, read: dict[OffsetRange, ReadRange]) -> None:
        rows: dict[tuple[str, int], int] = {}
        for span, outcome in read.items():
            rows[span[:2]] = rows.get(span[:2], 0) + outcome.rows
        size = sum(outcome.bytes for outcome in read.values())
        spans = [span for span in self._plan.ranges if span.offsets]
        report.details = {
            "topics": len(self._plan.ids),
            "partitions": len(self._plan.ranges),
            "offsets": self._plan.offsets,
            "bytes": size,
            "bytes_each": round(size / report.rows_in, 1) if report.rows_in else self._bytes_each,
            "ranges": [{**span._asdict(), "rows": rows.get(span[:2], 0)} for span in spans[:SHOWN]],
        }
        lost = sum(loss.end - loss.start for loss in self._plan.losses)
        lost += sum(outcome.lost for outcome in read.values())
        if lost:
            report.details["lost_offsets"] = lost
        held = sum(self._plan.held.values())
        if held:
            report.details["held_offsets"] = held
        if self._asked is not None:
            report.details[SEEN] = {"at": self._asked, "left": held}

    def _warn(self, report: StageReport, read: dict[OffsetRange, ReadRange]) -> None:
        missing = [(loss, loss.end - loss.start) for loss in self._plan.losses]
        missing += [(span, outcome.lost) for span, outcome in read.items() if outcome.lost]  # type: ignore[misc]
        for loss, count in missing[:SHOWN]:
            report.warnings.append(
                f"{counted(count, 'offset')} of partition {loss.partition} of the topic "
                f"{loss.topic} from offset {loss.start} on could no longer be read: the brokers "
                "had deleted that part"
            )
        for span, outcome in [(span, outcome) for span, outcome in read.items() if outcome.bare][
            :SHOWN
        ]:
            report.warnings.append(
                f"{counted(outcome.bare, 'message')} of partition {span.partition} of the topic "
                f"{span.topic} from offset {span.start} to {span.end} could only be archived "
                "without headers: the name of one is not UTF-8"
            )
        for (topic, partition), count in list(self._plan.held.items())[:SHOWN]:
            report.warnings.append(
                f"the last {counted(count, 'offset')} of partition {partition} of the topic "
                f"{topic} will come with a later batch, because a transaction is open"
            )


def _read_by_tasks(tasks: list[list[OffsetRange]], tally: Tally) -> dict[OffsetRange, ReadRange]:
    """What the tasks reported of every piece."""
    counts = tally.counts
    silent = [span for task in tasks for span in task if str(span) not in counts]
    if silent:
        message = f"{silent[0]} was planned and not read to its end; nothing was committed"
        raise ReconciliationError(message)
    return {span: ReadRange(*counts[str(span)]) for task in tasks for span in task}
