"""Sentences about one thing and about several."""

from __future__ import annotations

import pytest

from waybill.counting import counted, plain


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


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.1590909090909091, "0.1591"),
        (0.00002, "0.00002"),
        (12.0, "12"),
        (999.96, "1000"),
        (559_412.375, "559412"),
        (-559_412.375, "-559412"),
        (1e20, "100000000000000000000"),
        (0.0, "0"),
        (float("nan"), "nan"),
    ],
)
def test_a_figure_has_no_exponent(value, told):
    assert plain(value) == told
