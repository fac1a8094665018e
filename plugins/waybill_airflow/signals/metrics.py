"""Figures of stages through Airflow's own metrics, to StatsD, Datadog or OpenTelemetry.

Airflow decides where they go and whether they go at all (its section `[metrics]`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

if TYPE_CHECKING:
    from waybill.overview.schema import Index, SourceLook

Kind = Literal["counter", "gauge", "timing"]


class Metric(NamedTuple):
    """A metric.

    Attributes:
        kind: counters are added up, gauges replace each other, timings are in milliseconds.
        tags: what its figures are distinguished by.
        meaning: what it measures.
    """

    kind: Kind
    tags: tuple[str, ...]
    meaning: str


METRICS = {
    "waybill.rows": Metric(
        "counter",
        ("migration", "stage", "outcome"),
        "rows of a stage by outcome: `in`, `extra`, `out`, `refused`, `superseded`, "
        "`skipped`; `validate` counts rules",
    ),
    "waybill.refused": Metric(
        "counter", ("migration", "stage", "reason"), "refused rows by class of the reason"
    ),
    "waybill.rows_waiting": Metric(
        "gauge", ("migration", "stage"), "rows that the stage's last batch left for the next batch"
    ),
    "waybill.stage.duration": Metric("timing", ("migration", "stage"), "how long a stage worked"),
    "waybill.gate": Metric(
        "counter",
        ("migration", "verdict"),
        "batches by verdict of the gate: `passed`, `reported`, `approved`, `failed`",
    ),
    "waybill.held": Metric("gauge", ("migration",), "1 while the gate holds a batch, else 0"),
    "waybill.lag.messages": Metric(
        "gauge", ("migration",), "messages that are in the archive and not published"
    ),
    "waybill.lag.seconds": Metric(
        "gauge", ("migration",), "how long ago the oldest of them was archived"
    ),
    "waybill.source.unread": Metric(
        "gauge",
        ("migration", "unit"),
        "`messages` (Kafka: offsets) or `files` that the source held and the archive did not when "
        "it was asked",
    ),
    "waybill.source.seconds": Metric(
        "gauge", ("migration",), "how long the oldest of them had waited by then, where it is known"
    ),
    "waybill.source.asked": Metric(
        "gauge", ("migration",), "seconds since the source was asked and answered"
    ),
    "waybill.quarantine": Metric("gauge", ("migration",), "refused rows that were not replayed"),
    "waybill.table.age": Metric(
        "gauge",
        ("migration", "table"),
        "seconds since the source time up to which the merged table is complete; of the 200 that "
        "are furthest behind",
    ),
}
"""Every metric by name."""


MOST_TABLES = 200
"""So many tables have a figure of their own, the oldest first."""


class MetricValue(NamedTuple):
    """A value of a metric, with the values of its tags in their order."""

    metric: str
    value: float
    tags: tuple[str, ...]


def are_on() -> bool:
    """Whether Airflow sends metrics anywhere."""
    return _receiver() is not None


def _receiver() -> str | None:
    """The receiver that Airflow chooses, which takes the first that is on; None where none is."""
    ways = {"statsd_datadog_enabled": "datadog", "statsd_on": "statsd", "otel_on": "opentelemetry"}
    on = (way for name, way in ways.items() if conf.getboolean("metrics", name, fallback=False))
    return next(on, None)


def figures_of(migration: str, report: dict[str, Any]) -> Iterator[MetricValue]:
    """What a stage's report says; one that found its work done before says nothing.

    Args:
        migration: its name.
        report: see `StageReport.to_json_safe`.
    """
    if report.get("repeated"):
        return
    stage = report["stage"]
    refused = report["refused"]
    by_outcome = {
        "in": report["rows_in"],
        "extra": sum(report["extra_in"].values()),
        "out": report["rows_out"],
        "refused": sum(refused.values()),
        "superseded": report["superseded"],
        "skipped": sum(report["skipped"].values()),
    }
    for outcome, rows in by_outcome.items():
        if rows:
            yield MetricValue("waybill.rows", rows, (migration, stage, outcome))
    for reason, rows in refused.items():
        yield MetricValue("waybill.refused", rows, (migration, stage, reason))
    yield MetricValue("waybill.rows_waiting", report["waiting"], (migration, stage))
    yield MetricValue("waybill.stage.duration", report["seconds"] * 1000, (migration, stage))
    verdict = report["details"].get("outcome") if stage == "validate" else None
    if verdict:
        yield MetricValue("waybill.gate", 1, (migration, verdict))


def figures_of_lake(index: Index, now: datetime) -> Iterator[MetricValue]:
    """What the overview of a migration says.

    Args:
        index: the overview.
        now: with its zone.
    """
    name = index.migration
    since = index.lag_since
    lag = 0.0 if since is None else max(0.0, now.timestamp() - since / 1000)
    yield MetricValue("waybill.held", int(index.held is not None), (name,))
    yield MetricValue("waybill.lag.messages", index.lag, (name,))
    yield MetricValue("waybill.lag.seconds", lag, (name,))
    yield MetricValue("waybill.quarantine", index.quarantine.rows, (name,))
    ages = (
        ((now - datetime.fromisoformat(table.complete)).total_seconds(), table.table)
        for table in index.tables
        if table.complete is not None
    )
    for age, table in nlargest(MOST_TABLES, ages):
        yield MetricValue("waybill.table.age", age, (name, table))


def figures_of_source(look: SourceLook, now: datetime) -> Iterator[MetricValue]:
    """What the source held when it was asked last; nothing where it never was.

    Args:
        look: the answer.
        now: with its zone.
    """
    if not look.looked:
        return
    name = look.migration
    yield MetricValue("waybill.source.unread", look.unread, (name, look.unit))
    behind = look.behind(look.looked)
    if behind is not None:
        yield MetricValue("waybill.source.seconds", behind, (name,))
    asked = max(0.0, now.timestamp() - look.looked / 1000)
    yield MetricValue("waybill.source.asked", asked, (name,))


def send(figures: Iterable[MetricValue]) -> None:
    """Hand figures to Airflow."""
    tagged = _takes_tags()
    for figure in figures:
        metric = METRICS[figure.metric]
        values = [_plain(value) for value in figure.tags]
        name = figure.metric if tagged else ".".join([figure.metric, *values])
        tags = dict(zip(metric.tags, values, strict=True)) if tagged else None
        if metric.kind == "counter":
            stats.incr(name, int(figure.value), tags=tags)
        elif metric.kind == "gauge":
            stats.gauge(name, figure.value, tags=tags)
        else:
            stats.timing(name, figure.value, tags=tags)
    _flush()


def _takes_tags() -> bool:
    """Whether tags arrive; StatsD itself has none, so that there they become part of the name."""
    return _receiver() != "statsd" or conf.getboolean(
        "metrics", "statsd_influxdb_enabled", fallback=False
    )


def _plain(value: str) -> str:
    """A tag's value that every receiver takes: no dots, which part names, and no separators."""
    return stats.normalize_name_for_stats(value.replace(".", "__"), log_warning=False)


def _flush() -> None:
    """Have OpenTelemetry send what it has: a task's process ends without its hooks."""
    if _receiver() != "opentelemetry":
        return
    from opentelemetry import metrics

    provider: Any = metrics.get_meter_provider()
    if hasattr(provider, "force_flush"):
        provider.force_flush(timeout_millis=FLUSH_MILLISECONDS)


FLUSH_MILLISECONDS = 5000
