"""Small charts: where their marks and limits stand. Templates draw them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """A bar: its place and size in the units of the chart, and what it says."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


class ChartLimit(NamedTuple):
    """What bars are held against.

    Attributes:
        name: what it is, with the rule or the field that sets it.
        values: for every bar; None where it does not apply.
        kind: class of the style sheet.
    """

    name: str
    values: Sequence[float | None]
    kind: str = "limit"


class LimitLine(NamedTuple):
    """A limit as it is drawn.

    Attributes:
        name: see `ChartLimit`.
        kind: see `ChartLimit`.
        path: where it runs; empty where all of it is above the chart.
        last: its newest value, as text.
    """

    name: str
    kind: str
    path: str
    last: str


class BarText(NamedTuple):
    """A bar as text: what it is about, its value, and its limits in their order."""

    about: str
    text: str
    limits: list[str]


class Chart(NamedTuple):
    """A chart of bars, oldest first.

    Attributes:
        title: what it shows, with its unit.
        summary: the same in a sentence, for who does not see it.
        width: of the drawing.
        height: of the drawing.
        marks: the bars.
        top: the largest value, as text.
        legend: what the kinds of bars mean, by class of the style sheet.
        limits: what the bars are held against.
        rows: all of it as text, the newest first.
    """

    title: str
    summary: str
    width: int
    height: int
    marks: list[Bar]
    top: str
    legend: list[tuple[str, str]]
    limits: list[LimitLine]
    rows: list[BarText]


class StackedBar(NamedTuple):
    """A bar: what it is about, what it says, and its parts from the bottom as kind and value."""

    about: str
    text: str
    parts: Sequence[tuple[str, float]]

    @property
    def height(self) -> float:
        """All parts together."""
        return sum(value for _, value in self.parts)


WIDTH, HEIGHT = 600, 120
LINE_WIDTH, LINE_HEIGHT = 96, 24

NEAR = 3.0
"""A limit that is more times the largest bar would press the bars flat: it is named, not drawn."""


def sparkline(values: Sequence[float]) -> str:
    """The points of a line through values, oldest first; empty for fewer than two."""
    if len(values) < 2:
        return ""
    top = max(*values, 1)
    step = (LINE_WIDTH - 4) / (len(values) - 1)
    return " ".join(
        f"{2 + place * step:.1f},{LINE_HEIGHT - 2 - (LINE_HEIGHT - 4) * value / top:.1f}"
        for place, value in enumerate(values)
    )


def bars(
    title: str,
    columns: Sequence[StackedBar],
    legend: Sequence[tuple[str, str]],
    write: Callable[[float], str],
    limits: Sequence[ChartLimit] = (),
) -> Chart:
    """A chart of stacked bars with their limits.

    Args:
        title: what it shows.
        columns: oldest first.
        legend: kinds and what they mean.
        write: a value as text, with its unit.
        limits: what the bars are held against; those without a value are left out.
    """
    applied = [limit for limit in limits if any(value is not None for value in limit.values)]
    largest = max((column.height for column in columns), default=0) or 1
    scale = max([largest, *_near(applied, largest)])
    slot = WIDTH / max(len(columns), 12)
    marks = []
    for place, column in enumerate(columns):
        base = float(HEIGHT)
        for kind, value in column.parts:
            height = round(value / scale * (HEIGHT - 4), 1)
            if value and height < 1:
                height = 1.0  # what is there is to be seen
            base = round(base - height, 1)
            if height:
                x = round(place * slot + slot * 0.1, 1)
                title_of = f"{column.about}: {column.text}"
                marks.append(Bar(x, base, round(slot * 0.8, 1), height, kind, title_of))
    lines = [_line(limit, scale, slot, write) for limit in applied]
    return Chart(
        title,
        _summary(title, columns, lines, write),
        WIDTH,
        HEIGHT,
        marks,
        write(max((column.height for column in columns), default=0)),
        list(legend),
        lines,
        [
            BarText(
                column.about,
                column.text,
                [_limit_text(limit.values[place], write) for limit in applied],
            )
            for place, column in reversed(list(enumerate(columns)))
        ],
    )


def _near(limits: Sequence[ChartLimit], largest: float) -> list[float]:
    values = (value for limit in limits for value in limit.values if value is not None)
    return [value for value in values if value <= NEAR * largest]


def _line(limit: ChartLimit, scale: float, slot: float, write: Callable[[float], str]) -> LimitLine:
    path = []
    for place, value in enumerate(limit.values):
        if value is not None and value <= scale:
            y = round(HEIGHT - value / scale * (HEIGHT - 4), 1)
            path.append(f"M{place * slot:.1f} {y}H{(place + 1) * slot:.1f}")
    newest = next(value for value in reversed(limit.values) if value is not None)
    return LimitLine(limit.name, limit.kind, "".join(path), write(newest))


def _limit_text(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else write(value)


def _summary(
    title: str,
    columns: Sequence[StackedBar],
    lines: Sequence[LimitLine],
    write: Callable[[float], str],
) -> str:
    most = write(max((column.height for column in columns), default=0))
    limits = "".join(f" Limit: {line.name}, now {line.last}." for line in lines)
    return f"{title}, the last {len(columns)} batches; at most {most}.{limits}"
