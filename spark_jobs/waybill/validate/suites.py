"""Suites of expectations: JSON, the product's own and those of a migration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from waybill.errors import Code, ConfigurationError
from waybill.storage.open import open_storage
from waybill.validate.result import PROFILES, SEVERITIES

PROFILE, ROWS, CHANGES, PUBLISHED = KINDS = ("profile", "rows", "changes", "published")
"""What a suite can run over, as its `meta` names it: a profile, the rows of a merged table, the
changes of a table, the messages to a target."""

BATCH, TABLE = "batch", "table"
"""Which rows of a merged table: those that the batch wrote, or all of them."""

FOLDER = "WAYBILL_SUITES"
"""Environment variable that names the folder of the product's suites."""

QUERY = "unexpected_rows_query"
"""The argument of an expectation that holds SQL, which names the rows `{batch}`."""

WAIVABLE = "waivable"
"""In the meta of an expectation: false where no person may have a batch published that does not
meet it."""

LOOK = {
    ROWS: "waybill changes {file} --table {table} --key {key}{held}",
    CHANGES: "waybill changes {file} --table {table} --key {key}{held}",
}
"""Where to look when an expectation does not say so itself."""


@dataclass(frozen=True)
class Over:
    """What a suite runs over.

    Attributes:
        kind: one of `KINDS`.
        name: the profile, the source table or the target.
        of: of a table's rows, `batch` or `table`.
        shown: columns whose values may be shown; None for all of them.
    """

    kind: str
    name: str
    of: str = BATCH
    shown: frozenset[str] | None = frozenset()

    @property
    def table(self) -> str | None:
        """The source table, None if it runs over something else."""
        return self.name if self.kind in (ROWS, CHANGES) else None

    def shows(self, column: str) -> bool:
        """Whether values of a column may be shown."""
        return self.shown is None or column in self.shown

    def __str__(self) -> str:
        if self.kind == ROWS:
            return f"{'all ' if self.of == TABLE else 'written '}rows of {self.name}"
        if self.kind == PUBLISHED:
            return f"messages to {self.name}"
        return self.name if self.kind == PROFILE else f"changes of {self.name}"


@dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
        name: its name in reports.
        over: what it runs over.
        expectations: type, kwargs, severity, description and meta of each.
    """

    name: str
    over: Over
    expectations: tuple[dict[str, Any], ...]


def load_suites(names: Sequence[str]) -> list[Suite]:
    """The suites of a migration.

    Raises:
        ConfigurationError: see `load_suite`; or two have one name, so that reports could not tell
            them apart.
    """
    suites = [load_suite(name) for name in names]
    first: dict[str, str] = {}
    for file, suite in zip(names, suites, strict=True):
        if suite.name in first:
            message = (
                f"{_shown(file)} is named {suite.name!r}, as {_shown(first[suite.name])} is: "
                "give each suite of quality.suites a name of its own"
            )
            raise ConfigurationError(message, code=Code.SUITE)
        first[suite.name] = file
    return suites


def load_suite(name: str) -> Suite:
    """A suite by the name of one of the product's own, or by the path of a file.

    Raises:
        ConfigurationError: there is no such suite, or it is not what a suite must be.
    """
    shown = _shown(name)
    text = _own(name) if shown != name else _file(name)
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{shown} is not JSON: {error}; fix the file", code=Code.SUITE
        ) from error
    return _suite(shown, data)


def is_waivable(expectation: Mapping[str, Any]) -> bool:
    """Whether a batch may be published on a person's word although this is not met."""
    return (expectation.get("meta") or {}).get(WAIVABLE) is not False


def _shown(name: str) -> str:
    return name if "/" in name or name.endswith(".json") else f"suite {name}"


def _own(name: str) -> bytes:
    for place in _places():
        found = place / f"{name}.json"
        if found.is_file():
            content: bytes = found.read_bytes()
            return content
    message = (
        f"there is no suite {name!r}: quality.suites names {', '.join(PROFILES)} or the path of a "
        f".json file (the product's own suites are looked for in ${FOLDER} and expectations/suites)"
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
    wrong = next(_faults(data), None)
    if wrong is not None:
        raise ConfigurationError(
            f"{shown} is not a suite: {wrong}; see expectations/README.md", code=Code.SUITE
        )
    over = _over(data["meta"])
    look = LOOK.get(over.kind)
    expectations = data["expectations"]
    if look is not None:
        expectations = [{**e, "meta": {"look": look, **e.get("meta", {})}} for e in expectations]
    return Suite(data["name"], over, tuple(expectations))


def _over(meta: dict[str, Any]) -> Over:
    (kind,) = (kind for kind in KINDS if kind in meta)
    shown = meta.get("show_values", [])
    columns = frozenset(shown) if isinstance(shown, list) else (None if shown else frozenset())
    return Over(kind, meta[kind], meta.get("of", BATCH), columns)


def _faults(data: Any) -> Iterator[str]:
    """What a file says that no suite may say."""
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        yield "it has no name"
        return
    if not isinstance(data.get("expectations"), list) or not data["expectations"]:
        yield "it has no list of expectations"
        return
    yield from _faults_of_meta(data.get("meta"))
    over = [kind for kind in KINDS if kind in (data.get("meta") or {})]
    for number, expectation in enumerate(data["expectations"]):
        if not isinstance(expectation, dict) or not isinstance(expectation.get("type"), str):
            yield f"expectation {number} has no type"
        elif expectation.get("severity", "critical") not in SEVERITIES:
            yield f"the severity of expectation {number} is not one of {', '.join(SEVERITIES)}"
        elif not isinstance(expectation.get("meta", {}), dict):
            yield f"the meta of expectation {number} is not an object"
        elif not isinstance(expectation.get("meta", {}).get(WAIVABLE, True), bool):
            yield f"the meta.{WAIVABLE} of expectation {number} is neither true nor false"
        elif over != [PROFILE]:
            query = (expectation.get("kwargs") or {}).get(QUERY, "{batch}")
            if "{batch}" not in str(query):
                yield (
                    f"the query of expectation {number} does not read {{batch}}, so it would not "
                    "look at what is judged: write FROM {batch}"
                )


def _faults_of_meta(meta: Any) -> Iterator[str]:
    named = [kind for kind in KINDS if kind in meta] if isinstance(meta, dict) else []
    if len(named) != 1:
        yield (
            f"its meta.profile must be one of {', '.join(PROFILES)}, or its meta must name instead "
            f"what it runs over by one of {', '.join(KINDS[1:])}"
        )
        return
    (kind,) = named
    if kind == PROFILE and meta[kind] not in PROFILES:
        yield f"its meta.profile must be one of {', '.join(PROFILES)}"
    if not isinstance(meta[kind], str) or not meta[kind]:
        yield f"its meta.{kind} must be a name"
    if "of" in meta and (kind != ROWS or meta["of"] not in (BATCH, TABLE)):
        yield f"its meta.of belongs with meta.rows and is one of {BATCH}, {TABLE}"
    shown = meta.get("show_values", [])
    listed = isinstance(shown, list) and all(isinstance(column, str) for column in shown)
    if not isinstance(shown, bool) and not listed:
        yield "its meta.show_values must be a list of columns, or true"
    if kind == PROFILE and "show_values" in meta:
        yield "its meta.show_values is about rows, and it runs over a profile"
