"""What a snapshot saw of its source is kept, and gives way to what was asked since."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.overview.made_lake import MadeLake, migration
from waybill.overview.files import SOURCE, read_index, read_source, reports
from waybill.overview.schema import VERSION, SourceLook, encoded
from waybill.overview.writing import write_overview
from waybill.report import SEEN, StageReport


@pytest.fixture
def spec(tmp_path):
    return migration(tmp_path)


def snapshot(lake: MadeLake, batch: str, seen: dict | None) -> None:
    report = StageReport("snapshot", batch, rows_in=5, rows_out=5)
    report.details = {} if seen is None else {SEEN: seen}
    lake.commit("archive", "snapshot", batch, {"files": {}}, report)


def test_a_snapshot_says_what_it_had_to_leave(spec):
    lake = MadeLake()
    snapshot(lake, "b-1", {"at": 1_000, "left": 3})
    write_overview(spec, lake)
    look = read_source(spec)
    assert (look.looked, look.unread, look.unit, look.oldest) == (1_000, 3, "files", None)
    assert look.archive == read_index(spec).archived == lake.head_of("archive")


def test_what_was_asked_since_stays_until_the_next_snapshot(spec):
    lake = MadeLake()
    snapshot(lake, "b-1", {"at": 1_000, "left": 0})
    write_overview(spec, lake)
    asked = msgspec.structs.replace(read_source(spec), looked=2_000, unread=7)
    Path(reports(spec), SOURCE).write_bytes(encoded(asked))
    lake.convert("b-1")
    write_overview(spec, lake)
    assert read_source(spec) == asked
    snapshot(lake, "b-2", {"at": 3_000, "left": 0})
    write_overview(spec, lake)
    assert (read_source(spec).looked, read_source(spec).unread) == (3_000, 0)


def test_a_snapshot_that_asked_nothing_says_nothing(spec):
    lake = MadeLake()
    snapshot(lake, "b-1", None)
    write_overview(spec, lake)
    assert read_source(spec) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 99}'])
def test_a_file_of_another_kind_is_written_anew(spec, content):
    lake = MadeLake()
    snapshot(lake, "b-1", {"at": 1_000, "left": 0})
    write_overview(spec, lake)
    Path(reports(spec), SOURCE).write_bytes(content)
    assert read_source(spec) is None
    lake.convert("b-1")
    write_overview(spec, lake)
    assert read_source(spec).looked == 1_000


def test_how_long_something_has_waited():
    look = SourceLook(VERSION, "shop", 9_000, "messages", unread=1, oldest=4_000)
    assert look.behind(9_000) == 5.0
    assert look.behind(1_000) == 0.0, "a clock that is ahead makes no one wait less than nothing"
    assert msgspec.structs.replace(look, oldest=None).behind(9_000) is None
    assert msgspec.structs.replace(look, unread=0).behind(9_000) == 0.0
