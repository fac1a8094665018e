"""Why a stage stopped, and which batches failed, is kept for the pages of its migration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.unit.overview.made_lake import MadeLake, migration
from waybill.errors import Code, ConfigurationError, GateError
from waybill.overview.files import (
    FAILURE,
    INDEX,
    index_in,
    read_failure,
    read_index,
    read_outline,
    reports,
)
from waybill.overview.keeping import failures_kept, keep_overview
from waybill.overview.writing import write_overview
from waybill.storage.file_store import open_store


@pytest.fixture
def spec(tmp_path):
    return migration(tmp_path)


def stopped(spec, error, batch="b-1", stage="merge"):
    with pytest.raises(type(error)) as caught, failures_kept(spec, stage, batch):
        raise error
    assert caught.value is error


def fails(spec, batch, stage="merge"):
    stopped(spec, ConfigurationError("no such topic"), batch, stage)


def archived(lake, batch):
    """What is there of a batch whose merge is the next stage."""
    lake.snapshot(batch, 10)
    lake.convert(batch)


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
    assert read_index(spec) is None


def test_the_stage_s_own_error_counts_where_nothing_can_be_kept(spec, caplog):
    place = Path(reports(spec), FAILURE)
    place.mkdir(parents=True)
    (place / "in the way").touch()
    with caplog.at_level(logging.WARNING):
        stopped(spec, ConfigurationError("no such topic"))
    assert "does not show why the stage stopped" in caplog.text


def test_a_batch_is_failed_until_a_stage_of_it_does_its_work(spec):
    lake = MadeLake()
    archived(lake, "b-1")
    write_overview(spec, lake, "b-1")
    assert (read_index(spec).stopped, read_index(spec).failures) == (None, {})
    written = read_index(spec).written
    fails(spec, "b-1")
    for index in (read_index(spec), read_outline(spec, 1)):
        assert (index.stopped.batch, index.stopped.stage) == ("b-1", "merge")
        assert index.failures == {"b-1": "merge"}
        assert index.written == written, "its figures are those of before"
        assert [line.batch for line in index.batches] == ["b-1"]
    # It fails elsewhere when it is tried again, then not any more.
    branch = lake.merge("b-1")
    keep_overview(spec, lake, "b-1")
    assert (read_index(spec).stopped, read_index(spec).failures) == (None, {})
    fails(spec, "b-1", "validate")
    assert read_index(spec).failures == {"b-1": "validate"}
    lake.validate("b-1", branch)
    keep_overview(spec, lake, "b-1")
    assert read_index(spec).failures == {}


def test_a_batch_stays_failed_while_another_goes_on_until_that_takes_it_along(spec):
    lake = MadeLake()
    archived(lake, "b-1")
    write_overview(spec, lake, "b-1")
    fails(spec, "b-1")
    archived(lake, "b-2")
    keep_overview(spec, lake, "b-2")
    index = read_index(spec)
    assert (index.stopped, index.failures) == (None, {"b-1": "merge"})
    fails(spec, "b-2")
    index = read_index(spec)
    assert (index.stopped.batch, index.failures) == ("b-2", {"b-1": "merge", "b-2": "merge"})
    # A decision about a held batch is no work on these.
    keep_overview(spec, lake)
    assert read_index(spec).failures == index.failures
    assert read_index(spec).stopped == index.stopped
    lake.merge("b-2")
    keep_overview(spec, lake, "b-2")
    index = read_index(spec)
    assert [line.state for line in index.batches] == ["under way", "taken"]
    assert (index.stopped, index.failures) == (None, {})


def test_runs_that_fail_before_they_archive_anything_are_not_piled_up(spec):
    lake = MadeLake()
    lake.run("b-0", 10)
    write_overview(spec, lake, "b-0")
    for number in range(1, 4):
        fails(spec, f"b-{number}", "snapshot")
    index = read_index(spec)
    assert (index.stopped.batch, index.failed) == ("b-3", {})


def test_a_migration_whose_first_stage_fails_has_an_index_and_loses_nothing_by_it(spec, tmp_path):
    fails(spec, "b-1", "")
    index = read_index(spec)
    assert (index.migration, index.batches, index.stopped.stage) == ("shop", [], "")
    assert [target.name for target in index.targets] == ["canal"]
    # The next stage writes what it would have written without.
    other = migration(tmp_path / "other")
    for one in (spec, other):
        lake = MadeLake()
        for number in range(30):
            lake.run(f"b-{number}", 10, refused=number)
        write_overview(one, lake, "b-29")
    found, wanted = read_index(spec), read_index(other)
    assert len(found.batches) == 30
    for name in ("batches", "quarantine", "tables", "waiting", "lag", "merged", "stopped"):
        assert getattr(found, name) == getattr(wanted, name), name


def test_an_index_of_another_version_is_not_written_over(spec):
    store = open_store(reports(spec))
    with store.write(INDEX) as stream:
        stream.write(b'{"version": 99}')
    fails(spec, "b-1")
    assert index_in(store) is None
    assert store.read(INDEX) == b'{"version": 99}'
    assert read_failure(spec).batch == "b-1"
