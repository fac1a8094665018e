"""The gate's result as OpenLineage's assertions and figures of datasets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from openlineage.client.facet_v2 import (
    data_quality_assertions_dataset,
    data_quality_metrics_input_dataset,
)

from waybill.validate.result import FIGURES, TRENDS

if TYPE_CHECKING:
    from openlineage.client.facet_v2 import InputDatasetFacet

SEVERITIES = {"critical": "error", "warning": "warn"}
"""Words of OpenLineage for those of suites that have one."""

LONGEST = 500
"""Of an expected value as text, so many characters are sent."""


def facets_of(result: dict[str, Any], kind: str, name: str) -> dict[str, InputDatasetFacet]:
    """What the gate measured of a topic or a table, and which of its rules it meets.

    Args:
        result: of the gate, as it is kept.
        kind: `topic` or `table`.
        name: as the gate names it.
    """
    found = _asserted(_of(result, kind, name))
    profile = next((p for p in _profile(result, kind) if p[kind] == name), None)
    if profile is not None:
        rows = profile["messages" if kind == "topic" else "rows"]
        found["dataQualityMetrics"] = (
            data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
                {}, rowCount=rows
            )
        )
    return found


def of_targets(result: dict[str, Any]) -> dict[str, InputDatasetFacet]:
    """Which rules the messages to targets meet."""
    found = (
        (check, None if check["success"] else _in_rows(check))
        for check in result["checks"]
        if check["table"] is None and check["profile"] not in result["profiles"]
    )
    return _asserted(found)


def _asserted(
    checks: Iterable[tuple[dict[str, Any], dict[str, Any] | None]],
) -> dict[str, InputDatasetFacet]:
    assertions = [_assertion(check, found) for check, found in checks]
    if not assertions:
        return {}
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
    return {"dataQualityAssertions": facet}


def topics_of(result: dict[str, Any]) -> list[str]:
    """The topics that the gate has looked at."""
    return [profile["topic"] for profile in _profile(result, "topic")]


def _profile(result: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    profiles: dict[str, list[dict[str, Any]]] = result["profiles"]
    return profiles.get("changes" if kind == "topic" else "tables", [])


def _of(
    result: dict[str, Any], kind: str, name: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The rules about a dataset, each with what of it does not meet them."""
    own = {"topic": "changes", "table": "tables"}[kind]
    trends = result["profiles"].get(TRENDS, [])
    here = (row for row in trends if row["kind"] == kind and row["name"] == name)
    past: dict[str, Any] = next(here, {})
    for check in result["checks"]:
        if check["table"] is not None:
            if kind == "table" and check["table"] == name:
                yield check, None if check["success"] else _in_rows(check)
        elif check["profile"] == own or _has_past(check, past):
            found = next((one for one in check["observed"] if one["where"] == name), None)
            yield check, found if check["error"] is None else {}


def _has_past(check: dict[str, Any], past: dict[str, Any]) -> bool:
    """Whether a rule over time had something to compare with."""
    column = check["arguments"].get("column")
    return check["profile"] == TRENDS and past.get(column) is not None


def _in_rows(check: dict[str, Any]) -> dict[str, Any]:
    """What a suite on rows has found: a figure, never a row."""
    if check["unexpected"] is not None:
        return {"value": f"{check['unexpected']} unexpected rows"}
    if not FIGURES.match(check["type"]):
        return {}
    whole = [one for one in check["observed"] if one["where"] == ""]
    return whole[0] if whole else {}


def _assertion(
    check: dict[str, Any], found: dict[str, Any] | None
) -> data_quality_assertions_dataset.Assertion:
    arguments = dict(check["arguments"])
    # Of a profile it is a figure, not a column of the dataset.
    about = arguments.pop("column", None)
    on_rows = check["table"] is not None
    expected = json.dumps(arguments, ensure_ascii=False, default=str) if arguments else None
    value = None if found is None else found.get("value")
    return data_quality_assertions_dataset.Assertion(
        assertion=check["type"],
        success=found is None,
        column=about if on_rows else None,
        severity=SEVERITIES.get(check["severity"], check["severity"]),
        name=f"{check['suite']}: {about or check['type']}",
        description=check["description"] or None,
        expected=None if expected is None else expected[:LONGEST],
        actual=None if value is None else str(value),
    )
