"""Regular expressions mean the same in every Python that Waybill runs with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
CODE = ("spark_jobs", "plugins", "dags", "expectations", "scripts", "stack")

RIGHT = {("dump_csv.py", name) for name in ("_FIELD_TEXT", "_ROW", "_ROWS", "_QUOTED")}
"""Of these each part fails at a letter of its own, or never. As an atomic group they would remember
each pair of quotes of a field that may have 64 MiB."""

OVER_A_PART = re.compile(r"(?:\)(?:[*+?]|\{[0-9,]+\})|\{[A-Za-z_.]+\}[*+?]|%[bs][*+?])\+(?! )")
"""A possessive quantifier over a group, or over what stands in an f-string or behind a %."""


def test_no_possessive_quantifier_over_a_part():
    # Before 3.11.5 it matches too little, or too much, where the part itself can go back (CPython's
    # gh-106052). An atomic group, which means the same, is right in all of them.
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for folder in CODE
        for path in sorted((PROJECT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OVER_A_PART.search(line) and (path.name, line.partition(" = ")[0]) not in RIGHT
    ]
    assert not found, f"write (?>(?:a|b)*) instead of (?:a|b)*+: {found}"


@pytest.mark.parametrize("text", ["(?:a|b)*+", "(?:ab?c){1,3}+", 'rf"{GAP}++x"', 'rb"%b*+"'])
def test_it_is_found(text):
    assert OVER_A_PART.search(text)


@pytest.mark.parametrize("text", ["[^']*+'", "\\s++", "(?>(?:a|b)*)", "\\d{1,3}+", "f(a) + b"])
def test_what_means_the_same_everywhere_is_not(text):
    assert not OVER_A_PART.search(text)
