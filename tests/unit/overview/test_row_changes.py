"""What is fast about finding the changes of a key leaves none of them out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from waybill.overview.row_changes import _likely, key_test

NASTY = [
    *("7", "", " ", "null", "true", "ä", "日本", "😀", "a b", "\u00a0", "\x7f", "\u2028"),
    *('"', "\\", '\\"', "/", "\n", "\x00", "\ud800", "{", "7\\", "'", "%"),
]
"""Values of keys; JSON can write most of them in several ways."""


def texts(image: dict[str, str | None]) -> list[str]:
    """An image as different writers write it."""
    plain = json.dumps(image)
    found = [plain, plain.replace(" ", ""), plain.replace("/", "\\/")]
    if "\ud800" not in plain and "ud800" not in plain:
        found.append(json.dumps(image, ensure_ascii=False))
    return found


def changes() -> list[dict[str, Any]]:
    images: list[dict[str, str | None]] = [{"id": value} for value in NASTY]
    images += [{"id": value, "other": other} for value in NASTY for other in ("7", None)]
    images += [{"id": None}]
    keys = [None, *(text for image in images for text in texts(image))]
    rows = [{"operation": "update", "key": key, "old_key": None} for key in keys]
    rows += [{"operation": "update", "key": '{"id": "8"}', "old_key": key} for key in keys]
    return [*rows, {"operation": None, "key": '{"id": "7"}', "old_key": None}]


@pytest.mark.parametrize("key", [value for value in NASTY if value != "{"], ids=ascii)
def test_a_value_of_the_only_column(key: str) -> None:
    found = _found(key)
    wanted = [key] if key != "7" else ["7", "7"]
    assert {json.loads(row["key"])["id"] for row in found if row["old_key"] is None} == {*wanted}


@pytest.mark.parametrize("other", ["7", None])
@pytest.mark.parametrize("value", NASTY, ids=ascii)
def test_an_object_of_columns(value: str, other: str | None) -> None:
    for image in ({"id": value}, {"id": value, "other": other}, {"other": other, "id": value}):
        assert _found(json.dumps(image))


def test_what_is_no_key_of_the_table() -> None:
    for key in ("9", '{"id": "9"}', '{"id": {"id": "7"}}', '{"name": "7"}', "{}"):
        assert _found(key) == []


def _found(key: str) -> list[dict[str, Any]]:
    """The changes of a key, which the mask must have, and few beside them."""
    rows = changes()
    table = pa.Table.from_pylist(rows, pa.schema(dict.fromkeys(rows[0], pa.string())))
    mask = _likely(key)(table).to_pylist()
    accepts = key_test(key)
    for row, likely in zip(rows, mask, strict=True):
        assert isinstance(likely, bool)
        whole = [json.loads(text) for text in (row["key"], row["old_key"]) if text is not None]
        wanted = json.loads(key) if key.startswith("{") else None
        same = any(
            image == wanted if wanted is not None else [*image.values()] == [key] for image in whole
        )
        assert accepts(row) is same
        assert likely or not same, f"{row} is left out"
    assert not all(mask) or key == "{}"
    return [row for row in rows if accepts(row)]


def test_truncates_are_likely() -> None:
    rows = [
        {"operation": "truncate", "key": None, "old_key": None},
        {"operation": "delete", "key": None, "old_key": None},
        {"operation": None, "key": None, "old_key": None},
    ]
    table = pa.Table.from_pylist(rows, pa.schema(dict.fromkeys(rows[0], pa.string())))
    assert _likely("7")(table).to_pylist() == [True, False, False]
