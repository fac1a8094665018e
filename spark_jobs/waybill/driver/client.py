"""Asks a driver for a stage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from waybill.errors import Code, DriverError

SILENCE = 30.0
"""Seconds without a word after which the driver is given up; it says something every few."""


def ask(
    url: str, token: str, order: dict[str, Any], tell: Callable[[str, str], None]
) -> dict[str, Any]:
    """Have a stage run and wait for its end.

    Args:
        url: the driver's address, e.g. `http://127.0.0.1:8190`.
        token: the driver's token.
        order: the fields of `waybill.driver.work.StageOrder`.
        tell: is given each line that the stage logs, and its level.

    Returns:
        `{"report": …}` or `{"error": …}`, as `waybill.jobs.result_of` says.

    Raises:
        DriverError: the address or the token cannot be one; or there is no answer, or it broke off:
            what the stage did is then not known, and running it again is safe.
    """
    _check(url, token)
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Timeout(SILENCE, connect=10.0)
    try:
        with httpx.stream(
            "POST", f"{url}/stages", json=order, headers=headers, timeout=limits, trust_env=False
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                message = f"the driver at {url} answers {answer.status_code}: {_reason(answer)}"
                raise DriverError(message, answer.status_code >= 500, code=Code.DRIVER_REFUSED)
            for number, text in enumerate(answer.iter_lines()):
                line = _line(text, url, number)
                if "log" in line:
                    tell(line["log"], line["level"])
                elif line.get("result"):
                    result: dict[str, Any] = line["result"]
                    return result
    except (httpx.InvalidURL, UnicodeError):
        # The second is what the look-up of a host raises whose name no host can have.
        raise DriverError(_NO_ADDRESS.format(url=url), False, code=Code.DRIVER_CONNECTION) from None
    except httpx.LocalProtocolError:
        # Its text repeats the headers, and so the token.
        message = f"no request can be made for the driver at {url}: fix its connection"
        raise DriverError(message, False, code=Code.DRIVER_CONNECTION) from None
    except httpx.HTTPError as error:
        message = (
            f"the driver at {url} cannot be reached or broke off ({type(error).__name__}: {error}):"
            " see whether it runs, and what its log says"
        )
        raise DriverError(message, True, code=Code.DRIVER_UNREACHABLE) from error
    message = f"the driver at {url} ended the stage without a result: see what its log says"
    raise DriverError(message, True, code=Code.DRIVER_UNREACHABLE)


_NO_ADDRESS = (
    "{url} is not the address of a driver: give its connection a host without scheme or path, a "
    "port, and as schema http or https"
)


def _check(url: str, token: str) -> None:
    """See that a request can be made of address and token; says nothing of the token itself."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https")
        usable = known and bool(parts.hostname) and parts.port is not None and not parts.path
    except ValueError:
        usable = False
    if not usable:
        raise DriverError(_NO_ADDRESS.format(url=url), False, code=Code.DRIVER_CONNECTION)
    if not re.fullmatch(r"[!-~]([ -~]*[!-~])?", token):
        message = (
            f"the token of the driver at {url} is empty, begins or ends with a space, or holds "
            "characters that are not printable ASCII: fix the password of its connection"
        )
        raise DriverError(message, False, code=Code.DRIVER_CONNECTION)


def _line(text: str, url: str, number: int) -> dict[str, Any]:
    """What a driver says in one line; the first one, 0, shows whether it is a driver at all."""
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) and number:
        message = (
            f"the driver at {url} broke off in a line: see whether it runs, and what its log says"
        )
        raise DriverError(message, True, code=Code.DRIVER_UNREACHABLE)
    if not isinstance(line, dict):
        message = (
            f"what answers at {url} is not a driver but a proxy or another server: fix host and "
            "port of the driver's connection"
        )
        raise DriverError(message, False, code=Code.DRIVER_CONNECTION)
    return line


def _reason(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
    if isinstance(detail, list):  # what is wrong with the order, field by field
        return "; ".join(f"{'.'.join(map(str, d['loc'][1:]))}: {d['msg']}" for d in detail)
    return str(detail)
