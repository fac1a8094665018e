"""Which statements of DataHub messages change rows, and which define something."""

from __future__ import annotations

import time

import pytest

from waybill.envelopes.datahub.blob.operations import is_row_statement


@pytest.mark.parametrize("comment", ["/**/", "/* a */ ", "-- a\n", "# a\n", "("])
def test_comments_before_a_statement_cost_no_time(comment):
    started = time.monotonic()
    assert not is_row_statement(comment * 5_000 + "create table t (id int)")
    assert is_row_statement(comment * 5_000 + "insert into t values (1)")
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "/* a */ CREATE TABLE t /* b */ SELECT 1 AS id",
        "/* a */ ALTER TABLE t /* b */ (INSERT)",
        "/*! ALTER TABLE t */ -- insert",
    ],
)
def test_a_comment_ends_where_it_ends(text):
    assert not is_row_statement(text)
