"""What rules measured, what they allow, and the batches before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.validate.test_page import HOSTILE, checked, result, seen
from waybill.spec.migration import Migration
from waybill.validate.expectations import run_suites
from waybill.validate.measured import NO_TREND, Trend, figures_with_limits, measured, trend_of
from waybill.validate.page import gate_page, gate_values
from waybill.validate.results import keep, read_trend
from waybill.validate.suites import load_suite
from waybill.validate.trends import Past, Spoken, trends_profile

SHARE = {"column": "refused_share", "min_value": 0, "max_value": 0.05}


def shares(*values: float | None) -> dict:
    return {"changes": [{"topic": str(i), "refused_share": v} for i, v in enumerate(values)]}


def rule(success: bool = True, **fields):
    given = {"profile": "changes", "arguments": SHARE, "description": "The share is low."}
    return checked(success, **{**given, **fields})


@pytest.mark.parametrize(
    ("check", "profiles", "figure"),
    [
        (rule(), shares(0.01, 0.03, None), 0.03),
        (rule(arguments={"column": "refused_share", "min_value": 0.2}), shares(0.5, 0.3), 0.3),
        (rule(), shares(None, None), None),
        (rule(), shares(float("nan"), 0.02), 0.02),
        (rule(), shares(True, "a", 0.02), 0.02),
        (rule(), {}, 0.0),
        (rule(False, observed=[{"where": "a"}], unexpected=17), {}, 17.0),
        (rule(False, observed=[{"where": "", "value": 4}]), {}, 4.0),
        (rule(False, observed=[{"where": "", "value": "x"}]), {}, None),
        (rule(False, observed=[{"where": "a"}, {"where": "b"}], arguments={}), {}, 2.0),
        (rule(False, error="no such column"), shares(0.1), None),
        (rule(note="the batch does not change it"), {}, None),
    ],
)
def test_the_figure_of_a_rule(check, profiles, figure):
    assert measured(check, profiles) == figure


def spoken(batch: str, share: float, outcome: str = "passed", **fields) -> Spoken:
    kept = result(batch=batch, checks=[rule(share <= 0.05, **fields)], profiles=shares(share))
    plain = json.loads(json.dumps(kept.to_dict()))
    return Spoken(outcome, "2026-01-01T00:00:00+00:00", plain)


def test_a_rule_beside_what_it_measured_before():
    before = [spoken("b-1", 0.01), spoken("b-2", 0.2, "failed"), spoken("b-3", 0.02)]
    now = result(batch="b-3", checks=[rule(), checked(True)], profiles=shares(0.04))
    trend = trend_of(now, before)
    assert [one.batch for one in trend.batches] == ["b-1", "b-2"], "not what it was judged before"
    assert trend.rules == [[(0.01, True), (0.2, False)], [None, None]]
    assert Trend.from_dict(json.loads(json.dumps(trend._asdict()))) == trend
    other = [spoken("b-1", 0.1, arguments={**SHARE, "max_value": 0.3})]
    assert trend_of(now, other).rules[0] == [(0.1, False)], "its limit was another then"


def test_a_trend_goes_back_thirty_batches():
    before = [spoken(f"b-{i}", 0.01) for i in range(40)]
    trend = trend_of(result(batch="now", checks=[rule()]), before)
    assert [one.batch for one in trend.batches] == [f"b-{i}" for i in range(10, 40)]
    assert len(trend.rules[0]) == 30


def test_the_page_shows_figure_limit_and_line():
    before = [spoken(f"b-{i}", 0.01 * i, "passed" if i < 6 else "failed") for i in range(8)]
    now = result(batch="now", checks=[rule()], profiles=shares(0.04))
    values = gate_values(now, trend_of(now, before))
    (shown,) = values["rules"]
    assert (shown.measured, shown.allowed) == ("0.04", "from 0 to 0.05")
    assert len(shown.dots) == 9
    assert [dot.met for dot in shown.dots] == [True] * 6 + [False, False, True]
    assert shown.dots[0].y > shown.limit > shown.dots[7].y
    assert shown.trend_sentence == "The last 9 figures: from 0 to 0.07; not met 2 times"
    page = gate_page(now, trend_of(now, before))
    tags = [tag for tag, _ in seen(page).tags]
    assert tags.count("polyline") == 1
    assert tags.count("circle") == 3, "those not met, and the last"
    assert "b-7: failed" in seen(page).text
    assert shown.trend_sentence in page


def test_figures_have_no_exponent_and_what_a_rule_was_given_is_said_in_words():
    arguments = {
        "column": "qty",
        "value_set": ["open", None, True],
        "row_condition": {"a": 1},
        "mostly": 0.99,
        "min_value": 0,
        "max_value": 559_412.375,
    }
    now = result(checks=[rule(False, arguments=arguments, observed=[])], profiles={})
    (shown,) = gate_values(now)["rules"]
    words = 'column qty; value set open, , yes; row condition {"a": 1}; mostly 0.99'
    assert (shown.arguments, shown.allowed) == (words, "from 0 to 559\u202f412")
    by_time = rule(arguments={"column": "seen", "min_value": "2026-01-01"})
    (shown,) = gate_values(result(checks=[by_time]))["rules"]
    assert shown.arguments == "column seen; min value 2026-01-01"
    table = {"tables": [{"table": "t", "share": 0.000012, "rows": 5_594_120.0, "odd": 1e20}]}
    text = seen(gate_page(result(checks=[], profiles=table))).text
    for figure in ("0.000012", "5\u202f594\u202f120", "100\u202f000\u202f000"):
        assert figure in text
    assert "e+" not in text


def test_counts_of_one_are_in_the_singular():
    one = result(checks=[rule(False)])
    assert one.counts_sentence() == "1 expectation: 1 critical failure, 0 warnings, 0 notes."
    page = gate_page(one, trend_of(one, [spoken("b-1", 0.2)]))
    assert one.counts_sentence() in page
    assert "Verdict of the batch before:" in page
    before = trend_of(one, [spoken("b-1", 0.2), spoken("b-2", 0.01)])
    (shown,) = gate_values(result(checks=[rule()], profiles=shares(0.01)), before)["rules"]
    assert shown.trend_sentence.endswith("not met 1 time")


def test_a_limit_far_away_does_not_press_the_figures_flat():
    before = [spoken("b-1", 0.0001), spoken("b-2", 0.0002)]
    now = result(batch="now", checks=[rule()], profiles=shares(0.0003))
    (shown,) = gate_values(now, trend_of(now, before))["rules"]
    assert shown.limit is None
    assert shown.dots[0].y - shown.dots[-1].y > 10


def test_a_page_without_history_has_no_line():
    page = gate_page(result())
    assert "<polyline" not in page
    assert "Verdicts of the last" not in page
    odd = Trend([], [[None]])
    assert gate_values(result(), odd)["rules"], "a trend of other rules is left out"


def test_names_of_earlier_batches_are_text():
    before = [spoken(HOSTILE, 0.01)]
    now = result(batch="now", checks=[rule(description=HOSTILE)])
    assert "<script" not in gate_page(now, trend_of(now, before))


def test_a_trend_stays_when_a_decision_writes_the_report_anew(tmp_path):
    spec = Migration.model_validate(
        {
            "name": "shop",
            "source": {"files": {"path": "x"}, "envelope": "canal"},
            "lake": {"warehouse": str(tmp_path)},
        }
    )
    now = result(batch="now", checks=[rule()])
    assert read_trend(spec, "now") == NO_TREND
    trend = trend_of(now, [spoken("b-1", 0.01)])
    keep(spec, now, trend)
    _, page = keep(spec, now)
    assert read_trend(spec, "now") == trend
    assert "b-1: passed" in Path(page).read_text(encoding="utf-8")


# Limits for charts.


def trends(messages: list[int], now: int, topics: tuple[str, ...] = ("shop",)) -> list[dict]:
    def of(count: int) -> dict:
        return {name: {"topic": name, "messages": count, "refused_share": 0} for name in topics}

    past = [Past(of(count), {}, {}) for count in messages]
    return trends_profile(list(of(now).values()), [], {}, past)


def limits_of(profile: list[dict]) -> dict:
    checks = run_suites([load_suite("trends")], {"trends": profile}, {})
    profiles = {"trends": profile, **shares(0.02)}
    return figures_with_limits(result(checks=[*checks, rule()], profiles=profiles))


def test_limits_are_those_of_the_rules():
    limits = limits_of(trends([100, 110, 90, 100, 105, 95, 100], 300))
    assert limits["refused_share"] == [0.02, 0.05]
    figure, most = limits["messages_off"]
    assert most == 6
    now, low, high = limits["messages"]
    assert (now, low) == (300, pytest.approx(100 - 6 * 10, abs=0.5))
    assert figure == pytest.approx((now - 100) / ((high - 100) / most), abs=0.01)


def test_there_are_no_limits_without_history_and_none_for_many_topics():
    assert limits_of(trends([100], 300)) == {"refused_share": [0.02, 0.05]}
    limits = limits_of(trends([100] * 8, 300, ("shop", "stock")))
    assert limits["messages_off"] == [20.0, 6.0]
    assert "messages" not in limits
    assert figures_with_limits(result()) == {}


def test_a_column_of_rows_with_the_name_of_a_figure_is_no_limit():
    """What rows have is for who may see rows, and limits are for charts that everybody sees."""
    of_rows = rule(profile="rows of shop.t", observed=[{"where": "", "value": 0.75}])
    assert measured(of_rows, {}) == 0.75
    assert figures_with_limits(result(checks=[of_rows], profiles={})) == {}
