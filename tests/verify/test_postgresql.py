"""PostgreSQL as the source: rows of every type, planted differences, and writes meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.verify.live import Live, run
from tests.verify.postgres_feed import PostgresFeed
from waybill.connections import get_connection
from waybill.errors import ConfigurationError, DifferenceError, UnreachableError
from waybill.verify.databases import database_of
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.history import with_history
from waybill.verify.newest import MASKED, SKIPPED, last_results
from waybill.verify.outcomes import check_equal
from waybill.verify.run import VerifyRequest, run_verify

KEY = {"tables": {"*": {"key": ["id"]}}}

PLANTED: dict[int, dict[str, str]] = {
    1: {"small": "small + 1"},
    2: {"flag": "NOT flag"},
    3: {"amount": "amount + 0.001"},
    4: {"amount": "-amount"},
    6: {"free": "6.50"},
    7: {"free": "7.500000000000000000000000000000000000001"},
    8: {"ratio": "1.1428573"},
    9: {"exact": "3.0000000000000004"},
    11: {"exact": "'NaN'"},
    12: {"exact": "'-Infinity'"},
    13: {"title": "title || ' '"},
    14: {"title": "upper(title)"},
    16: {"title": "''"},
    17: {"title": "NULL"},
    18: {"name": "E'n18\\t'"},
    19: {"name": "'n１9'"},
    21: {"code": "'C21'"},
    22: {"raw": "'\\x1600fe'"},
    23: {"raw": "'\\x'"},
    24: {"day": "day + 1"},
    26: {"at": "at + interval '1 microsecond'"},
    27: {"wall": "wall + interval '1 microsecond'"},
    28: {"moment": "moment - interval '1 microsecond'"},
    29: {"moment": "moment + interval '1 hour'"},
    31: {"doc": """'{"n": 31, "t": ["a", null, 1.51], "o": {}}'"""},
    32: {"doc": """'{"n": 32, "t": ["a", null, 1.50]}'"""},
    33: {"doc": """'{"n": "33", "t": ["a", null, 1.50], "o": {}}'"""},
    34: {"bits": "B'000100011'"},
    36: {"uid": "md5('36x')::uuid"},
    37: {"tags": "ARRAY['a 37', 'NULL', 'q\"{,']"},
    38: {"tags": "ARRAY['a 38', NULL]"},
    39: {"tags": "NULL"},
    41: {"big": "big + 1"},
    42: {"big": "0", "small": "NULL"},
}
"""What is done to rows without a word to the topic, each the smallest step that there is."""
GONE = (51, 52)
NEW = (1001, 1002)
INVENTED = (2001, 2002)
"""Rows that are deleted, inserted, and told of without being there."""


@pytest.fixture
def feed(postgres, connect, tmp_path: Path) -> Iterator[PostgresFeed]:
    connect("postgres", postgres)
    made = PostgresFeed(postgres, tmp_path / "in")
    yield made
    made.close()


def kinds(result: Any) -> dict[int, str]:
    return {int(found.key["id"]): found.what for found in result.differences}


def test_rows_of_every_type_are_equal_and_stay_so_while_they_are_written(spark, migration, feed):
    feed.insert(*range(1, 301))
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (300, 300)
    assert (result.differing, result.undecided) == (0, 0), result
    with Live(spark, spec, feed, range(100, 200), 3000) as live:
        (result,) = run_verify(spec, lake, VerifyRequest(wait=45))
        assert live.written
    assert result.differences == []
    assert result.undecided == len(result.pending)
    assert {int(key.strip('["]')) for key in result.pending} <= live.written


def test_forty_planted_differences_are_found_while_others_are_written(spark, migration, feed):
    feed.insert(*range(1, 301))
    for number in INVENTED:
        feed.say(number)
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    for number, values in PLANTED.items():
        feed.update(number, silent=True, **values)
    for number in GONE:
        feed.delete(number, silent=True)
    feed.insert(*NEW, silent=True)
    expected = {
        **dict.fromkeys(PLANTED, DIFFERS),
        **dict.fromkeys((*GONE, *INVENTED), MISSING_IN_DATABASE),
        **dict.fromkeys(NEW, MISSING_IN_LAKE),
    }
    assert len(expected) == 40
    # Nothing has come since: whoever looks now cannot tell a difference from what is on its way.
    (result,) = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 40)
    with Live(spark, spec, feed, range(100, 200), 3000) as live:
        (result,) = run_verify(spec, lake, VerifyRequest(wait=300))
    assert kinds(result) == expected
    assert {int(key.strip('["]')) for key in result.pending} <= live.written
    for found in result.differences:
        if found.what == DIFFERS:
            assert set(found.columns) == set(PLANTED[int(found.key["id"])]), found


def test_what_was_left_undecided_is_decided_by_the_next_verification(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    feed.update(3, silent=True, title="'x'")
    feed.update(4, title="'on its way'")
    (result,) = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 2)
    assert "verify again" in result.sentence
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 1), "nothing newer has come since the look"
    feed.beat(21)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (kinds(result), result.undecided) == ({3: DIFFERS}, 0)


def test_a_database_that_is_quiet_is_decided_by_the_longest_lag(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY, verify={"lag": "0s"})
    lake = run(spark, spec, feed)
    feed.delete(5, silent=True)
    (result,) = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 1)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (kinds(result), result.undecided) == ({5: MISSING_IN_DATABASE}, 0)


def test_what_waits_for_a_decision_is_no_difference(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY, verify={"lag": "0s", "method": "changed"})
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert result.changes is not None
    feed.update(3, title="'waits'")
    feed.insert(21)
    fields = {"tables": {"*": {"key": ["id", "small"]}}, "verify": {"lag": "0s"}}
    run(spark, migration("debezium-json", **fields), feed)
    run(spark, spec, feed)
    counts = VerifyRequest(method="counts")
    found = [*run_verify(spec, lake), *run_verify(spec, lake, counts)]
    # A batch later that of any other table would be decided.
    run(spark, spec, feed)
    for asked in (VerifyRequest(), VerifyRequest(method="full"), counts):
        found += run_verify(spec, lake, asked)
    assert [(result.differing, result.undecided) for result in found] == [
        *((0, 2), (0, 1), (0, 1)),
        *((0, 2), (0, 1), (0, 2), (0, 1)),
    ]
    for result in found:
        assert "the table waits for a decision since batch" in result.sentence
        assert result.changes is None, "the next one begins where all was decided"


def test_a_session_can_write_nothing(postgres, feed, connect):
    feed.insert(1)
    with database_of(get_connection("source")) as database:
        database.begin()
        for session in (database._session, None):
            if session is None:
                database._session.execute("ROLLBACK")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                database._session.execute("DELETE FROM typed")
            database._session.execute("ROLLBACK")
    assert feed.session.execute("SELECT count(*) FROM typed").fetchone() == (1,)


def test_changed_looks_at_the_rows_that_changed_since(spark, migration, feed):
    feed.insert(*range(1, 51))
    spec = migration("debezium-json", **KEY, verify={"method": "changed"})
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.method, result.in_database) == ("full", 50), "nothing was verified before"
    feed.update(7, title="'seven'")
    feed.insert(60)
    feed.delete(8)
    feed.update(9, silent=True, title="'nobody told of it'")
    feed.update(7, silent=True, small="small + 1")
    run(spark, spec, feed)
    result, counted = run_verify(spec, lake)
    assert (counted.method, counted.in_database, counted.in_lake) == ("counts", 50, 50)
    assert (result.method, result.in_database, result.in_lake) == ("changed", 2, 2)
    assert result.undecided == 1
    feed.beat(61)
    run(spark, spec, feed)
    result, _ = run_verify(spec, lake)
    assert (result.method, kinds(result)) == ("changed", {7: DIFFERS})
    result, _ = run_verify(spec, lake)
    assert (result.method, kinds(result)) == ("changed", {7: DIFFERS}), "until it is repaired"
    (result,) = run_verify(spec, lake, VerifyRequest(method="full"))
    assert (result.in_database, kinds(result)) == (51, {7: DIFFERS})
    assert result.undecided == 1, "what no change told of is found by full alone"


def test_changed_sees_what_nobody_told_in_the_number_of_rows(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY, verify={"method": "changed", "lag": "0s"})
    lake = run(spark, spec, feed)
    run_verify(spec, lake)
    feed.delete(5, silent=True)
    run(spark, spec, feed)
    result, counted = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 0)
    assert (counted.differing, counted.undecided) == (0, 1)
    run(spark, spec, feed)
    result, counted = run_verify(spec, lake)
    assert (result.method, result.in_database, result.differing) == ("changed", 0, 0)
    assert (counted.in_database, counted.in_lake, counted.differing) == (19, 20, 1)
    with pytest.raises(DifferenceError, match=r"by 1 in the number of rows.*--method full"):
        check_equal(spec, [result, counted])
    kept = [(one["method"], one["differing"]) for one in last_results(lake)]
    assert kept == [("changed", 0), ("counts", 1)]
    (result,) = run_verify(spec, lake, VerifyRequest(method="full"))
    assert (result.method, result.differing, result.undecided) == ("full", 0, 1)
    assert [one["method"] for one in last_results(lake)] == ["full"]


def test_counts(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    counts = VerifyRequest(method="counts")
    (result,) = run_verify(spec, lake, counts)
    assert (result.in_database, result.in_lake, result.differing) == (20, 20, 0)
    feed.delete(3, silent=True)
    feed.insert(30)
    (result,) = run_verify(spec, lake, counts)
    assert (result.in_database, result.undecided) == (20, 0), "counts cannot see this"
    feed.delete(4, silent=True)
    (result,) = run_verify(spec, lake, counts)
    assert (result.in_database, result.differing, result.undecided) == (19, 0, 1)
    feed.beat(31)
    run(spark, spec, feed)
    feed.beat(32)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake, counts)
    assert (result.in_database, result.in_lake, result.undecided) == (21, 23, 2)
    feed.beat(33)
    run(spark, spec, feed)
    feed.flush()
    (result,) = run_verify(spec, lake, counts)
    assert (result.in_database, result.in_lake) == (22, 24)


def test_as_of_a_batch(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    batch = lake.last(lake.log("merges"), "merge").batch
    feed.update(3, silent=True, title="'x'")
    feed.update(4, title="'y'")
    feed.insert(21)
    run(spark, spec, feed)
    feed.beat(22)
    asked = VerifyRequest(as_of=batch)
    (result,) = run_verify(spec, lake, asked)
    assert (result.in_lake, result.differing, result.undecided) == (20, 0, 4)
    feed.beat(23)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake, asked)
    assert kinds(result) == {3: DIFFERS}
    assert {int(key.strip('["]')) for key in result.pending} == {4, 21, 22, 23}


def test_a_truncate_meanwhile_makes_no_differences(spark, migration, feed):
    feed.insert(*range(1, 21))
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    feed.delete(5, silent=True)
    feed.insert(40, silent=True)
    (result,) = run_verify(spec, lake)
    assert result.undecided == 2
    feed.truncate()
    feed.insert(*range(1, 5))
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (4, 4)
    assert (result.differing, result.undecided) == (0, 0)


def test_a_table_without_a_key(spark, migration, feed):
    feed.session.execute("ALTER TABLE typed DROP CONSTRAINT typed_pkey")
    feed.insert(*range(1, 21))
    feed.insert(7)
    spec = migration("debezium-json", tables={"*": {"key": []}})
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (21, 21)
    assert (result.differing, result.undecided) == (0, 0), result
    feed.session.execute("DELETE FROM typed WHERE ctid IN (SELECT min(ctid) FROM typed WHERE id=7)")
    feed.session.commit()
    (result,) = run_verify(spec, lake)
    assert (result.differing, result.undecided) == (0, 1)


def test_a_table_with_other_names_masks_and_a_condition(spark, migration, feed):
    feed.insert(*range(1, 41))
    rule = {
        "tables": ["waybill.*typed"],
        "rename": {"schema": "sales", "table": "{table}_v2"},
        "columns": {
            "rename": {"id": "number", "amount": "price"},
            "mask": {"title": "sha256", "code": "last4"},
            "drop": ["doc"],
            "add": {"made_by": {"constant": "waybill"}},
        },
        "where": "id > 10 AND (flag OR small <> -14979)",
    }
    spec = migration("debezium-json", **KEY, map=[rule], verify={"lag": "0s"})
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert result.table == "waybill.sales.typed_v2"
    # 21 is odd, and its small is that number.
    assert (result.in_database, result.in_lake) == (29, 29)
    assert (result.differing, result.undecided) == (0, 0), result
    assert "map drops them: doc" in result.sentence
    assert "may be written in several ways: code" in result.sentence
    feed.update(33, silent=True, amount="amount + 1")
    feed.update(31, silent=True, doc="NULL", code="'x'")
    feed.update(34, silent=True, title="'hidden'")
    feed.delete(32, silent=True)
    feed.update(5, silent=True, amount="0")
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    found = {(d.key["number"], d.what, *d.columns) for d in result.differences}
    assert found == {
        ("33", DIFFERS, "price"),
        ("34", DIFFERS, "title"),
        ("32", MISSING_IN_DATABASE),
    }
    (masked,) = (d.columns["title"] for d in result.differences if "title" in d.columns)
    assert masked == (MASKED, MASKED)
    (counted,) = run_verify(spec, lake, VerifyRequest(method="counts"))
    assert "map chooses its rows" in counted.sentence


def test_a_condition_sees_what_it_saw_in_messages(spark, migration, feed):
    """Blanks at the end of CHARACTER(6), which are no difference, and zeros of a declared text."""
    feed.insert(*range(1, 8))
    where = "code IN ('c1    ', 'c2', 'c3    ') OR amount = '4.004' OR amount = '7.0070'"
    tables = {"*": {"key": ["id"], "columns": {"amount": "string"}}}
    spec = migration("debezium-json", tables=tables, map=[{"tables": "*", "where": where}])
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (3, 3)
    assert (result.differing, result.undecided) == (0, 0), result


def test_a_condition_whose_values_have_several_texts_is_not_compared(spark, migration, feed):
    feed.insert(1, 2)
    tables = {"*": {"key": ["id"], "columns": {"ratio": "string"}}}
    rule = {"tables": "*", "where": "ratio <> '0.5' AND title IS NOT NULL"}
    spec = migration("debezium-json", tables=tables, map=[rule])
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.outcome, result.in_lake) == (SKIPPED, 2)
    assert "the condition of map asks for ratio, and messages may write" in result.sentence
    assert "not counted, because map chooses its rows" in result.sentence
    check_equal(spec, [result])


@pytest.mark.parametrize("keys", ["by_shard", "distinct"])
def test_tables_that_become_one_are_compared_one_by_one(
    spark, migration, connect, postgres, tmp_path, keys
):
    connect("postgres", postgres)
    feeds = [PostgresFeed(postgres, tmp_path / "in", table=f"typed_{n}") for n in (1, 2)]
    feeds[0].insert(1, 2, 3)
    second = (1, 4) if keys == "by_shard" else (4, 5)
    feeds[1].insert(*second)
    rule = {
        "tables": ["waybill.*typed_*"],
        "rename": {"table": "typed"},
        "join": {"column": "shard", "keys": keys},
    }
    tables = {"waybill.public.typed_*": {"key": ["id"]}}
    spec = migration("debezium-json", tables=tables, map=[rule], verify={"lag": "0s"})
    for feed in feeds:
        feed.flush()
    lake = run(spark, spec, feeds[0])
    results = run_verify(spec, lake)
    assert [(r.label, r.in_database, r.in_lake, r.differing) for r in results] == [
        ("waybill.public.typed of waybill.public.typed_1", 3, 3, 0),
        ("waybill.public.typed of waybill.public.typed_2", 2, 2, 0),
    ]
    feeds[1].update(4, silent=True, amount="7")
    feeds[0].delete(3, silent=True)
    run_verify(spec, lake)
    run(spark, spec, feeds[0])
    first, other = run_verify(spec, lake)
    ((gone,), (changed,)) = first.differences, other.differences
    assert (gone.key["id"], gone.what) == ("3", MISSING_IN_DATABASE)
    assert (changed.key["id"], changed.what, *changed.columns) == ("4", DIFFERS, "amount")
    documents = with_history(spec, lake, [first, other])
    assert [len(one["differences"][0]["history"]) for one in documents] == [1, 1]
    feeds[0].session.execute("DROP TABLE typed_1")
    feeds[0].session.commit()
    other, gone = run_verify(spec, lake)
    assert (other.label, other.differing) == ("waybill.public.typed of waybill.public.typed_2", 1)
    # Its rows are in the lake still, and nobody can tell whether they should be.
    assert (gone.label, gone.in_lake, gone.undecided) == (first.label, 3, 3)
    assert "the database has no such table" in gone.sentence
    for feed in feeds:
        feed.session.execute(f"DROP TABLE IF EXISTS {feed.table}")
        feed.session.commit()
        feed.close()


def test_what_the_command_prints_and_how_it_ends(spark, migration, feed, tmp_path):
    feed.insert(*range(1, 6))
    spec = migration("debezium-json", **KEY, verify={"lag": "0s"})
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(spec.model_dump(exclude_unset=True)))
    lake = run(spark, spec, feed)
    feed.update(3, silent=True, amount="amount + 1")
    run_verify(spec, lake)
    run(spark, spec, feed)
    done = command("verify", str(file))
    assert done.returncode == 3, done.stderr
    assert "waybill.public.typed id=3: differs" in done.stdout
    assert "amount: '4.003' in the database" in done.stdout
    assert "'3.003' in the lake" in done.stdout
    assert "insert of 20" in done.stdout
    assert "WB-6102" in done.stderr
    assert feed.server.password not in done.stdout + done.stderr
    output = command("status", str(file), "--json").stdout.splitlines()
    assert json.loads(output[-1])["verified"][0]["differing"] == 1


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "waybill.cli", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_what_is_wrong_with_the_connection_is_reported(spark, migration, feed, connect, postgres):
    feed.insert(1)
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feed)
    connect("postgres", postgres, password="wrong")
    with pytest.raises(ConfigurationError, match="authentication failed") as error:
        run_verify(spec, lake)
    assert "wrong" not in str(error.value)
    connect("postgres", postgres, port=1)
    with pytest.raises(UnreachableError, match="connection source"):
        run_verify(spec, lake)
    connect("oracle", postgres)
    with pytest.raises(ConfigurationError, match="is of the type 'oracle'"):
        run_verify(spec, lake)
