"""The profile `trends`: figures of a batch beside those of the batches before it.

What the batches before had is in `runs`, where the gate keeps its results; no table is read for it.
A figure is null, and a rule about it off, until there is enough to compare it with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake import Span
from waybill.lake_columns import RUNS, columns_of
from waybill.validate.batch import STAGE
from waybill.validate.result import FAILED

if TYPE_CHECKING:
    from waybill.lake import Lake

HISTORY = 30
"""So many batches are looked back at."""

LEAST = 7
"""A figure is compared with those of no fewer batches."""

STEADY = 10
"""A table that so many batches in a row have changed is expected to change."""

SPREAD = 1.4826
"""The median absolute deviation times this is the standard deviation, where values are normally
distributed (Rousseeuw and Croux, Alternatives to the Median Absolute Deviation, 1993)."""

YOUNG = 600.0
"""Ages up to this many seconds count as this old: a batch takes its time."""

Profile = Sequence[Mapping[str, Any]]


class Past(NamedTuple):
    """What the gate found in an earlier batch.

    Attributes:
        topics: rows of the profile `changes` by topic.
        tables: rows of the profile `tables` by table.
        ages: how old the newest change of a table was, in seconds.
    """

    topics: dict[str, Mapping[str, Any]]
    tables: dict[str, Mapping[str, Any]]
    ages: dict[str, float]

    @property
    def moved(self) -> bool:
        """Whether it brought anything."""
        return any(topic["messages"] for topic in self.topics.values())


class Spoken(NamedTuple):
    """A verdict of before: what it was, when, and the result of the gate as plain data."""

    outcome: str
    time: str
    result: Mapping[str, Any]


def past_of(verdicts: Sequence[Spoken]) -> list[Past]:
    """What the gate let through, oldest first; of batches that it held nothing was shown."""
    passed = [one.result["profiles"] for one in verdicts if one.outcome != FAILED]
    return [_past(profiles) for profiles in passed[-HISTORY:]]


def verdicts_of(lake: Lake) -> list[Spoken]:
    """The last verdict of every batch, oldest first, back to `HISTORY` that let one through."""
    runs = lake.log("runs")
    every = (commit for commit in lake.commits(runs) if commit.stage == STAGE)
    passed = list(islice(every, HISTORY + 1))
    if not passed:
        return []
    if len(passed) > HISTORY:
        after: int | None = passed[HISTORY].snapshot
    else:
        # Of a history that upkeep has cut the rows are there still, maybe those of years.
        after = passed[-1].snapshot if lake.known_since(runs) else None
    span = Span(runs, after, lake.head(runs))
    rows = lake.few_rows(span, columns_of(RUNS, "batch", "stage", "outcome", "time", "result"), {})
    verdicts = [row for row in rows if row["stage"] == STAGE]
    ordered = sorted(verdicts, key=lambda row: row["time"])
    newest = {row["batch"]: row for row in ordered}
    return [
        Spoken(row["outcome"], row["time"].isoformat(timespec="seconds"), json.loads(row["result"]))
        for row in newest.values()
    ]


def _past(profiles: Mapping[str, Profile]) -> Past:
    trends = profiles.get("trends", ())
    # Results without `complete_age` have that in `age`: it was the age that the rules measured.
    ages = {row["name"]: row["age"] for row in trends if "complete_age" in row}
    return Past(
        _topics(profiles["changes"]),
        {row["table"]: row for row in profiles["tables"]},
        {name: age for name, age in ages.items() if age is not None},
    )


def _topics(changes: Profile) -> dict[str, Mapping[str, Any]]:
    """Rows of the profile `changes` by topic.

    Those that are there only for messages to publish, which a replay has written again, tell
    nothing of how much a topic has.
    """
    came = (row for row in changes if row["messages"] or not row.get("outbox_changes"))
    return {row["topic"]: row for row in came}


class Ages(NamedTuple):
    """How old tables are, in seconds, by their names.

    Attributes:
        newest: since the source made the newest change of each.
        complete: since the time up to which each is complete that the batch changed.
    """

    newest: Mapping[str, float]
    complete: Mapping[str, float]


NO_AGES = Ages({}, {})


def ages_of(newest: Mapping[str, int], merged: Mapping[str, Any], now: datetime) -> Ages:
    """How old tables are; those are left out whose source tells no time.

    Args:
        newest: source times of the newest changes of tables, in microseconds since 1970.
        merged: the details of the merge's report.
        now: with its zone.
    """
    times = {
        name: details["complete up to"]["time"]
        for name, details in merged.items()
        if isinstance(details, dict) and "complete up to" in details
    }
    complete = {n: now - datetime.fromisoformat(time) for n, time in times.items() if time}
    # As a number: not every time of a source is one that Python has.
    here = now.timestamp()
    return Ages(
        {name: round(max(0.0, here - time / 1e6), 1) for name, time in newest.items()},
        {name: round(max(0.0, age.total_seconds()), 1) for name, age in complete.items()},
    )


def trends_profile(
    changes: Profile, tables: Profile, ages: Ages, past: Sequence[Past]
) -> list[dict[str, Any]]:
    """One row for every topic, and for every table that the batch changed or should have.

    Args:
        changes: the profile `changes` of the batch.
        tables: the profile `tables` of the batch.
        ages: see `ages_of`.
        past: the batches before, oldest first.
    """
    topics = _topics(changes)
    found = [_topic(name, row, past) for name, row in sorted(topics.items())]
    here = {row["table"]: row for row in tables}
    moved = [batch for batch in (*past, Past(topics, here, {})) if batch.moved]
    known = {name for batch in moved for name in batch.tables}
    missed = {name for name in known - here.keys() if _without(name, moved) is not None}
    for name in sorted(here.keys() | missed):
        found.append(_table(name, here.get(name), ages, past, moved))
    return found


def trends_figures(name: str, kind: str, batches: int, **figures: float | None) -> dict[str, Any]:
    """A row of the profile; expectations/README.md says what its columns mean."""
    empty = dict.fromkeys(
        (
            *("messages", "messages_usual", "messages_spread", "messages_off", "refused_rise"),
            *("rows", "rows_before", "rows_fell", "age", "age_usual", "age_times"),
            *("complete_age", "batches_without"),
        )
    )
    return {"name": name, "kind": kind, "batches": batches, **empty, **figures}


def _topic(name: str, row: Mapping[str, Any], past: Sequence[Past]) -> dict[str, Any]:
    before = [batch.topics[name] for batch in past if name in batch.topics]
    figures: dict[str, float | None] = {"messages": row["messages"]}
    if len(before) >= LEAST:
        counts = [verdict["messages"] for verdict in before]
        usual = median(counts)
        spread = SPREAD * median(abs(count - usual) for count in counts)
        # Of counts that never differ every other one would be far off.
        spread = max(spread, usual / 10, 1.0)
        figures["messages_usual"] = usual
        figures["messages_spread"] = round(spread, 2)
        figures["messages_off"] = round(abs(row["messages"] - usual) / spread, 2)
        most = max(verdict["refused_share"] for verdict in before)
        figures["refused_rise"] = max(0.0, row["refused_share"] - most)
    return trends_figures(name, "topic", len(before), **figures)


def _table(
    name: str,
    row: Mapping[str, Any] | None,
    ages: Ages,
    past: Sequence[Past],
    moved: Sequence[Past],
) -> dict[str, Any]:
    before = [batch.tables[name]["rows"] for batch in past if name in batch.tables]
    age = ages.newest.get(name)
    figures: dict[str, float | None] = {"age": age, "complete_age": ages.complete.get(name)}
    if row is not None:
        figures["rows"] = row["rows"]
    if row is not None and before:
        figures["rows_before"] = before[-1]
        lost = before[-1] - row["rows"]
        figures["rows_fell"] = max(0.0, lost / before[-1]) if before[-1] else 0.0
    earlier = [batch.ages[name] for batch in past if name in batch.ages]
    if age is not None and len(earlier) >= LEAST:
        figures["age_usual"] = median(earlier)
        figures["age_times"] = round(max(age, YOUNG) / max(*earlier, YOUNG), 2)
    figures["batches_without"] = _without(name, moved)
    return trends_figures(name, "table", len(before), **figures)


def _without(name: str, moved: Sequence[Past]) -> int | None:
    """How many batches in a row have not changed a table that every one before them changed."""
    there = [name in batch.tables for batch in reversed(moved)]
    without = there.index(True) if True in there else len(there)
    steady = there[without : without + STEADY]
    return without if len(steady) == STEADY and all(steady) else None
