"""The documentation tells what the declarations tell."""

from __future__ import annotations

import pytest

from tests.contract import matrix


@pytest.mark.parametrize("path", matrix.PAGES, ids=lambda path: path.name)
def test_the_page_is_up_to_date(path):
    written = path.read_text(encoding="utf-8")
    assert written == matrix.page(path), "run: make docs"
