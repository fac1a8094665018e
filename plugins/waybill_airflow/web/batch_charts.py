"""The charts of a migration: its last batches beside the limits that apply to them."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING

from waybill.overview.schema import PUBLISHED
from waybill.report import STAGES
from waybill.spec.durations import seconds_of
from waybill_airflow.lateness import LATE_AFTER, late_from
from waybill_airflow.web.charts import Chart, ChartLimit, StackedBar, bars
from waybill_airflow.web.formatting import length, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine
    from waybill.spec.migration import Migration

KINDS = ("one", "two", "three", "four", "five")
"""Colours of the style sheet."""


def charts_of(spec: Migration, batches: Sequence[BatchLine], now: datetime) -> list[Chart]:
    """Age, volume, refused share and times of stages.

    Args:
        spec: the migration, whose fields set limits.
        batches: oldest first.
        now: with its zone.
    """
    if not batches:
        return []
    charts = [
        _age(spec, batches, now),
        _volume(batches),
        _off(batches),
        _refused(spec, batches),
        _times(spec, batches),
    ]
    return [chart for chart in charts if chart is not None]


def _age(spec: Migration, batches: Sequence[BatchLine], now: datetime) -> Chart | None:
    """How old what was published had become when the next batch was, and is now."""
    published = [batch for batch in batches if batch.state == PUBLISHED and batch.ended]
    if not published:
        return None
    columns, ends = [], []
    for before, batch in itertools.pairwise(published):
        waited = max(0, batch.began - before.ended) / 1000
        took = max(0, batch.ended - max(batch.began, before.ended)) / 1000
        text = f"{length(waited + took)}, of it {length(took)} from the archive to the targets"
        columns.append(StackedBar(batch.batch, text, [("one", waited), ("two", took)]))
        ends.append(before.ended)
    last = published[-1].ended
    since = max(0.0, now.timestamp() - last / 1000)
    columns.append(StackedBar("now", length(since), [("three", since)]))
    ends.append(last)
    due = [late_from(spec.schedule, end) for end in ends]
    by_schedule = [
        None if late is None else (late - end) / 1000 for late, end in zip(due, ends, strict=True)
    ]
    limits = [
        ChartLimit(
            f"late by its schedule ({spec.schedule}): {LATE_AFTER} batches are due", by_schedule
        )
    ]
    alerts = spec.alerts
    if alerts is not None and "late" in alerts.on and alerts.late_after is not None:
        allowed = float(seconds_of(alerts.late_after))
        limits.append(ChartLimit("alerts.late_after", [allowed] * len(columns), "limit2"))
    legend = [("one", "until the batch began"), ("two", "the batch"), ("three", "since the last")]
    return bars("Lag: age of what is published", columns, legend, length, limits)


def _volume(batches: Sequence[BatchLine]) -> Chart:
    columns = [StackedBar(b.batch, number(b.rows_in), [("one", float(b.rows_in))]) for b in batches]
    usual = [batch.limits.get("messages", []) for batch in batches]
    low = [ends[1] if len(ends) == 3 else None for ends in usual]
    high = [ends[2] if len(ends) == 3 else None for ends in usual]
    rule = "the suite trends expects from earlier batches"
    limits = [
        ChartLimit(f"maximum that {rule}", high),
        ChartLimit(f"minimum that {rule}", low, "limit2"),
    ]
    return bars("Messages read", columns, [("one", "messages")], _whole, limits)


def _off(batches: Sequence[BatchLine]) -> Chart | None:
    """Where a source has several topics their rule is about each, so that it has its own chart."""
    if not any("messages_off" in b.limits for b in batches):
        return None
    if any("messages" in batch.limits for batch in batches):
        return None
    figures = [batch.limits.get("messages_off", [0.0]) for batch in batches]
    columns = [
        StackedBar(batch.batch, _times_usual(figure[0]), [("one", figure[0])])
        for batch, figure in zip(batches, figures, strict=True)
    ]
    most = [figure[1] if len(figure) == 2 else None for figure in figures]
    limits = [ChartLimit("maximum of the suite trends (messages_off)", most)]
    title = "Deviation from the usual volume (worst topic)"
    return bars(title, columns, [("one", "distance")], _times_usual, limits)


def _refused(spec: Migration, batches: Sequence[BatchLine]) -> Chart:
    columns, most = [], []
    for batch in batches:
        share = _share(batch)
        judged = batch.limits.get("refused_share", [])
        text = f"{share:.2f} %"
        if len(judged) == 2:
            text += f"; the gate counted {judged[0]:.2%} as new, in the worst topic"
        columns.append(StackedBar(batch.batch, text, [("refused", share)]))
        most.append(100.0 * judged[1] if len(judged) == 2 else None)
    if not any(value is not None for value in most):
        # Of batches that an earlier version judged only the file says what they may refuse.
        most = [100.0 * spec.quality.max_refused_share] * len(batches)
    limits = [ChartLimit("quality.max_refused_share", most)]
    return bars("Refused share", columns, [("refused", "refused")], _percent, limits)


def _times(spec: Migration, batches: Sequence[BatchLine]) -> Chart:
    columns = [
        StackedBar(
            b.batch,
            ", ".join(f"{s} {number(t)} s" for s, t in zip(STAGES, b.seconds, strict=False)),
            list(zip(KINDS, b.seconds, strict=False)),
        )
        for b in batches
    ]
    limits, alerts = [], spec.alerts
    if alerts is not None and "stalled" in alerts.on:
        longest = float(seconds_of(alerts.stalled_after))
        name = "one stage alone, by alerts.stalled_after"
        limits.append(ChartLimit(name, [longest] * len(columns)))
    legend = list(zip(KINDS, STAGES, strict=True))
    return bars("Seconds of the stages", columns, legend, _seconds, limits)


def _whole(value: float) -> str:
    return number(round(value))


def _times_usual(value: float) -> str:
    return f"{value:.1f} times"


def _percent(value: float) -> str:
    return f"{value:.2f} %"


def _seconds(value: float) -> str:
    return f"{number(float(value))} s"


def _share(batch: BatchLine) -> float:
    """Refused rows in percent of the messages; a batch may also refuse those of earlier ones."""
    if not batch.refused:
        return 0.0
    return 100.0 * batch.refused / max(batch.rows_in, batch.refused)
