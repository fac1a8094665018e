"""Looks for what no run tells of: a migration that is late, a batch that no stage goes on with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import BaseOperator

from waybill.connections import given
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.overview.files import read_index
from waybill.overview.schema import PUBLISHED, UNDER_WAY
from waybill.spec.durations import seconds_of
from waybill.spec.file import load_migration
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.lateness import LATE_AFTER, is_overdue
from waybill_airflow.signals.alerts import send
from waybill_airflow.submission import connections

if TYPE_CHECKING:
    from airflow.sdk import Context

    from waybill.overview.schema import Index
    from waybill.spec.alerts import Alerts, Event
    from waybill.spec.migration import Migration


class Finding(NamedTuple):
    """Something to tell.

    Attributes:
        event: which kind.
        mark: what it is about; it is told once for each.
        title: in one line.
        text: what was found and what to do.
    """

    event: Event
    mark: str
    title: str
    text: str


class WatchOperator(BaseOperator):
    """Looks at the overview of a migration and tells what it finds, once.

    Args:
        migration: path of the migration's file.
    """

    def __init__(self, *, migration: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.migration = migration

    def execute(self, context: Context) -> dict[str, str]:
        """Look, and tell what was not told before.

        Returns:
            What was found, as a mark by event, for the next look.
        """
        spec = load_migration(self.migration)
        index, now = in_lake_of(spec, read_index), datetime.now(UTC)
        findings = [] if index is None else find(spec, index, now)
        if spec.alerts is not None and "retention" in spec.alerts.on:
            with given(connections(spec.connections)):
                findings += find_endangered(spec, now)
        # With a map index it is the newest one, without one all of them.
        last = context["ti"].xcom_pull(
            task_ids=self.task_id, include_prior_dates=True, map_indexes=-1
        )
        before = last or {}
        for finding in findings:
            self.log.warning("%s: %s", finding.title, finding.text)
            if before.get(finding.event) != finding.mark:
                send(spec, finding.event, finding.title, finding.text, context)
        return {finding.event: finding.mark for finding in findings}


def find(spec: Migration, index: Index, now: datetime) -> list[Finding]:
    """What there is to tell of a migration.

    Args:
        spec: the migration.
        index: its overview.
        now: with its zone.
    """
    alerts = spec.alerts
    if alerts is None:
        return []
    looks = {"late": _late, "stalled": _stalled}
    found = (look(spec, alerts, index, now) for event, look in looks.items() if event in alerts.on)
    return [finding for finding in found if finding is not None]


def _late(spec: Migration, alerts: Alerts, index: Index, now: datetime) -> Finding | None:
    published = max((line.ended for line in index.batches if line.state == PUBLISHED), default=0)
    if not published:
        return None
    hours = (now.timestamp() - published / 1000) / 3600
    if alerts.late_after is not None:
        if hours * 3600 <= seconds_of(alerts.late_after):
            return None
        why = f"late_after is {alerts.late_after}"
    else:
        if not is_overdue(spec.schedule, published, now):
            return None
        why = f"by its schedule ({spec.schedule}) {LATE_AFTER} more should have come since"
    text = (
        f"The last batch that was published is {hours:.1f} hours old, and {why}. Look at its runs: "
        "one may wait for another, for a worker or for an answer, or the DAG is paused.\n"
        f"How far it is: {spec.command('status', 'FILE')}"
    )
    return Finding("late", str(published), f"{spec.name} is late", text)


def _stalled(spec: Migration, alerts: Alerts, index: Index, now: datetime) -> Finding | None:
    if index.held is not None:
        # What is behind a held batch waits for a person, who has been told.
        return None
    longest = seconds_of(alerts.stalled_after)
    for line in index.batches:
        hours = (now.timestamp() - line.ended / 1000) / 3600
        if line.state == UNDER_WAY and hours * 3600 > longest:
            text = (
                f"Batch {line.batch} is under way, and no stage of it has ended for {hours:.1f} "
                f"hours (stalled_after is {alerts.stalled_after}). Look at the log of its running "
                "task; if its run has ended, the next one goes on with it.\n"
                f"Go on by hand: {spec.command('run', 'FILE', '--batch', line.batch)}"
            )
            return Finding("stalled", line.batch, f"{spec.name}: batch {line.batch} stands", text)
    return None


def find_endangered(spec: Migration, now: datetime) -> list[Finding]:
    """Topics whose brokers will soon delete what the archive does not have yet.

    Raises:
        ConfigurationError: only Spark can open the catalog, or a connection, a topic or a right is
            missing.
        UnavailableError: the lake's store, or the brokers, do not answer.
    """
    if spec.source.kafka is None:
        return []
    from waybill.lake.without_spark import opened  # these load pyarrow and Kafka's client
    from waybill.sources.kafka.lag import cursors_of
    from waybill.sources.kafka.retention import SHARE, endangered

    with opened(spec) as lake:
        if lake is None:
            message = (
                f"only Spark can open the catalog of {spec.name}, so its retention cannot be "
                "watched: take retention out of alerts.on"
            )
            raise ConfigurationError(message)
        cursors = cursors_of(lake)
    found = endangered(spec.source.kafka, cursors, now.timestamp())
    if not found:
        return []
    lines = [
        f"{one.topic}/{one.partition}: {counted(one.unread, 'offset', style=',')} from offset "
        f"{one.offset} on; the topic keeps messages for {one.retention / 3600:.1f} hours"
        for one in found
    ]
    text = (
        f"More than {SHARE:.0%} of the time is over for which the brokers keep messages that the "
        "archive does not have yet. What they delete cannot be read any more.\n"
        + "\n".join(lines)
        + f"\nRead them: {spec.command('run', 'FILE')}"
    )
    topics = sorted({one.topic for one in found})
    return [Finding("retention", " ".join(topics), f"{spec.name}: messages expire unread", text)]
