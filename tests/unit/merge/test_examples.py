"""The examples of docs/merge.md do what they say."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from waybill.merge.rules import Change, Table, bag
from waybill.merge.transactions import EVENTS, TransactionBoundary, judge
from waybill.order import order_key

PAGE = (Path(__file__).parents[3] / "docs" / "merge.md").read_text()
ROW = re.compile(r"^\| ([^|]+) \| (`[^|]+`) \| ?([^|]*)\|$", re.MULTILINE)
LINE = re.compile(r"(?:(\w+): )?(?:(\d+|full) )?(\w+)((?: \w+=\w+)*)(?: from ((?: ?\w+=\w+)+))?")


def cells(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def values(text: str | None) -> dict[str, str | None] | None:
    if not text or not text.strip():
        return None
    pairs = (pair.split("=") for pair in text.split())
    return {name: None if value == "null" else value for name, value in pairs}


def key_of(image) -> str:
    return "" if image is None or "id" not in image else image["id"]


def read(line: str, offset: int):
    transaction, order, operation, image_text, source = LINE.fullmatch(line).groups()
    if operation in EVENTS:
        return transaction, TransactionBoundary(f"{offset:03}", operation, transaction)
    sequence = None if order == "full" else (int(order),)
    place = order_key(sequence, 1, 0, offset, 0, full_row=order == "full")
    image, before = values(image_text), values(source)
    key, old_key = key_of(image), key_of(before) or None
    if operation == "delete" and image is not None:
        image = None
    stated = frozenset({**(before or {}), **(image or {})})
    at = ("t", 0, offset, 0)
    change = Change(place, operation, key, image, old_key, at, before, columns=stated)
    return transaction, change


def misfit(image) -> str | None:
    n = image.get("n")
    return None if n is None or -128 <= int(n) <= 127 else "too large"


EXAMPLES = [
    (rule.strip(), cells(changes), cells(rows)) for rule, changes, rows in ROW.findall(PAGE)
]


@pytest.mark.parametrize(("rule", "lines", "rows"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_an_example(rule, lines, rows):
    lines_read = [read(line, offset) for offset, line in enumerate(lines)]
    hidden = judge(
        (), [c for _, c in lines_read if isinstance(c, TransactionBoundary)], None, 0
    ).hidden
    names = {members.name for members in hidden}
    changes = [c for t, c in lines_read if isinstance(c, Change) and t not in names]
    wanted = [values(row) for row in rows]
    if not any("id=" in line for line in lines):
        found = bag(changes)
        assert found == Counter(frozenset(row.items()) for row in wanted)
        return
    table = Table(("id", "n"), misfit)
    for change in changes:
        table.apply([change])
    assert Counter(frozenset(row.items()) for row in table.live().values()) == Counter(
        frozenset(row.items()) for row in wanted
    )


def test_every_example_is_read():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and "`<br>`" in line]
    assert len(EXAMPLES) == len(lines) >= 19
