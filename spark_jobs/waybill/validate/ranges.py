"""Ranges of columns of a profile, checked by comparing.

The product's own suites for profiles ask for nothing else, and Great Expectations takes seconds to
load: whoever only wants to know before a run (`waybill check`) need not wait for it. The gate
always asks Great Expectations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any, TypeGuard

from waybill.validate.expectations import ROW_NAMES
from waybill.validate.result import Checked
from waybill.validate.suites import Suite, is_waivable

TYPE = "expect_column_values_to_be_between"

_ARGUMENTS = {"column", "min_value", "max_value"}
_EXACT = 2**53
"""Up to here every integer is a float, which Great Expectations makes of limits."""

_PARTS = {"type", "kwargs", "severity", "description", "meta"}


def check_ranges(
    suite: Suite, rows: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
) -> list[Checked] | None:
    """Check a suite that asks for ranges of numbers and for nothing else.

    Args:
        suite: what is expected of a profile.
        rows: the rows of that profile.
        parameters: values for `{"$PARAMETER": name}` in the suite.

    Returns:
        One result per expectation, as `waybill.validate.expectations.run_suites` gives them; None
        where only Great Expectations can tell, also of what is wrong with the suite.
    """
    found = [_check(suite, item, rows, parameters) for item in suite.expectations]
    checks = [one for one in found if one is not None]
    return checks if rows and len(checks) == len(found) else None


def _check(
    suite: Suite,
    item: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> Checked | None:
    kwargs = item.get("kwargs")
    if item.get("type") != TYPE or not isinstance(kwargs, dict):
        return None
    if not (item.keys() <= _PARTS and {"column"} < kwargs.keys() <= _ARGUMENTS):
        return None
    if not isinstance(item.get("description", ""), str):
        return None
    given = {name: _value(argument, parameters) for name, argument in kwargs.items()}
    column, low, high = given["column"], given.get("min_value", -inf), given.get("max_value", inf)
    if not isinstance(column, str) or not all(column in row for row in rows):
        return None
    values = [row[column] for row in rows]
    if not all(_is_number(value) for value in values if value is not None):
        return None
    if not all(_is_number(given[name]) for name in given if name != "column") or low > high:
        return None
    name = ROW_NAMES[suite.over.name]
    observed = [
        {"where": row.get(name, ""), "value": value}
        for row, value in zip(rows, values, strict=True)
        if value is not None and not low <= value <= high
    ]
    return Checked(
        suite=suite.name,
        profile=suite.over.name,
        type=TYPE,
        arguments=given,
        severity=item.get("severity") or "critical",
        description=item.get("description") or "",
        look=(item.get("meta") or {}).get("look", ""),
        success=not observed,
        observed=observed,
        waivable=is_waivable(item),
    )


def _value(argument: Any, parameters: Mapping[str, Any]) -> Any:
    """An argument, or the parameter that it names."""
    if isinstance(argument, dict) and argument.keys() == {"$PARAMETER"}:
        name = argument["$PARAMETER"]
        return parameters.get(name) if isinstance(name, str) else None
    return argument


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a number that Great Expectations compares as what it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= _EXACT
    return isinstance(value, float) and isfinite(value)
