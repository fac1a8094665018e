"""Looks for what no run tells of: what waits at the source, a migration that is late or stalled."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
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
from waybill_airflow.signals import metrics
from waybill_airflow.signals.alerts import send
from waybill_airflow.submission import connections

if TYPE_CHECKING:
    from airflow.sdk import Context

    from waybill.overview.schema import Index, SourceLook
    from waybill.spec.alerts import Alerts, Event
    from waybill.spec.migration import Migration


class AlertFinding(NamedTuple):
    """Something to tell.

    Attributes:
        event: which kind.
        mark: what it is about; it is reported once for each.
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
        """Look, and report what was not reported before.

        Returns:
            What was found, as a mark by event, for the next look.
        """
        spec = load_migration(self.migration)
        look = self._ask(spec)
        index, now = in_lake_of(spec, read_index), datetime.now(UTC)
        self._send(index, look, now)
        findings = [] if index is None else find(spec, index, now, look)
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

    def _ask(self, spec: Migration) -> SourceLook | None:
        """Ask the source how much waits there; None where only Spark can open the catalog."""
        look = ask_source(spec)
        if look is None:
            self.log.warning(
                "only Spark can open the catalog of %s, so its source cannot be asked here: `%s` "
                "asks it",
                *(spec.name, spec.command("status", "FILE")),
            )
        elif look.problem:
            self.log.warning("the source did not report how much waits there: %s", look.problem)
        else:
            self.log.info("%s %s wait at the source", f"{look.unread:,}", look.unit)
        return look

    def _send(self, index: Index | None, look: SourceLook | None, now: datetime) -> None:
        if not metrics.are_on():
            return
        of_lake = () if index is None else metrics.figures_of_lake(index, now)
        of_source = () if look is None else metrics.figures_of_source(look, now)
        metrics.send(chain(of_lake, of_source))


def ask_source(spec: Migration) -> SourceLook | None:
    """Ask the source how much waits there, and keep the answer for the pages.

    Returns:
        What it says, or said last with the reason why it does not now; None where only Spark can
        open the catalog.

    Raises:
        ConfigurationError: a connection of the lake is missing, or its folder cannot be written.
        UnavailableError: the lake's store does not answer.
    """
    from waybill.lake.without_spark import opened  # these load pyarrow and Kafka's client
    from waybill.overview.source_look import look_at_source

    with given(connections(spec.connections)), opened(spec) as lake:
        return None if lake is None else look_at_source(spec, lake)


def find(
    spec: Migration, index: Index, now: datetime, look: SourceLook | None = None
) -> list[AlertFinding]:
    """What there is to tell of a migration.

    Args:
        spec: the migration.
        index: its overview.
        now: with its zone.
        look: what its source held when it was asked last.
    """
    alerts = spec.alerts
    if alerts is None:
        return []
    found = []
    if "late" in alerts.on:
        found.append(_late(spec, alerts, index, now, look) or _waiting(spec, alerts, look))
    if "stalled" in alerts.on:
        found.append(_stalled(spec, alerts, index, now))
    return [finding for finding in found if finding is not None]


def _waiting(spec: Migration, alerts: Alerts, look: SourceLook | None) -> AlertFinding | None:
    """Batches come, and messages wait at the source all the same."""
    if look is None or alerts.late_after is None:
        return None
    behind = look.behind(look.looked)
    if behind is None or behind <= seconds_of(alerts.late_after):
        return None
    text = (
        f"{_at_source(look)} That is longer than late_after ({alerts.late_after}), although "
        "batches are published. A transaction may be open there, or its runs may not keep up.\n"
        f"Progress: {spec.command('status', 'FILE')}"
    )
    # What waits longest becomes another message with every batch, and is not news.
    return AlertFinding("late", "source", f"{spec.name}: messages wait at the source", text)


def _at_source(look: SourceLook) -> str:
    """What waits at the source, as a sentence with the time at which it was true."""
    at = datetime.fromtimestamp(look.looked / 1000, UTC)
    behind = look.behind(look.looked)
    since = f", the oldest for {behind / 3600:.1f} hours" if behind else ""
    what = counted(look.unread, look.unit.removesuffix("s"), style=",")
    return f"As of {at:%H:%M} UTC {what} waited at the source{since}."


def _late(
    spec: Migration, alerts: Alerts, index: Index, now: datetime, look: SourceLook | None
) -> AlertFinding | None:
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
        why = f"by its schedule ({spec.schedule}) {LATE_AFTER} more should have ended since"
    source = "" if look is None or not look.looked else f"{_at_source(look)}\n"
    text = (
        f"The last batch that was published is {hours:.1f} hours old, and {why}. Check its runs: "
        "one may wait for another run, a worker or an answer, or the DAG is paused.\n"
        f"{source}"
        f"Progress: {spec.command('status', 'FILE')}"
    )
    return AlertFinding("late", str(published), f"{spec.name} is late", text)


def _stalled(spec: Migration, alerts: Alerts, index: Index, now: datetime) -> AlertFinding | None:
    if index.held is not None:
        # What is behind a held batch waits for a person, who has been notified.
        return None
    longest = seconds_of(alerts.stalled_after)
    for line in index.batches:
        hours = (now.timestamp() - line.ended / 1000) / 3600
        if line.state == UNDER_WAY and hours * 3600 > longest:
            text = (
                f"Batch {line.batch} is under way, and no stage of it has ended for {hours:.1f} "
                f"hours (stalled_after is {alerts.stalled_after}). Look at the log of its running "
                "task; if its run has ended, the next run continues with it.\n"
                f"Continue by hand: {spec.command('run', 'FILE', '--batch', line.batch)}"
            )
            return AlertFinding(
                "stalled", line.batch, f"{spec.name}: batch {line.batch} is stalled", text
            )
    return None


def find_endangered(spec: Migration, now: datetime) -> list[AlertFinding]:
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
        f"More than {SHARE:.0%} of the retention time has passed for messages that the "
        "archive does not have yet. Waybill cannot read messages after the brokers delete them.\n"
        + "\n".join(lines)
        + f"\nRead them: {spec.command('run', 'FILE')}"
    )
    topics = sorted({one.topic for one in found})
    return [
        AlertFinding("retention", " ".join(topics), f"{spec.name}: messages expire unread", text)
    ]
