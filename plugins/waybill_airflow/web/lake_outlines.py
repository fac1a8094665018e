"""What the lake of each migration says of it in short, for the page of all migrations.

Hundreds of lakes take a second to ask, and what they say takes thousands of objects to hold, which
make Python's collector walk through all that there are. So nothing is read twice that is the same,
and nobody waits for a lake in object storage that has said something before.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import WaybillError
from waybill.overview.files import outline_stamp, read_outline, read_source
from waybill.storage.objects.places import is_object_url
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.asking_behind import AskingBehind

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
"""For so many seconds what a lake in object storage said is shown, and it is not asked."""

OLD = 30.0
"""From so many seconds on the page says that it is old, and looks again; from `FRESH` on where it
is why a lake cannot be read."""

PAUSE = 0.3
"""So many seconds after a page was sent lakes are asked behind it: its styles and whatever its
reader opens next are made by the same interpreter."""

LONGEST = 3600.0
"""From so many seconds on it is not shown, and the page waits for the lake."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a lake says: its index, what its source held, and why they cannot be read, if so."""

    index: Index | None = None
    source: SourceLook | None = None
    problem: str = ""


class Outlines(NamedTuple):
    """What lakes say.

    Attributes:
        found: by migration.
        age: seconds since the lake was asked that was asked the longest ago.
        old: how many of them are older than they should be.
        due: migrations whose lakes are to be asked again when the page is sent, the longest ago
            first.
    """

    found: dict[str, Outline]
    age: float
    old: int
    due: list[Migration]


_away: dict[str, tuple[float, Outline]] = {}
"""What lakes in object storage said, by the folder of the reports, and when."""

_here: dict[str, tuple[Stamp, Outline]] = {}
"""What lakes on a disk said, by the folder, and which files they said it with."""


def outlines(specs: Sequence[Migration]) -> Outlines:
    """What each migration's lake says; files on a disk are read faster one after the other."""
    away = [spec for spec in specs if is_object_url(spec.lake.warehouse)]
    now = monotonic()
    for folder, (time, _) in list(_away.items()):
        if time <= now - LONGEST:
            _away.pop(folder, None)
    said = {spec.name: one for spec in away if (one := _away.get(spec.reports)) is not None}
    unknown = [spec for spec in away if spec.name not in said]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(_ask, unknown)
        found = {s.name: _newest(s) for s in specs if not is_object_url(s.lake.warehouse)}
        found |= dict(zip((spec.name for spec in unknown), answers, strict=True))
    ages = {name: now - time for name, (time, _) in said.items()}
    found |= {name: outline for name, (_, outline) in said.items()}
    old = sum(age >= (FRESH if found[name].problem else OLD) for name, age in ages.items())
    due = [spec for spec in away if ages.get(spec.name, 0) >= FRESH]
    due.sort(key=lambda spec: -ages[spec.name])
    return Outlines(found, max(ages.values(), default=0.0), old, due)


def _ask(spec: Migration) -> Outline:
    """What a lake in object storage says now."""
    outline = _read(spec)
    _away[spec.reports] = (monotonic(), outline)
    return outline


_behind = AskingBehind(_ask, PAUSE)


def ask_again(due: Sequence[Migration]) -> None:
    """Ask lakes once more, without anybody waiting for what they say."""
    _behind.add(due)


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
