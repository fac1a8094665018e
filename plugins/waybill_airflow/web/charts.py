"""Small charts: where their marks stand. Templates draw them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Mark(NamedTuple):
    """A bar: its place and size in the units of the chart, and what it says."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


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
    """

    title: str
    summary: str
    width: int
    height: int
    marks: list[Mark]
    top: str
    legend: list[tuple[str, str]]


WIDTH, HEIGHT = 600, 120
LINE_WIDTH, LINE_HEIGHT = 96, 24


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
    summary: str,
    columns: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    legend: Sequence[tuple[str, str]],
    top: str,
) -> Chart:
    """A chart of stacked bars.

    Args:
        title: what it shows.
        summary: the same in a sentence.
        columns: oldest first: what a bar says, and its parts from the bottom as kind and value.
        legend: kinds and what they mean.
        top: the largest value, as text.
    """
    largest = max((sum(value for _, value in parts) for _, parts in columns), default=0) or 1
    slot = WIDTH / max(len(columns), 12)
    marks = []
    for place, (told, parts) in enumerate(columns):
        base = float(HEIGHT)
        for kind, value in parts:
            height = round(value / largest * (HEIGHT - 4), 1)
            if value and height < 1:
                height = 1.0  # what is there is to be seen
            base = round(base - height, 1)
            if height:
                x = round(place * slot + slot * 0.1, 1)
                marks.append(Mark(x, base, round(slot * 0.8, 1), height, kind, told))
    return Chart(title, summary, WIDTH, HEIGHT, marks, top, list(legend))
