"""What the lake of each migration says of it in short, for the page of all migrations.

Hundreds of lakes take a second to ask, and what they say takes thousands of objects to hold, which
make Python's collector walk through all that there are. So nothing is read twice that is the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from waybill.errors import WaybillError
from waybill.overview.files import outline_stamp, read_outline, read_source
from waybill.storage.objects.places import is_object_url
from waybill_airflow.lake_access import in_lake_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.files import Stamp
    from waybill.overview.schema import Index, SourceLook
    from waybill.spec.migration import Migration

POINTS = 30
"""So many batches of a migration are read."""

AT_ONCE = 16
"""Lakes that are read at a time: those in object storage answer after a while."""

FRESH = 10.0
"""For so many seconds what a lake in object storage said is shown again, and it is not asked."""

LONGEST = 30.0
"""For so many seconds it may be shown again, while others are asked; not why it cannot be read."""

DUE, SHARE = 10, 3
"""So many lakes in object storage, or one in so many, are asked for one page, the longest ago
first, beside those that said nothing for `LONGEST`: hundreds at a time take a second. So whoever
looks every ten seconds never waits for all of them again."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a lake says: its index, what its source held, and why they cannot be read, if so."""

    index: Index | None = None
    source: SourceLook | None = None
    problem: str = ""


_away: dict[str, tuple[float, Outline]] = {}
"""What lakes in object storage said, by the folder of the reports, and when."""

_here: dict[str, tuple[Stamp, Outline]] = {}
"""What lakes on a disk said, by the folder, and which files they said it with."""


def outlines(specs: Sequence[Migration]) -> dict[str, Outline]:
    """What each migration's lake says; files on a disk are read faster one after the other."""
    away = [spec for spec in specs if is_object_url(spec.lake.warehouse)]
    known, asked = _lately(away)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(_ask, asked)
        found = {s.name: _newest(s) for s in specs if not is_object_url(s.lake.warehouse)}
        return found | known | dict(zip((spec.name for spec in asked), answers, strict=True))


def _lately(specs: Sequence[Migration]) -> tuple[dict[str, Outline], list[Migration]]:
    """What lakes in object storage have said lately, and those that are to be asked now."""
    now = monotonic()
    for folder, (time, outline) in list(_away.items()):
        if time <= now - (FRESH if outline.problem else LONGEST):
            _away.pop(folder, None)
    said = {spec.name: _away.get(spec.reports) for spec in specs}
    asked = [spec for spec in specs if said[spec.name] is None]
    ages = {name: now - one[0] for name, one in said.items() if one is not None}
    due = [spec for spec in specs if ages.get(spec.name, 0) >= FRESH]
    due.sort(key=lambda spec: -ages[spec.name])
    asked += due[: max(0, max(DUE, len(specs) // SHARE) - len(asked))]
    names = {spec.name for spec in asked}
    known = {name: one[1] for name, one in said.items() if one is not None and name not in names}
    return known, asked


def _ask(spec: Migration) -> Outline:
    """What a lake in object storage says now."""
    outline = _read(spec)
    _away[spec.reports] = (monotonic(), outline)
    return outline


def _newest(spec: Migration) -> Outline:
    """What a lake on a disk says now."""
    # Asked before the files are read: a stage that writes meanwhile makes the stamp an old one.
    stamp = outline_stamp(spec)
    found = _here.get(spec.reports)
    if found is not None and found[0] == stamp:
        return found[1]
    outline = _read(spec)
    if stamp is None or outline.problem:
        _here.pop(spec.reports, None)
    else:
        _here[spec.reports] = (stamp, outline)
    return outline


def _read(spec: Migration) -> Outline:
    try:
        return Outline(
            *in_lake_of(spec, lambda spec: (read_outline(spec, POINTS), read_source(spec)))
        )
    except WaybillError as error:
        return Outline(problem=str(error))
