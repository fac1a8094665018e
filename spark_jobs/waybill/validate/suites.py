"""Suites of expectations: hand-written JSON, the product's own and those of a migration."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from waybill.errors import Code, ConfigurationError
from waybill.storage.open import open_storage

PROFILES = ("changes", "tables")
"""What a suite can run over."""

FOLDER = "WAYBILL_SUITES"
"""Environment variable that names the folder of the product's suites."""


@dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
        name: its name in reports.
        profile: what it runs over, one of `PROFILES`.
        expectations: type, kwargs, severity, description and meta of each.
    """

    name: str
    profile: str
    expectations: tuple[dict[str, Any], ...]


def load_suite(name: str) -> Suite:
    """A suite by the name of one of the product's own, or by the path of a file.

    Raises:
        ConfigurationError: there is no such suite, or it is not what a suite must be.
    """
    shown = name if "/" in name or name.endswith(".json") else f"suite {name}"
    text = _own(name) if shown != name else _file(name)
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{shown} is not JSON: {error}; fix the file", code=Code.SUITE
        ) from error
    return _suite(shown, data)


def _own(name: str) -> bytes:
    for place in _places():
        found = place / f"{name}.json"
        if found.is_file():
            content: bytes = found.read_bytes()
            return content
    message = (
        f"there is no suite {name!r}: quality.suites names changes, tables or the path of a .json "
        f"file (the product's own suites are looked for in ${FOLDER} and expectations/suites)"
    )
    raise ConfigurationError(message, code=Code.SUITE)


def _places() -> list[Any]:
    """Where the product's own suites may lie: named, packed with the library, in the checkout."""
    places: list[Any] = []
    if os.environ.get(FOLDER):
        places.append(Path(os.environ[FOLDER]))
    places.append(resources.files("waybill.validate") / "suites")
    places.append(Path(__file__).resolve().parents[3] / "expectations" / "suites")
    return places


def _file(path: str) -> bytes:
    system, name = open_storage(path)
    try:
        content: bytes = system.cat_file(name)
    except OSError as error:
        message = f"the suite {path} cannot be read ({error}); name a file in quality.suites"
        raise ConfigurationError(message, code=Code.SUITE) from error
    return content


def _suite(shown: str, data: Any) -> Suite:
    wrong = None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        wrong = "it has no name"
    elif not isinstance(data.get("expectations"), list) or not data["expectations"]:
        wrong = "it has no list of expectations"
    elif not isinstance(data.get("meta"), dict) or data["meta"].get("profile") not in PROFILES:
        wrong = f"its meta.profile must be one of {', '.join(PROFILES)}"
    else:
        for number, expectation in enumerate(data["expectations"]):
            if not isinstance(expectation, dict) or not isinstance(expectation.get("type"), str):
                wrong = f"expectation {number} has no type"
            elif expectation.get("severity", "critical") not in ("critical", "warning", "info"):
                wrong = f"the severity of expectation {number} is none of critical, warning, info"
    if wrong is not None:
        raise ConfigurationError(
            f"{shown} is not a suite: {wrong}; see expectations/README.md", code=Code.SUITE
        )
    return Suite(data["name"], data["meta"]["profile"], tuple(data["expectations"]))
