"""What a rule measured, what it allows, and what it measured in the batches before."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.validate.result import Checked

if TYPE_CHECKING:
    from waybill.validate.result import GateResult
    from waybill.validate.trends import Spoken

REMEMBERED = 30
"""So many batches a trend goes back."""

LIMITS = ("min_value", "max_value")
"""Arguments of a rule that say the least and the most of a figure."""

Profiles = Mapping[str, Sequence[Mapping[str, Any]]]


class Point(NamedTuple):
    """What a rule measured in an earlier batch, and whether it was met."""

    value: float | None
    met: bool


class Earlier(NamedTuple):
    """A batch of before: its id, the verdict and when it was said."""

    batch: str
    outcome: str
    time: str


class Trend(NamedTuple):
    """The batches before one.

    Attributes:
        batches: oldest first.
        rules: for every rule of the batch, in the order of its result, one entry a batch; None
            where the rule was not there.
    """

    batches: list[Earlier]
    rules: list[list[Point | None]]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trend:
        """The trend that was kept as JSON."""
        rules = [[None if one is None else Point(*one) for one in line] for line in data["rules"]]
        return cls([Earlier(*one) for one in data["batches"]], rules)


NO_TREND = Trend([], [])


def measured(check: Checked, profiles: Profiles) -> float | None:
    """The figure of a rule, None where nothing was looked at.

    Of a rule about a column of a profile it is that of the row furthest out, of one that looks for
    rows how many it found.
    """
    if check.error is not None or check.note:
        return None
    column = check.arguments.get("column")
    values = [row.get(column) for row in profiles.get(check.profile, ())] if column else []
    figures = [figure for value in values if (figure := _number(value)) is not None]
    least, most = limits(check)
    if figures and most is not None:
        return max(figures)
    if figures and least is not None:
        return min(figures)
    if check.unexpected is not None:
        return float(check.unexpected)
    if len(check.observed) == 1 and check.observed[0]["where"] == "":
        return _number(check.observed[0].get("value"))
    return None if column and values and not figures else float(len(check.observed))


def limits(check: Checked) -> tuple[float | None, float | None]:
    """The least and the most that a rule about a figure allows, None where it has no such limit."""
    least, most = (_number(check.arguments.get(name)) for name in LIMITS)
    return least, most


def is_figure(value: Any) -> bool:
    """Whether it is a number, and not a time or a text."""
    return _number(value) is not None


def _number(value: Any) -> float | None:
    """A figure; None for what is none, such as not-a-number, which equals nothing."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        return None
    return float(value)


def trend_of(result: GateResult, before: Sequence[Spoken]) -> Trend:
    """What every rule of a batch measured in those before.

    Args:
        result: of the batch.
        before: verdicts of earlier batches, oldest first.
    """
    # One that was judged before has a verdict of its own among them.
    others = [one for one in before if one.result["batch"] != result.batch][-REMEMBERED:]
    batches = [Earlier(one.result["batch"], one.outcome, one.time) for one in others]
    earlier = [_points(one.result) for one in others]
    rules = [[points.get(rule_mark(check)) for points in earlier] for check in result.checks]
    return Trend(batches, rules)


def _points(kept: Mapping[str, Any]) -> dict[str, Point]:
    checks = [Checked(**check) for check in kept["checks"]]
    profiles = kept["profiles"]
    return {rule_mark(check): Point(measured(check, profiles), check.success) for check in checks}


def rule_mark(check: Checked) -> str:
    """What tells a rule from others, whatever its limit is."""
    arguments = {k: v for k, v in check.arguments.items() if k not in LIMITS}
    identity = (check.suite, check.profile, check.table, check.type, arguments, check.description)
    return json.dumps(identity, sort_keys=True, default=str)


def figures_with_limits(result: GateResult) -> dict[str, Any]:
    """The figures of a batch that have a limit, for who draws the two beside each other.

    Returns:
        `refused_share`: the share of refused messages that was measured, and the most allowed;
        `messages_off`: how far a topic is from its usual volume, and the most allowed, in times of
        what is usual; `messages`: of the only topic, from what to what it may be. Those that no
        suite asks for are left out.
    """
    figures: dict[str, Any] = {}
    for check in result.checks:
        if check.of_rows:
            # A table may have a column of such a name; its values are not figures of the batch.
            continue
        column, most = check.arguments.get("column"), limits(check)[1]
        figure = measured(check, result.profiles)
        if column in ("refused_share", "messages_off") and most is not None and figure is not None:
            known = figures.setdefault(column, [figure, most])
            known[1] = min(known[1], most)
    topics = [row for row in result.profiles.get("trends", ()) if row["kind"] == "topic"]
    if len(topics) == 1 and "messages_off" in figures:
        usual, spread = topics[0].get("messages_usual"), topics[0].get("messages_spread")
        if usual is not None and spread is not None:
            room = figures["messages_off"][1] * spread
            ends = [max(0.0, round(usual - room, 1)), round(usual + room, 1)]
            figures["messages"] = [topics[0]["messages"], *ends]
    return figures
