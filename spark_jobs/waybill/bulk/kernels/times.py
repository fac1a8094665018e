"""Dates and times of day."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.raw_memory import ahead, copy
from waybill.bulk.value_kinds import BAD
from waybill.types import FIRST_SECOND, LAST_SECOND

NO_CLOCK = -(2**62)
"""Stands for the seconds of a text that is no wall clock."""


@compiled
def _power(places):
    """Ten to the power of some places."""
    scale = np.int64(1)
    for _ in range(places):
        scale *= 10
    return scale


@compiled
def _days(year, month, day):
    """Days since 1970 of a date of the Gregorian calendar."""
    year -= 1 if month <= 2 else 0
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@compiled
def _two(arena, p):
    """The number of two digits, below zero where they are none."""
    a = np.int64(arena[p]) - 48
    b = np.int64(arena[p + 1]) - 48
    if a < 0 or a > 9 or b < 0 or b > 9:
        return np.int64(-1000)
    return a * 10 + b


@compiled
def _seconds(arena, p, size, between):  # noqa: C901
    """Seconds since 1970 of `2020-01-31 23:59:59` and a fraction; `NO_CLOCK` for another text.

    The fraction has 1 to 12 digits.
    """
    none = np.int64(NO_CLOCK)
    if size < 19 or size == 20 or size > 32:
        return none
    if (
        arena[p + 4] != 45
        or arena[p + 7] != 45
        or arena[p + 10] != between
        or arena[p + 13] != 58
        or arena[p + 16] != 58
    ):
        return none
    century = _two(arena, p)
    year = _two(arena, p + 2)
    if century < 0 or year < 0:
        return none
    year += century * 100
    month = _two(arena, p + 5)
    day = _two(arena, p + 8)
    hour = _two(arena, p + 11)
    minute = _two(arena, p + 14)
    second = _two(arena, p + 17)
    if year < 1 or month < 1 or month > 12 or day < 1:
        return none
    last = 31
    if month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    if day > last or hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0:
        return none
    if second > 59:
        return none
    if size > 19:
        if arena[p + 19] != 46:
            return none
        for k in range(20, size):
            if arena[p + k] < 48 or arena[p + k] > 57:
                return none
    return ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second


@compiled
def wall_clocks(arena, starts, lengths, between, becomes, at):
    """Write wall clocks with another sign between date and time into the arena.

    Args:
        arena: where the texts are, and where they are written.
        starts: where each text starts; takes where the new one does.
        lengths: becomes `BAD` where a text is no wall clock with `between`.
        between: the byte between date and time.
        becomes: what it becomes.
        at: where in the arena to write.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        p = starts[i]
        if _seconds(arena, p, size, between) == NO_CLOCK:
            lengths[i] = BAD
            continue
        copy(arena, at, arena, p, size)
        arena[at + 10] = becomes
        starts[i] = at
        at += size
    return at


@compiled
def wall_clock_units(arena, starts, lengths, between, places, exact, values):
    """Wall clocks as units of 10**-places seconds since 1970.

    Args:
        arena: where the texts are.
        starts: where each text starts.
        lengths: becomes `BAD` where it is no wall clock, or finer than the unit.
        between: the byte between date and time.
        places: digits of the second in a unit.
        exact: how many digits a fraction must have; -1 for any up to `places`, 0 for none.
        values: takes the numbers.
    """
    scale = _power(places)
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        values[i] = 0
        if size < 0:
            continue
        p = starts[i]
        seconds = _seconds(arena, p, size, between)
        fraction_size = size - 20 if size > 19 else 0
        if seconds == NO_CLOCK or fraction_size > places or (exact >= 0 and fraction_size != exact):
            lengths[i] = BAD
            continue
        rest = np.int64(0)
        for k in range(places):
            rest *= 10
            if k < fraction_size:
                rest += np.int64(arena[p + 20 + k]) - 48
        values[i] = seconds * scale + rest


@compiled
def unit_wall_clocks(values, places, between, arena, at, starts, lengths):
    """Write units of 10**-places seconds since 1970 as wall clocks into the arena.

    Args:
        values: the numbers.
        places: digits of the second in a unit, which are all written.
        between: the byte between date and time.
        arena: takes the texts, `20 + places` bytes for each at most.
        at: where in it.
        starts: takes where each starts.
        lengths: takes how long it is; nothing is written where it is below zero, and it becomes
            `BAD` outside of the years 1 to 9999.
    """
    scale = _power(places)
    for i in range(values.shape[0]):
        if lengths[i] < 0:
            continue
        seconds = values[i] // scale
        rest = values[i] - seconds * scale
        if seconds < FIRST_SECOND or seconds > LAST_SECOND:
            lengths[i] = BAD
            continue
        day = seconds // 86400
        clock = seconds - day * 86400
        day += 719468
        era = day // 146097
        of_era = day - era * 146097
        year_of = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
        of_year = of_era - (365 * year_of + year_of // 4 - year_of // 100)
        shifted = (5 * of_year + 2) // 153
        date = of_year - (153 * shifted + 2) // 5 + 1
        month = shifted + 3 if shifted < 10 else shifted - 9
        year = year_of + era * 400 + (1 if month <= 2 else 0)
        starts[i] = at
        arena[at] = 48 + year // 1000
        arena[at + 1] = 48 + year // 100 % 10
        arena[at + 2] = 48 + year // 10 % 10
        arena[at + 3] = 48 + year % 10
        arena[at + 4] = 45
        arena[at + 5] = 48 + month // 10
        arena[at + 6] = 48 + month % 10
        arena[at + 7] = 45
        arena[at + 8] = 48 + date // 10
        arena[at + 9] = 48 + date % 10
        arena[at + 10] = between
        arena[at + 11] = 48 + clock // 36000
        arena[at + 12] = 48 + clock // 3600 % 10
        arena[at + 13] = 58
        arena[at + 14] = 48 + clock // 600 % 6
        arena[at + 15] = 48 + clock // 60 % 10
        arena[at + 16] = 58
        arena[at + 17] = 48 + clock % 60 // 10
        arena[at + 18] = 48 + clock % 10
        size = 19
        if places > 0:
            arena[at + 19] = 46
            for k in range(places):
                arena[at + 19 + places - k] = 48 + rest % 10
                rest //= 10
            size = 20 + places
        lengths[i] = size
        at += size


@compiled
def with_last(arena, starts, lengths, last, at):
    """Write texts with one byte more behind them into the arena.

    Args:
        arena: where the texts are, and where they are written.
        starts: where each text starts; takes where the new one does.
        lengths: how long it is; takes the new length.
        last: the byte.
        at: where in the arena to write.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        copy(arena, at, arena, starts[i], size)
        arena[at + size] = last
        starts[i] = at
        lengths[i] = size + 1
        at += size + 1
    return at


@compiled
def without_last(arena, starts, lengths, last):
    """Leave out the last byte of texts; `lengths` becomes `BAD` where it is another one."""
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        lengths[i] = size - 1 if size > 0 and arena[starts[i] + size - 1] == last else BAD


@compiled
def _has_fraction(arena, p, size):
    """Whether a text is a time of day with digits behind its point, as `00:01:02.5`."""
    if size < 10 or arena[p + 2] != 58 or arena[p + 5] != 58 or arena[p + 8] != 46:
        return False
    for k in range(9, size):
        if arena[p + k] < 48 or arena[p + k] > 57:
            return False
    minute, second = _two(arena, p + 3), _two(arena, p + 6)
    return _two(arena, p) >= 0 and 0 <= minute < 60 and 0 <= second < 60


@compiled
def without_zeros(arena, starts, lengths, clock):
    """Leave out the zeros at the end of the fraction of times of day.

    Args:
        arena: where the texts are.
        starts: where each text starts.
        lengths: becomes `BAD` where a text with a point ends in a zero and is no `00:01:02.5`
            behind its first bytes.
        clock: how many bytes stand before the time of day, none of which is looked at.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        p, size = starts[i], lengths[i]
        if size < 1 or arena[p + size - 1] != 48:
            continue
        if _has_fraction(arena, p + clock, size - clock):
            while arena[p + size - 1] == 48:
                size -= 1
            lengths[i] = size - 1 if size == clock + 9 else size
            continue
        for k in range(size):
            if arena[p + k] == 46:
                lengths[i] = BAD


@compiled
def _is_date(arena, p):
    """Whether ten bytes are a date, with months up to 12 and days up to 31."""
    if arena[p + 4] != 45 or arena[p + 7] != 45:
        return False
    month = _two(arena, p + 5)
    day = _two(arena, p + 8)
    if _two(arena, p) < 0 or _two(arena, p + 2) < 0:
        return False
    return 0 <= month <= 12 and 0 <= day <= 31


@compiled
def _is_clock(arena, p, size):
    """Whether a text is a time of a day, with any number of digits behind the second."""
    if size < 8 or size == 9 or arena[p + 2] != 58 or arena[p + 5] != 58:
        return False
    hour = _two(arena, p)
    minute = _two(arena, p + 3)
    second = _two(arena, p + 6)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return False
    if size > 8 and arena[p + 8] != 46:
        return False
    digits = True
    for k in range(9, size):
        digits &= 48 <= arena[p + k] <= 57
    return digits


@compiled
def plain_times(arena, starts, lengths, kind, good):
    """Say of each text whether it is null or looks like a time of its type.

    Args:
        arena: where the texts are.
        starts: where each text starts.
        lengths: its length, below zero for null.
        kind: 0 for a date, 1 for a time, 2 for a wall clock with a T, 3 for one that ends in Z.
        good: takes the answers.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        p = starts[i]
        if size < 0:
            good[i] = True
        elif kind == 0:
            good[i] = size == 10 and _is_date(arena, p)
        elif kind == 1:
            good[i] = _is_clock(arena, p, size)
        else:
            last = p + size - 1
            if kind == 3:
                size -= 1
            good[i] = (
                size >= 19
                and (kind == 2 or arena[last] == 90)
                and arena[p + 10] == 84
                and _is_date(arena, p)
                and _is_clock(arena, p + 11, size - 11)
            )
