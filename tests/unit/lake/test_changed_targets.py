"""What of a target decides how the gate reads the messages that were written for it."""

from __future__ import annotations

from typing import Any

import pytest

from waybill.lake.changed_targets import mark_of
from waybill.spec.endpoints import Target

FILES = {"path": "/out", "layout": "parquet"}


def mark(**fields: Any) -> str:
    return mark_of(Target.model_validate({"envelope": "canal", "files": FILES, **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"envelope": "maxwell"},
        {"select": {"include": "shop.*"}},
        {"map": [{"tables": "shop.*", "columns": {"mask": {"note": "null"}}}]},
        {"settings": {"timezone": "Asia/Shanghai"}},
    ],
)
def test_what_messages_are_read_by_is_in_the_mark(fields: dict[str, Any]) -> None:
    assert mark(**fields) != mark()


@pytest.mark.parametrize(
    "fields",
    [
        {"files": {"path": "/elsewhere", "layout": "lines"}},
        {"bootstrap": "tables", "name": "other"},
        {"select": {"exclude": []}, "map": [], "settings": {}},
    ],
)
def test_where_they_go_and_when_they_began_is_not(fields: dict[str, Any]) -> None:
    assert mark(**fields) == mark()


def test_settings_of_ids_are_kept_with_the_batch() -> None:
    numbered = {"envelope": "oms-default"}
    by_position = {**numbered, "settings": {"sequence_from": "position"}}
    assert mark(**by_position) == mark(**numbered)


def test_windows_are_compared_as_bytes_so_every_setting_counts() -> None:
    windows = {"envelope": "databus-json", "settings": {"schemas": {}, "windows": "commit"}}
    assert mark(**windows) != mark(envelope="databus-json", settings={"schemas": {}})
