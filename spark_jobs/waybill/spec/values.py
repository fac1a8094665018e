"""Kinds of values in a specification, each checked when it is read."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from waybill.errors import Code, ConfigurationError
from waybill.spec.durations import moment_of, seconds_of
from waybill.storage.objects.places import is_object_url, place_of
from waybill.types import parse_type


def _column_type(text: str) -> str:
    """A type that has values: messages may state others, a declaration may not."""
    found = parse_type(text)
    precision, scale = found.precision, found.scale or 0
    if found.kind == "decimal" and precision is not None and precision < max(scale, 1):
        message = (
            f"{text!r} has {scale} digits after the point and {precision} in all: write "
            f"decimal({max(scale, 1)},{scale}), or the type that the source has"
        )
        raise ValueError(message)
    if found.kind == "bit" and not precision:
        message = f"{text!r} has no bits: write how many, such as bit(8)"
        raise ValueError(message)
    return text


ColumnType = Annotated[str, AfterValidator(_column_type)]


def _length_of_time(text: Any) -> str:
    seconds_of(str(text))
    return str(text)


LengthOfTime = Annotated[str, BeforeValidator(_length_of_time)]


def _moment(given: Any) -> datetime | None:
    """A point in time, UTC where nothing else is said; None for an empty text."""
    if given is None or given == "":
        return None
    try:
        return moment_of(given)
    except (TypeError, ValueError):
        message = f"{given!r} is not a time: write one such as 2026-11-01T00:00:00Z"
        raise ValueError(message) from None


_PLACES = (
    "a time such as 2026-11-01T00:00:00Z, or offsets by topic and partition such as "
    "{shop: {0: 1500}}"
)


def _place(given: Any) -> Any:
    """A place in topics: a time, or offsets by topic and partition; None for an empty text."""
    if not isinstance(given, dict):
        return _moment(given)
    try:
        offsets = {
            str(topic): {
                _number(partition): _number(offset) for partition, offset in places.items()
            }
            for topic, places in given.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError(str(error)) from None
    if any(number < 0 for places in offsets.values() for number in places.values()):
        raise ValueError("a negative offset")
    return offsets


def _number(given: Any) -> int:
    """The number of a partition or an offset; a variable gives it as text."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(f"{given!r} is not a whole number")
    return int(given)


def _start(given: Any) -> Any:
    """Where a first read starts: a word or a place."""
    with suppress(ValueError):
        found = given if given in ("earliest", "latest") else _place(given)
        if found:
            return found
    raise ValueError(f"write earliest, latest, {_PLACES}")


def _end(given: Any) -> Any:
    """Up to where topics are read: a place, None for an empty text."""
    with suppress(ValueError):
        return _place(given)
    raise ValueError(f"write {_PLACES}")


def _schedule(text: str) -> str:
    """A schedule as Airflow takes it."""
    from croniter import croniter  # type: ignore[import-untyped]

    try:
        if text not in _PRESETS:
            croniter(text)
    except ValueError:
        message = (
            "is neither a preset such as @hourly nor a cron text of five fields such as "
            '"0 3 * * *": fix it, or leave it out'
        )
        raise ValueError(message) from None
    return text


_PRESETS = ("@once", "@continuous", "@quarterly")
"""Those of Airflow that are not cron texts."""

Schedule = Annotated[str, AfterValidator(_schedule)]


def _file_place(path: str) -> str:
    """A path, or a URL that says where it is."""
    try:
        if is_object_url(path):
            place_of(path)
    except ConfigurationError as error:
        raise ValueError(error.sentence) from None
    return path


FilePlace = Annotated[str, AfterValidator(_file_place)]


def _setting(given: Any) -> Any:
    """A setting of Spark as text; YAML takes `4` and `true` for something else."""
    if isinstance(given, bool):
        return str(given).lower()
    return str(given) if isinstance(given, int | float) else given


SparkSettings = dict[str, Annotated[str, BeforeValidator(_setting)]]

Offsets = dict[str, dict[int, int]]
Start = Annotated[str | datetime | Offsets, BeforeValidator(_start)]
End = Annotated[datetime | Offsets | None, BeforeValidator(_end)]


def _migration_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        message = "use lower-case letters, digits and _, starting with a letter"
        raise ValueError(message)
    if name.endswith("_log"):
        # The lake's tables of messages lie in <name>_log: of two migrations, one would be in it.
        message = "cannot end in _log, which names the lake's tables of messages: choose another"
        raise ValueError(message)
    return name


def check_migration_name(name: str) -> None:
    """See that a migration may have a name.

    Raises:
        ConfigurationError: it may not.
    """
    try:
        _migration_name(name)
    except ValueError as error:
        raise ConfigurationError(f"the name {name!r}: {error}", code=Code.SPECIFICATION) from None


MigrationName = Annotated[str, AfterValidator(_migration_name)]
