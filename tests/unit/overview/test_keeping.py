"""Why a stage stopped is kept for the page of its migration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.unit.overview.made_lake import migration
from waybill.errors import Code, ConfigurationError, GateError
from waybill.overview.files import FAILURE, read_failure, reports
from waybill.overview.keeping import failures_kept


@pytest.fixture
def spec(tmp_path):
    return migration(tmp_path)


def stopped(spec, error, batch="b-1"):
    with pytest.raises(type(error)) as caught, failures_kept(spec, "merge", batch):
        raise error
    assert caught.value is error


def test_the_sentence_and_its_code_are_kept(spec):
    stopped(spec, ConfigurationError("column n was renamed: set it", code=Code.COLUMN_RENAMED))
    kept = read_failure(spec)
    assert (kept.stage, kept.batch, kept.code) == ("merge", "b-1", "WB-4005")
    assert (kept.title, kept.sentence) == ("A column was renamed", "column n was renamed: set it")
    stopped(spec, MemoryError("no more"), "b-2")
    kept = read_failure(spec)
    assert (kept.batch, kept.code, kept.sentence) == ("b-2", "", "MemoryError: no more")


def test_a_held_batch_and_an_interruption_are_no_failures(spec):
    stopped(spec, GateError("the batch is held"))
    stopped(spec, KeyboardInterrupt())
    with failures_kept(spec, "merge", "b-1"):
        pass
    assert read_failure(spec) is None


def test_the_stage_s_own_error_counts_where_nothing_can_be_kept(spec, caplog):
    place = Path(reports(spec), FAILURE)
    place.mkdir(parents=True)
    (place / "in the way").touch()
    with caplog.at_level(logging.WARNING):
        stopped(spec, ConfigurationError("no such topic"))
    assert "does not show why the stage stopped" in caplog.text
