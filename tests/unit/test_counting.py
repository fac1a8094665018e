"""Sentences about one thing and about several."""

from __future__ import annotations

import pytest

from waybill.counting import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("file",), "1 file"),
        (0, ("file",), "0 files"),
        (2, ("file",), "2 files"),
        (1, ("half of an update waits", "halves of updates wait"), "1 half of an update waits"),
        (3, ("half of an update waits", "halves of updates wait"), "3 halves of updates wait"),
    ],
)
def test_a_number_with_its_noun(number, words, text):
    assert counted(number, *words) == text


def test_how_a_number_is_written():
    assert counted(1234, "row", style=",") == "1,234 rows"
