"""The charts of a migration: bars, the limits that apply to them, and the same as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from tests.dags.showcase import HOSTILE, HOUR, Showcase
from waybill.overview.schema import PUBLISHED, BatchLine
from waybill_airflow.lateness import is_overdue, late_from
from waybill_airflow.web.batch_charts import charts_of
from waybill_airflow.web.charts import ChartLimit, StackedBar, bars
from waybill_airflow.web.rendering import _environment

pytestmark = pytest.mark.airflow

NOW = datetime(2026, 11, 26, 16, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
RECEIVER = "{notifier: tests.dags.receivers.Kept, arguments: {message: x}}"


def line(name: str, hours_ago: float, **fields) -> BatchLine:
    ended = NOW_MS - int(hours_ago * HOUR)
    given = {
        "mark": "",
        "state": PUBLISHED,
        "began": ended - HOUR // 4,
        "ended": ended,
        "rows_in": 100,
        "seconds": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    return BatchLine(name, **{**given, **fields})


@pytest.fixture
def charted(tmp_path):
    """Charts of batches, oldest first, by their title."""

    def chart(batches, more: str = ""):
        spec = Showcase(tmp_path).file("orders", more)
        return {chart.title: chart for chart in charts_of(spec, batches, NOW)}

    return chart


def limits(chart) -> dict:
    return {limit.name: limit.last for limit in chart.limits}


AGE, VOLUME, SHARE = "Lag: age of what is published", "Messages read", "Refused share"
OFF, TIMES = "Deviation from the usual volume (worst topic)", "Seconds of the stages"


def test_a_chart_for_each_figure_and_none_without_batches(charted):
    assert charted([]) == {}
    assert list(charted([line("b-1", 1)])) == [AGE, VOLUME, SHARE, TIMES]


def test_the_age_of_what_is_published_beside_the_schedule(charted):
    """The limit is when the page says late, and no other moment."""
    more = f'schedule: "@hourly"\nalerts: {{to: [{RECEIVER}], on: [late], late_after: 90m}}'
    batches = [line("b-1", 9), line("b-2", 6), line("b-3", 1)]
    chart = charted(batches, more)[AGE]
    assert [(row.about, row.text.split(",")[0]) for row in chart.rows] == [
        ("now", "1 h"),
        ("b-3", "5 h"),
        ("b-2", "3 h"),
    ]
    schedule = "late by its schedule (@hourly): 2 batches are due"
    assert limits(chart) == {schedule: "2 h", "alerts.late_after": "1 h"}
    for ended in (NOW_MS - HOUR, NOW_MS - HOUR // 3, NOW_MS - 7 * HOUR):
        late = late_from("@hourly", ended)
        for moment, says in ((late - 1000, False), (late + 1000, True)):
            then = datetime.fromtimestamp(moment / 1000, UTC)
            assert is_overdue("@hourly", ended, then) == says


def test_there_is_no_limit_without_a_schedule_or_for_batches_nobody_published(charted):
    assert limits(charted([line("b-1", 3), line("b-2", 1)])[AGE]) == {}
    assert late_from("@continuous", 1) is None
    assert AGE not in charted([line("b-1", 1, state="held")], 'schedule: "@hourly"')


def test_the_volume_stands_between_what_the_gate_expects(charted):
    before = [line(f"b-{i}", 9 - i, rows_in=100) for i in range(3)]
    judged = {"messages": [400, 40.0, 160.0], "messages_off": [30.0, 6.0]}
    charts = charted([*before, line("b-9", 1, rows_in=400, limits=judged)])
    assert OFF not in charts
    most, least = charts[VOLUME].limits
    assert most.name.startswith("maximum that the suite trends expects")
    assert (most.last, least.last, least.kind) == ("160", "40", "limit2")
    assert most.path.count("M") == 1, "only where the gate had history"
    bar = max(charts[VOLUME].marks, key=lambda mark: mark.height)
    assert float(re.search(r" ([\d.]+)H", most.path)[1]) > bar.y, "the bar stands above it"
    assert charts[VOLUME].rows[0].limits == ["160", "40"]
    assert charts[VOLUME].rows[1].limits == ["", ""]


def test_the_rule_of_several_topics_has_a_chart_of_its_own(charted):
    judged = [{}, {"messages_off": [2.0, 6.0]}, {"messages_off": [7.5, 6.0]}]
    batches = [line(f"b-{i}", 9 - i, limits=own) for i, own in enumerate(judged)]
    charts = charted(batches)
    assert charts[VOLUME].limits == []
    assert limits(charts[OFF]) == {"maximum of the suite trends (messages_off)": "6.0 times"}
    assert [row.text for row in charts[OFF].rows] == ["7.5 times", "2.0 times", "0.0 times"]


def test_the_refused_share_beside_what_the_gate_counted(charted):
    judged = {"refused_share": [0.031, 0.04]}
    charts = charted([line("b-1", 1, refused=5, limits=judged)])
    assert limits(charts[SHARE]) == {"quality.max_refused_share": "4.00 %"}
    (row,) = charts[SHARE].rows
    assert row.text == "5.00 %; the gate counted 3.10% as new, in the worst topic"
    old = charted([line("b-1", 1)], "quality: {max_refused_share: 0.2}")
    assert limits(old[SHARE]) == {"quality.max_refused_share": "20.00 %"}


def test_a_stage_may_take_as_long_as_the_alert_says(charted):
    assert charted([line("b-1", 1)])[TIMES].limits == []
    more = f"alerts: {{to: [{RECEIVER}], on: [stalled], stalled_after: 2h}}"
    (limit,) = charted([line("b-1", 1)], more)[TIMES].limits
    assert (limit.last, limit.path) == ("7,200.0 s", ""), "far above fifteen seconds"


def test_a_limit_far_above_the_bars_is_named_and_does_not_press_them_flat():
    columns = [StackedBar("b-1", "10", [("one", 10.0)])]
    chart = bars(
        "X", columns, [("one", "x")], str, [ChartLimit("far", [1000.0]), ChartLimit("no", [None])]
    )
    assert [(one.name, one.path) for one in chart.limits] == [("far", "")]
    assert chart.marks[0].height > 100
    near = bars("X", columns, [("one", "x")], str, [ChartLimit("near", [20.0])])
    assert 50 < near.marks[0].height < 60
    assert near.limits[0].path
    nothing = bars(
        "X", [StackedBar("b-1", "0", [("one", 0.0)])], [], str, [ChartLimit("far", [5.0])]
    )
    assert nothing.marks == []


def test_a_chart_says_all_of_it_in_words(charted):
    judged = {"refused_share": [0.0, 0.04]}
    batches = [line(HOSTILE, 2, limits=judged), line("b-2", 1, limits=judged, refused=7)]
    chart = charted(batches)[SHARE]
    assert chart.summary == (
        "Refused share, the last 2 batches; at most 7.00 %. "
        "Limit: quality.max_refused_share, now 4.00 %."
    )
    shown = rendered(chart)
    assert shown.count("<tr>") == 3
    assert f'aria-label="{chart.summary}"' in shown
    assert "<script" not in shown
    assert "quality.max_refused_share: 4.00 %" in shown


def rendered(chart) -> str:
    """A chart as it stands on a page."""
    source = '{% import "parts.html.j2" as parts with context %}{{ parts.chart(chart) }}'
    return _environment().from_string(source).render(chart=chart)
