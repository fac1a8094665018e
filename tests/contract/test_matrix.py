"""The documentation tells what the declarations tell."""

from __future__ import annotations

from tests.contract import matrix


def test_the_page_of_the_formats_is_up_to_date():
    written = matrix.PAGE.read_text(encoding="utf-8")
    assert written == matrix.page(), "run: python -m tests.contract.matrix"
