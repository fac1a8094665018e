"""What a stage left behind when its process ended, as Airflow has to take it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


class StageInterrupted(Exception):
    """A stage that did not come to its end for a passing reason; the task is tried again."""


class StageFailed(AirflowFailException):
    """A stage that failed for good.

    Attributes:
        code: label of the error's `waybill.errors.Code`, None where nobody foresaw it.
        report: the account that the stage came to, None where it did not.
    """

    def __init__(self, message: str, code: str | None, report: dict[str, Any] | None) -> None:
        super().__init__(message)
        self.code = code
        self.report = report


def report_of(result: dict[str, Any], stage: str) -> dict[str, Any]:
    """The report of a stage that ended well.

    Raises:
        AirflowFailException: the stage wrote no report, so what it did cannot be determined.
    """
    report = result.get("report")
    if not isinstance(report, dict):
        message = f"the {stage} stage ended without a report; look for the cause in the log above"
        raise AirflowFailException(message)
    return report


def keep_report(result: dict[str, Any], context: Context) -> None:
    """Give a failed task its report as the return value, where the stage came to one.

    That of a gate that said no tells which expectations failed and where the report is.
    """
    report = result.get("report")
    if isinstance(report, dict) and "ti" in context:
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=report)


def failure_of(result: dict[str, Any], stage: str, code: int | None) -> Exception:
    """The error to raise for a stage that failed.

    A permanent one (configuration, the gate, a source that changed) fails the task at once. One
    that may pass (another run was first), and a process that was killed, is tried again.
    """
    error = result.get("error")
    if not isinstance(error, dict):
        ended = "" if code is None else f" with {_spoken(code)}"
        return StageInterrupted(f"the {stage} stage ended{ended} before it could report the cause")
    name = error.get("code") or error.get("kind", "Error")
    message = f"{name}: {error.get('message', 'no reason given')}"
    if error.get("transient"):
        return StageInterrupted(message)
    report = result.get("report")
    return StageFailed(message, error.get("code"), report if isinstance(report, dict) else None)


def _spoken(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def read(result: Path) -> dict[str, Any]:
    """What a stage left in its file; nothing where it could not."""
    try:
        data = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
