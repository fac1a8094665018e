"""The documentation states what the declarations state."""

from __future__ import annotations

import re

import pytest

from tests.contract import matrix, reference


def test_no_two_headings_have_one_address():
    titles = re.findall(r"^### (.+)$", reference.fields(), re.MULTILINE)
    assert "`map[].columns.mask.NAME` (`text`)" in titles
    addresses = [reference.anchor(title) for title in titles]
    assert sorted(set(addresses)) == sorted(addresses)


@pytest.mark.parametrize("path", matrix.PAGES, ids=lambda path: path.name)
def test_the_page_is_up_to_date(path):
    written = path.read_text(encoding="utf-8")
    assert written == matrix.page(path), "run: make docs"
