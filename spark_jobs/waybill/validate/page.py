"""The gate's result as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from waybill.made_ids import made_ids_sentence
from waybill.validate.result import (
    APPROVED,
    FAILED,
    PASSED,
    REPORTED,
    SEVERITIES,
    found_text,
)

if TYPE_CHECKING:
    from waybill.validate.result import Checked, GateResult

TEMPLATE = "gate.html.j2"

VERDICTS = {
    PASSED: "Passed: the tables are visible and the batch may be published.",
    FAILED: "Held: nothing is visible and nothing is published.",
    REPORTED: "Let through with failures, as quality.on_failure: report says.",
    APPROVED: "Approved: a person had it published as it is, with failures.",
}


def gate_page(result: GateResult) -> str:
    """The page of a result; every text in it is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = (resources.files("waybill.validate") / TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        result=result,
        verdict=VERDICTS[result.outcome],
        checks=sorted(result.checks, key=_by_weight),
        found_text=found_text,
        stages=[_stage(report) for report in result.stages],
        number=_number,
        counts=result.counts(),
    )


def _by_weight(check: Checked) -> tuple[bool, int]:
    """Failed ones first, and of those the gravest."""
    return check.success, SEVERITIES.index(check.severity)


def _stage(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "stage": report["stage"],
        "batch": report["batch"],
        "in": report["rows_in"],
        "extra": sum(report["extra_in"].values()),
        "out": report["rows_out"],
        "refused": report["refused"],
        "superseded": report["superseded"],
        "skipped": report["skipped"],
        "waiting": report["waiting"],
        "losses": report["losses"],
        "made_ids": {
            target: made_ids_sentence(counts)
            for target, counts in report.get("made_ids", {}).items()
        },
        "seconds": report["seconds"],
    }


def _number(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u2009")
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
