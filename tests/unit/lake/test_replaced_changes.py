"""What counts no more of the log, as far as it is looked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from waybill.lake.replaced_changes import Replaced, replaced_in
from waybill.lake_columns import REBUILT, REBUILT_KEYS

NAMES = {"database": "shop", "schema": None, "table": "t"}
MARKS = [
    {**NAMES, "batch": "b1", "reason": "b2", "key": None},
    {**NAMES, "batch": "b2", "reason": "b3", "key": "{}"},
    {**NAMES, "batch": "b3", "reason": "b3", "key": "{}"},
]


class Commit(NamedTuple):
    stage: str
    report: dict[str, Any]


class Log:
    """A log with some commits, newest first, and how often its rows were read."""

    def __init__(self, *commits: Commit) -> None:
        self.commits, self.read = commits, 0

    def log(self, name: str) -> str:
        return name

    def between(self, *span: object) -> Any:
        return iter(self.commits)

    def scan(self, *asked: object) -> list[dict[str, Any]]:
        self.read += 1
        return MARKS


@pytest.mark.parametrize("details", [{}, {"loaded_again": ["shop.t"]}])
def test_a_log_of_which_nothing_was_rebuilt_is_not_read(details):
    log = Log(Commit("convert", {"details": details}), Commit("convert", {"details": {}}))
    assert replaced_in(log, None) == []
    assert replaced_in(Log(), None) == []
    assert log.read == 0


@pytest.mark.parametrize("kind", [REBUILT, REBUILT_KEYS])
def test_the_last_conversion_knows_of_earlier_reloads(kind):
    details = {"details": {kind: {"shop.t": "b2"}}}
    log = Log(Commit("bootstrap", {}), Commit("convert", details), Commit("convert", {}))
    found = replaced_in(log, 7)
    assert found == [
        Replaced("shop", None, "t", "b1", "b2"),
        Replaced("shop", None, "t", "b2", "b3", "{}"),
        Replaced("shop", None, "t", "b3", "b3", "{}"),
    ]
    assert [one.is_mark for one in found] == [False, False, True]
