"""The gate's result as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted, plain
from waybill.made_ids import made_ids_sentence
from waybill.validate.measured import LIMITS, NO_TREND, Point, is_figure, limits, measured
from waybill.validate.result import (
    APPROVED,
    FAILED,
    PASSED,
    REPORTED,
    SEVERITIES,
    figure_is_a_value,
    found_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.validate.measured import Trend
    from waybill.validate.result import Checked, GateResult

TEMPLATE, BODY = "gate.html.j2", "gate_body.html.j2"

VERDICTS = {
    PASSED: "Passed: the tables are visible and the batch may be published.",
    FAILED: "Held: nothing is visible and nothing is published.",
    REPORTED: "Passed with failures, as quality.on_failure: report says.",
    APPROVED: "Approved: a person decided to publish it with failures.",
}

WIDTH, HEIGHT = 96, 24
"""Of the line of a rule's figures."""


class Dot(NamedTuple):
    """A batch in the line of a rule: where it stands, and whether it met the rule."""

    x: float
    y: float
    met: bool


class RuleView(NamedTuple):
    """A rule.

    Attributes:
        check: what came of it.
        arguments: what it was given, as words; without the limits that `allowed` says.
        measured: its figure, empty where it has none.
        allowed: what it may be; empty where the sentence about it says so.
        dots: its figures in the last batches, this one last; fewer than two are none.
        limit: where the most (or least) that is allowed stands among them, None where it is not.
        trend_sentence: the dots in a sentence.
    """

    check: Checked
    arguments: str
    measured: str
    allowed: str
    dots: list[Dot]
    limit: float | None
    trend_sentence: str

    @property
    def line(self) -> str:
        """The points of the line through the dots."""
        return " ".join(f"{dot.x},{dot.y}" for dot in self.dots)


def gate_page(result: GateResult, trend: Trend = NO_TREND) -> str:
    """The page of a result; every text in it is escaped.

    Args:
        result: the result.
        trend: the batches before.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=FunctionLoader(_text)
    )
    return environment.get_template(TEMPLATE).render(gate_values(result, trend))


def _text(name: str) -> str:
    return (resources.files("waybill.validate") / name).read_text(encoding="utf-8")


def gate_values(
    result: GateResult, trend: Trend = NO_TREND, with_values: bool = True
) -> dict[str, Any]:
    """What the templates show.

    Args:
        result: the result.
        trend: the batches before.
        with_values: whether keys and values of rows are among it; else only counts are, of this
            batch as of those before.
    """
    before = trend.rules if len(trend.rules) == len(result.checks) else [[]] * len(result.checks)
    # What is left of a rule that shows values has no figure, and not the figure zero.
    hidden = [not with_values and figure_is_a_value(check) for check in result.checks]
    result = result if with_values else result.without_values()
    rules = [
        _rule(result, check, [] if hides else points, hides)
        for check, points, hides in zip(result.checks, before, hidden, strict=True)
    ]
    return {
        "result": result,
        "verdict": VERDICTS[result.outcome],
        "rules": sorted(rules, key=_by_weight),
        "found_text": found_text,
        "stages": [_stage(report) for report in result.stages],
        "figure": _number,
        "counts": result.counts_sentence(),
        "earlier": trend.batches,
    }


def _by_weight(rule: RuleView) -> tuple[bool, int]:
    """Failed ones first, and of those the gravest."""
    return rule.check.success, SEVERITIES.index(rule.check.severity)


def _rule(
    result: GateResult, check: Checked, before: Sequence[Point | None], hides: bool
) -> RuleView:
    value = None if hides else measured(check, result.profiles)
    least, most = limits(check)
    every = [*(one for one in before if one is not None), Point(value, check.success)]
    points = [(one.value, one.met) for one in every if one.value is not None]
    dots, limit = _dots(points, least if most is None else most)
    unmet = sum(not met for _, met in points)
    sentence = (
        f"The last {len(points)} figures: from {_number(min(v for v, _ in points))} to "
        f"{_number(max(v for v, _ in points))}; not met {counted(unmet, 'time')}"
        if len(points) > 1
        else ""
    )
    words = _words(check.arguments)
    return RuleView(check, words, _number(value), _allowed(least, most), dots, limit, sentence)


def _words(arguments: dict[str, Any]) -> str:
    """What a rule was given, e.g. `column status; value set open, paid; mostly 0.99`."""
    shown = {
        name: value
        for name, value in arguments.items()
        if value is not None and not (name in LIMITS and is_figure(value))
    }
    return "; ".join(f"{name.replace('_', ' ')} {_given(value)}" for name, value in shown.items())


def _given(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_given, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value)


def _allowed(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f"from {_number(least)} to {_number(most)}"
    if most is not None:
        return f"at most {_number(most)}"
    return "" if least is None else f"at least {_number(least)}"


def _dots(
    points: Sequence[tuple[float, bool]], limit: float | None
) -> tuple[list[Dot], float | None]:
    if len(points) < 2:
        return [], None
    values = [value for value, _ in points]
    # A limit far beyond the figures would press them flat.
    near = limit is not None and limit <= 4 * max(values)
    lowest, highest = min(0.0, *values), max(values)
    if near and limit is not None:
        lowest, highest = min(lowest, limit), max(highest, limit)
    room = highest - lowest or 1.0

    def height(value: float) -> float:
        return round(HEIGHT - 3 - (HEIGHT - 6) * (value - lowest) / room, 1)

    step = (WIDTH - 6) / (len(points) - 1)
    dots = [
        Dot(round(3 + place * step, 1), height(value), met)
        for place, (value, met) in enumerate(points)
    ]
    return dots, height(limit) if near and limit is not None else None


def _stage(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "stage": report["stage"],
        "batch": report["batch"],
        "in": report["rows_in"],
        "extra": sum(report["extra_in"].values()),
        "out": report["rows_out"],
        "refused": report["refused"],
        "superseded": report["superseded"],
        "skipped": report["skipped"],
        "waiting": report["waiting"],
        "losses": report["losses"],
        "made_ids": {
            target: made_ids_sentence(counts)
            for target, counts in report.get("made_ids", {}).items()
        },
        "seconds": report["seconds"],
    }


def _number(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int):
        return _apart(str(value))
    if isinstance(value, float):
        return _apart(plain(value))
    return str(value)


def _apart(digits: str) -> str:
    """The digits of a whole number in groups of three; others as they are."""
    whole = digits.lstrip("-").isdecimal()
    return f"{int(digits):,}".replace(",", "\u202f") if whole else digits
