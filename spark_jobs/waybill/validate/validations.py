"""The gate's result as validation results of Great Expectations, one for every suite.

They are made of what the gate keeps, not of what Great Expectations returned: in that stand values
of rows, of which the gate shows only what a suite allows. Keys and figures are those of
`great_expectations.core.ExpectationSuiteValidationResult`, as plain data.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from waybill.validate.result import found_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.validate.result import Checked, GateResult

_SIGNS = str.maketrans(
    {"<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "$": "\N{FULLWIDTH DOLLAR SIGN}"}
)
"""What pages of Great Expectations would take for markup, and for places to fill in."""

SHOWN = 20
"""How many findings of an expectation its result names."""


def validations_of(result: GateResult) -> list[dict[str, Any]]:
    """One validation result for every suite of a batch, in the order of the suites."""
    suites: dict[str, list[Checked]] = {}
    for check in result.checks:
        suites.setdefault(check.suite, []).append(check)
    return [_validation(result, name, checks) for name, checks in suites.items()]


def file_of(result: GateResult) -> str:
    """Name of the file that holds them: it sorts by time, and no other verdict has it."""
    from waybill.storage.file_store import file_name

    moment = datetime.fromisoformat(result.time).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}_{file_name(result.batch)}.json"


def _validation(result: GateResult, suite: str, checks: Sequence[Checked]) -> dict[str, Any]:
    met = sum(check.success for check in checks)
    return {
        "success": met == len(checks),
        "suite_name": _name(suite),
        "results": [_one(result, check) for check in checks],
        "suite_parameters": {},
        "statistics": {
            "evaluated_expectations": len(checks),
            "successful_expectations": met,
            "unsuccessful_expectations": len(checks) - met,
            "success_percent": 100.0 * met / len(checks),
        },
        "meta": {
            "run_id": {"run_name": _name(result.batch), "run_time": result.time},
            "batch_spec": {"data_asset_name": _plain(checks[0].profile)},
            "waybill": _plain(
                {
                    "migration": result.migration,
                    "batch": result.batch,
                    "outcome": result.outcome,
                    "decision": result.decision,
                }
            ),
        },
    }


def _one(result: GateResult, check: Checked) -> dict[str, Any]:
    return {
        "success": check.success,
        "expectation_config": {
            "type": check.type,
            "kwargs": _plain(check.arguments),
            "severity": check.severity,
            "description": _plain(check.description) or None,
            "meta": _plain({"suite": check.suite, "look": check.look, "note": check.note}),
        },
        "result": {} if check.error is not None else _found(result, check),
        "meta": {},
        "exception_info": {
            "raised_exception": check.error is not None,
            "exception_message": _plain(check.error),
            "exception_traceback": "",
        },
    }


def _found(result: GateResult, check: Checked) -> dict[str, Any]:
    """What was found, with names of rows in the place of their values."""
    if len(check.observed) == 1 and check.observed[0]["where"] == "":
        return {"observed_value": _plain(check.observed[0].get("value"))}
    rows = _rows(result, check)
    bad = len(check.observed) if check.unexpected is None else check.unexpected
    shown = [_plain(found_text(found, str)) for found in check.observed[:SHOWN]]
    return {
        "element_count": rows,
        "unexpected_count": bad,
        "unexpected_percent": 100.0 * bad / rows if rows else 0.0,
        "partial_unexpected_list": shown,
        "partial_unexpected_counts": [{"value": value, "count": 1} for value in shown],
    }


def _rows(result: GateResult, check: Checked) -> int:
    """How many rows an expectation looked at."""
    if check.profile in result.profiles:
        return len(result.profiles[check.profile])
    return next((cost.rows for cost in result.costs if cost.suite == check.suite), 0)


def _name(text: str) -> str:
    """A name that a key of Great Expectations takes, where dots part folders."""
    return re.sub(r"[^A-Za-z0-9_=-]", "-", text) or "-"


def _plain(data: Any) -> Any:
    """Plain data whose texts are text on a page, too."""
    if isinstance(data, dict):
        return {str(_plain(key)): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    if data is None or isinstance(data, bool | int | float):
        return data
    return str(data).encode("utf-8", "backslashreplace").decode().translate(_SIGNS)
