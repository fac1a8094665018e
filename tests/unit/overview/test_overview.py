"""The overview of a migration: what it says of every batch, whatever became of its run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.unit.overview.made_lake import FIRST, MadeLake, migration
from waybill.overview import accounts as accounts_module
from waybill.overview import writing
from waybill.overview.accounts import Accounts
from waybill.overview.commits import read_commits
from waybill.overview.files import outlined, read_account, read_index, read_outline
from waybill.overview.schema import (
    VERSION,
    BatchAccount,
    EndpointPlace,
    Index,
    Quarantine,
    StageAccount,
    decoded,
    encoded,
)
from waybill.overview.writing import write_overview
from waybill.report import STAGES, StageReport


@pytest.fixture
def spec(tmp_path):
    return migration(tmp_path)


@pytest.fixture
def lake():
    return MadeLake()


def overview_of(spec, lake: MadeLake) -> tuple[Index, dict[str, BatchAccount]]:
    """What is on disk after an overview was written."""
    write_overview(spec, lake)
    index = read_index(spec)
    accounts = {line.batch: read_account(spec, line.batch) for line in index.batches}
    for account in accounts.values():
        for stage in account.stages:
            adds_up(stage)
    return index, accounts


def adds_up(stage: StageAccount) -> None:
    came = stage.rows_in + sum(stage.extra_in.values())
    went = stage.rows_out + sum(stage.refused.values()) + stage.superseded
    assert came == went + sum(stage.skipped.values()) + stage.waiting


def states(account: BatchAccount) -> list[str]:
    return [stage.state for stage in account.stages]


def test_a_lake_without_commits(spec, lake):
    index, accounts = overview_of(spec, lake)
    assert (index.batches, accounts, index.lag, index.held) == ([], {}, 0, None)


def test_a_batch_that_went_through(spec, lake):
    lake.run("b-1", 10, refused=2)
    index, accounts = overview_of(spec, lake)
    (line,) = index.batches
    assert (line.state, line.verdict) == ("published", "passed")
    assert (line.rows_in, line.published, line.refused) == (10, 8, 2)
    assert line.seconds == [1.0, 2.0, 3.0, 4.0, 5.0]
    account = accounts["b-1"]
    assert [stage.stage for stage in account.stages] == [*STAGES]
    assert states(account) == ["done"] * 5
    (target,) = account.targets
    assert (target.messages, target.published) == (8, 8)
    assert target.losses == {"sequence_id": 8}
    assert target.places == ["out/b-1/manifest.json"]
    (table,) = account.tables
    assert (table.table, table.operations, table.complete) == (
        *("shop.orders", {"insert": 8}),
        "2026-01-02T03:04:05Z",
    )
    assert index.refused_waiting == 2
    assert [(line.table, line.batch) for line in index.tables] == [("shop.orders", "b-1")]
    assert all((w.batches, w.rows) == (0, 0) for w in index.waiting)
    assert (index.lag, index.lag_since) == (0, None)


def test_a_batch_names_what_it_read(spec, lake):
    lake.run("b-1", 1200)
    _, accounts = overview_of(spec, lake)
    account = accounts["b-1"]
    assert account.read == ["shop/0 from offset 0 to 1200: 1,200 messages"]
    assert account.more_read == 0


def test_files_and_dumps_are_named_too(monkeypatch):
    files = [{"file": f"{n}.jsonl", "number": n, "rows": n} for n in (1, 2)]
    details = {"new_files": 5, "files": files, "full_loads": {"t@1/a.csv": 3}}
    commit = SimpleNamespace(report={"details": details})
    assert accounts_module._read(commit) == (
        ["1.jsonl: 1 message", "2.jsonl: 2 messages", "t@1/a.csv: 3 rows"],
        3,
    )
    monkeypatch.setattr(accounts_module, "READ", 1)
    assert accounts_module._read(commit) == (["1.jsonl: 1 message"], 5)
    assert accounts_module._read(None) == ([], 0)


def test_only_tables_that_changed_are_looked_into(spec, lake):
    lake.run("b-1", 10)
    overview_of(spec, lake)
    assert lake.looked_into == ["shop_orders"]
    lake.looked_into.clear()
    lake.snapshot("b-2", 5)
    lake.convert("b-2")
    before, _ = overview_of(spec, lake)
    assert lake.looked_into == []
    lake.validate("b-2", lake.merge("b-2"))
    after, _ = overview_of(spec, lake)
    assert lake.looked_into == ["shop_orders"]
    assert [(line.table, line.batch) for line in before.tables] == [("shop.orders", "b-1")]
    assert [(line.table, line.batch) for line in after.tables] == [("shop.orders", "b-2")]


def test_the_newest_change_of_a_table_is_its_own_and_merged(spec, lake):
    def newest() -> str | None:
        (line,) = overview_of(spec, lake)[0].tables
        return line.newest

    def run(batch: str, micros: int) -> str | None:
        lake.newest_change = micros
        lake.run(batch, 10)
        return newest()

    assert run("b-1", 0) is None, "no change has a time"
    assert run("b-2", 1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert run("b-3", 1_000_000) == "1970-01-01T00:00:01.500000Z", "what came was older"
    lake.newest_change = 3_000_000
    lake.snapshot("b-4", 5)
    lake.convert("b-4")
    assert newest() == "1970-01-01T00:00:01.500000Z", "decoded, and not merged"
    lake.newest_change = 2_000_000
    assert run("b-5", 2_000_000) == "1970-01-01T00:00:03Z", "with what an earlier run has left"
    (Path(spec.reports) / "_index.json").unlink()
    assert newest() == "1970-01-01T00:00:03Z"


def test_a_held_batch_and_the_one_behind_it(spec, lake):
    lake.run("b-1", 10)
    lake.snapshot("b-2", 5)
    lake.convert("b-2", refused=4)
    lake.validate("b-2", lake.merge("b-2"), passes=False)
    lake.snapshot("b-3", 7)
    lake.convert("b-3")
    index, accounts = overview_of(spec, lake)
    assert index.held == "b-2"
    assert [rule.rule for rule in index.held_rules] == ["The share of refused messages is low"]
    assert states(accounts["b-2"]) == ["done", "done", "held", "held", "waiting"]
    assert accounts["b-2"].state == "held"
    assert states(accounts["b-3"]) == ["done", "done", "waiting", "waiting", "waiting"]
    assert "b-2" in accounts["b-3"].stages[2].why
    waiting = {w.stage: (w.batches, w.rows) for w in index.waiting}
    assert waiting == {"convert": (0, 0), "merge": (1, 7), "validate": (1, 1), "publish": (0, 0)}
    assert (index.lag, index.refused_waiting) == (12, 4)
    assert index.lag_since == accounts["b-2"].stages[0].time


def test_a_batch_that_is_merged_and_not_judged_is_not_held(spec, lake):
    lake.snapshot("b-1", 5)
    lake.convert("b-1")
    branch = lake.merge("b-1")
    index, accounts = overview_of(spec, lake)
    assert (index.held, index.unjudged, index.held_rules) == (None, "b-1", [])
    assert accounts["b-1"].stages[2].state == "done"
    lake.validate("b-1", branch, passes=False)
    index, _ = overview_of(spec, lake)
    assert (index.held, index.unjudged) == ("b-1", None)
    lake.drop("merges", branch)
    again = lake.merge("b-1")
    index, _ = overview_of(spec, lake)
    assert (index.held, index.unjudged) == (None, "b-1"), "what was said was said of another merge"
    lake.validate("b-1", again)
    index, _ = overview_of(spec, lake)
    assert (index.held, index.unjudged) == (None, None)


def test_a_held_batch_that_was_dropped(spec, lake):
    lake.snapshot("b-1", 5)
    lake.convert("b-1")
    branch = lake.merge("b-1")
    lake.validate("b-1", branch, passes=False)
    lake.drop("merges", branch)
    _, accounts = overview_of(spec, lake)
    merge = accounts["b-1"].stages[2]
    assert (merge.state, merge.by) == ("dropped", None)
    lake.run("b-2", 1)
    index, accounts = overview_of(spec, lake)
    merge, validate, publish = accounts["b-1"].stages[2:]
    assert (merge.state, merge.by) == ("dropped", "b-2")
    assert validate.state == "dropped"
    assert (publish.state, publish.by) == ("taken", "b-2")
    assert (accounts["b-1"].state, index.held) == ("dropped", None)
    assert accounts["b-2"].stages[2].rows_in == 6


def test_killed_runs_are_taken_along_by_the_next(spec, lake):
    """One ended after snapshot, one between decoding and encoding."""
    lake.snapshot("b-1", 3)
    lake.snapshot("b-2", 4)
    lake.convert("b-2", half=True)
    _, accounts = overview_of(spec, lake)
    assert states(accounts["b-2"]) == ["done", "part", "waiting", "waiting", "waiting"]
    lake.run("b-3", 5)
    _, accounts = overview_of(spec, lake)
    assert states(accounts["b-1"]) == ["done", *["taken"] * 4]
    assert [stage.by for stage in accounts["b-1"].stages[1:]] == ["b-2", "b-3", "b-3", "b-3"]
    assert states(accounts["b-2"]) == ["done", "part", "taken", "taken", "taken"]
    assert accounts["b-2"].stages[1].by == "b-3"
    assert accounts["b-1"].state == accounts["b-2"].state == "taken"


def test_what_waits_before_publish(spec, lake):
    lake.run("b-1", 2)
    lake.snapshot("b-2", 6)
    lake.convert("b-2")
    lake.validate("b-2", lake.merge("b-2"))
    index, accounts = overview_of(spec, lake)
    assert [(w.batches, w.rows) for w in index.waiting] == [(0, 0), (0, 0), (0, 0), (1, 6)]
    assert accounts["b-2"].state == "under way"
    assert index.lag == 6


def test_refused_rows_are_counted_once_and_then_added_up(spec, lake):
    lake.run("b-1", 10, refused=2)
    overview_of(spec, lake)
    scans = lake.scans
    lake.run("b-2", 10, refused=3)
    index, _ = overview_of(spec, lake)
    assert index.refused_waiting == 5
    assert lake.scans == scans + 1, "the record of merges is read once, refused rows are not"


def test_a_replay_is_counted_anew(spec, lake):
    lake.run("b-1", 10, refused=4)
    overview_of(spec, lake)
    del lake.rows[lake.log("changes")][:3]
    lake.snapshot("b-2", 0)
    lake.convert("b-2", again=True)
    index, _ = overview_of(spec, lake)
    assert index.refused_waiting == 1


def test_counting_gives_up_where_there_are_too_many(spec, lake, monkeypatch):
    monkeypatch.setattr("waybill.overview.backlog.MOST_COUNTED", 3)
    lake.run("b-1", 10, refused=9)
    index, _ = overview_of(spec, lake)
    assert (index.quarantine.rows, index.quarantine.more) == (3, True)


def test_the_same_lake_gives_the_same_files(spec, lake):
    lake.run("b-1", 10)
    lake.run("b-2", 10)
    overview_of(spec, lake)
    folder = Path(writing.reports(spec))
    for file in folder.rglob("waybill.json"):
        file.write_bytes(b"old")
    lake.run("b-3", 1)
    write_overview(spec, lake)
    written = [f.parent.name for f in folder.rglob("waybill.json") if f.read_bytes() != b"old"]
    assert written == ["b-3"], "accounts that have not changed are not written again"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 0}', None])
def test_a_lost_or_damaged_index_is_made_again(spec, lake, damage):
    lake.run("b-1", 10, refused=1)
    before, accounts = overview_of(spec, lake)
    place = Path(writing.reports(spec), writing.INDEX)
    place.unlink()
    if damage is not None:
        place.write_bytes(damage)
        assert read_index(spec) is None
    after, again = overview_of(spec, lake)
    assert msgspec.structs.replace(after, written=before.written) == before
    assert accounts == again


def test_a_lost_write_is_made_good_by_the_next(spec, lake, monkeypatch):
    lake.run("b-1", 10)

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_put", fails)
        with pytest.raises(OSError, match="full"):
            write_overview(spec, lake)
    assert read_index(spec) is None, "the index is last, so that it names no account that is not"
    lake.snapshot("b-2", 1)
    _, accounts = overview_of(spec, lake)
    assert accounts["b-1"].state == "published"


def test_batches_stay_when_their_commits_expire(spec, lake):
    for number in range(1, 5):
        lake.run(f"b-{number}", 10)
    before, _ = overview_of(spec, lake)
    for table in ("archive", "changes", "outbox", "merges", "runs", "published"):
        lake.expire(table, 2)
    after, accounts = overview_of(spec, lake)
    assert after.batches == before.batches
    assert states(accounts["b-1"]) == ["done"] * 5


def test_old_batches_are_read_again_only_while_they_are_open(spec, lake, monkeypatch):
    """A page of the same figures, whether made at one time or batch by batch."""
    monkeypatch.setattr(writing, "WINDOW", 2)
    lake.run("b-00", 5, refused=1)
    lake.snapshot("b-01", 3)
    overview_of(spec, lake)
    read = []
    original = writing.read_commits

    def noted(lake, limit=writing.LAST):
        read.append(limit)
        return original(lake, limit)

    monkeypatch.setattr(writing, "read_commits", noted)
    for number in range(2, 7):
        lake.snapshot(f"b-{number:02}", 1)
        overview_of(spec, lake)
    assert read == [3, 4, 5, 6, 7], "as far back as the batch that waits"
    for number in range(7, 12):
        lake.run(f"b-{number:02}", 10, refused=2)
        overview_of(spec, lake)
    by_and_by, accounts = overview_of(spec, lake)
    assert read[-1] == 2
    assert by_and_by.refused_waiting == 11
    assert accounts["b-01"].state == "taken"
    Path(writing.reports(spec), writing.INDEX).unlink()
    at_once, again = overview_of(spec, lake)
    assert msgspec.structs.replace(at_once, written=by_and_by.written) == by_and_by
    assert again == accounts


def test_many_lost_writes_are_made_good_too(spec, lake, monkeypatch):
    monkeypatch.setattr(writing, "WINDOW", 2)
    lake.run("b-00", 5, refused=1)
    overview_of(spec, lake)
    for number in range(1, 9):
        lake.run(f"b-{number:02}", 10, refused=1)
    index, accounts = overview_of(spec, lake)
    assert [line.batch for line in index.batches] == [f"b-{n:02}" for n in range(8, -1, -1)]
    assert {account.state for account in accounts.values()} == {"published"}
    assert index.refused_waiting == 9


def test_no_more_than_the_last_batches(spec, lake, monkeypatch):
    monkeypatch.setattr(writing, "LAST", 3)
    for number in range(1, 6):
        lake.run(f"b-{number}", 1)
        index, _ = overview_of(spec, lake)
    assert [line.batch for line in index.batches] == ["b-5", "b-4", "b-3"]


def test_large_numbers_are_texts():
    place = EndpointPlace("a", "b", "c")
    index = Index(VERSION, "shop", 1, place, [], [], lag=2**53, quarantine=Quarantine(2**53 - 1))
    index = msgspec.structs.replace(index, merged=FIRST)
    content = encoded(index)
    plain = msgspec.json.decode(content)
    assert plain["lag"] == str(2**53)
    assert plain["quarantine"]["rows"] == 2**53 - 1
    assert plain["merged"] == str(FIRST)
    assert decoded(content, Index) == index


def test_half_of_a_surrogate_pair_in_a_name():
    place = EndpointPlace("a", "b", "topic \ud83d")
    read = decoded(encoded(Index(VERSION, "shop", 1, place, [], [])), Index)
    assert read.source.place == "topic \\ud83d"


def test_a_decision_is_reported(spec, lake):
    lake.snapshot("b-1", 5)
    lake.convert("b-1")
    branch = lake.merge("b-1")
    lake.validate("b-1", branch, passes=False)
    head = lake.tables[lake.log("merges")].refs[branch]
    report = StageReport("decide", "b-1")
    report.details = {
        "decision": {
            "what": "approved",
            "batch": "b-1",
            "by": "ann",
            "time": "now",
            "reason": "known",
            "judged": "before",
            "rules": [],
        }
    }
    lake.commit("runs", "gate-approved", "b-1", {"merges": head}, report)
    index, accounts = overview_of(spec, lake)
    assert index.decided == "approved by ann at now: known"
    assert accounts["b-1"].verdict.decided == index.decided


def test_keys_of_rows_in_lakes_and_files_of_before_are_not_shown(spec, lake):
    rule = "No e-mail is missing (7 rows: ann@example.com: x, and 6 more)"
    lake.snapshot("b-1", 5)
    lake.convert("b-1")
    branch = lake.merge("b-1")
    head = lake.tables[lake.log("merges")].refs[branch]
    report = StageReport("validate", "b-1", warnings=[f"critical: {rule}"])
    report.details = {"outcome": "failed", "held_for": [{"rule": rule, "waivable": True}]}
    lake.commit("runs", "validate-failed", "b-1", {"merges": head}, report)
    index, accounts = overview_of(spec, lake)
    shown = "No e-mail is missing (7 rows)"
    assert [rule.rule for rule in index.held_rules] == [shown]
    assert [rule.rule for rule in accounts["b-1"].verdict.rules] == [shown]
    assert accounts["b-1"].stages[3].warnings == [f"critical: {shown}"]
    # As an earlier version wrote them.
    old = encoded(index).replace(shown.encode(), rule.encode())
    assert b"ann@" in old
    assert decoded(old, Index) == index
    assert outlined(old, 9).held_rules == index.held_rules
    old = encoded(accounts["b-1"]).replace(shown.encode(), rule.encode())
    assert old.count(b"ann@") == 2
    assert decoded(old, BatchAccount) == accounts["b-1"]


def test_the_order_of_batches_is_that_of_their_first_commit(lake):
    lake.snapshot("z", 1)
    lake.snapshot("a", 1)
    assert Accounts("shop", read_commits(lake)).batches() == ["a", "z"]


def test_nothing_heavy_is_loaded():
    code = "import sys, waybill.overview.writing; print([m for m in sys.modules if 'pyspark' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_outline_is_the_index_without_what_a_list_does_not_need(spec, lake):
    for number in range(5):
        lake.run(f"b-{number}", 10 + number)
    index, _ = overview_of(spec, lake)
    outline = read_outline(spec, 2)
    assert outline == msgspec.structs.replace(index, batches=index.batches[:2], tables=[])
    content = encoded(index)
    assert outlined(content, 99) == msgspec.structs.replace(index, tables=[])
    assert outlined(content.replace(b'"version":1', b'"version":2'), 2) is None
    assert outlined(content.replace(b'"mark":"', b'"mark":[],"x":"', 1), 2) is None
    assert outlined(content[:-1], 2) is None
