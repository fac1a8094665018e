"""Asks a driver for a stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from waybill.errors import DriverError

SILENCE = 30.0
"""Seconds without a word after which the driver is given up; it says something every few."""


def ask(
    url: str, token: str, order: dict[str, Any], tell: Callable[[str, str], None]
) -> dict[str, Any]:
    """Have a stage run and wait for its end.

    Args:
        url: the driver's address, e.g. `http://127.0.0.1:8190`.
        token: the driver's token.
        order: the fields of `waybill.driver.work.Order`.
        tell: is given each line that the stage logs, and its level.

    Returns:
        `{"report": …}` or `{"error": …}`, as `waybill.jobs.result_of` says.

    Raises:
        DriverError: there is no answer, or it broke off; what the stage did is not known, and
            running it again is safe.
    """
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Timeout(SILENCE, connect=10.0)
    try:
        with httpx.stream(
            "POST", f"{url}/stages", json=order, headers=headers, timeout=limits, trust_env=False
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                message = f"the driver at {url} answers {answer.status_code}: {_reason(answer)}"
                raise DriverError(message, answer.status_code >= 500)
            for text in answer.iter_lines():
                line = json.loads(text)
                if "log" in line:
                    tell(line["log"], line["level"])
                elif line.get("result"):
                    result: dict[str, Any] = line["result"]
                    return result
    except httpx.HTTPError as error:
        message = (
            f"the driver at {url} cannot be reached or broke off ({type(error).__name__}: {error}):"
            " see whether it runs, and what its log says"
        )
        raise DriverError(message, True) from error
    message = f"the driver at {url} ended the stage without a result: see what its log says"
    raise DriverError(message, True)


def _reason(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
    if isinstance(detail, list):  # what is wrong with the order, field by field
        return "; ".join(f"{'.'.join(map(str, d['loc'][1:]))}: {d['msg']}" for d in detail)
    return str(detail)
