"""MariaDB and MySQL as the source: rows of every type, planted differences, writes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.verify.binlog_feed import ZONE, BinlogFeed, MariaDBFeed, MySQLFeed
from tests.verify.live import Live, run
from waybill.connections import get_connection
from waybill.verify.databases import database_of
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.newest import MASKED
from waybill.verify.run import VerifyRequest, run_verify

SETTINGS = {
    "settings": {"timezone": ZONE},
    # A date of the lake cannot hold 0000-00-00.
    "tables": {"*": {"columns": {"day": "string"}}},
}

PLANTED: dict[int, dict[str, str]] = {
    1: {"tiny": "0"},
    2: {"big": "big - 1"},
    3: {"filled": "filled + 1"},
    4: {"amount": "amount + 0.0001"},
    6: {"amount": "-amount"},
    7: {"ratio": "1.0000001"},
    8: {"exact": "8.000000000000001e22"},
    9: {"exact": "3.0000000000000004"},
    11: {"name": "concat(name, ' ')"},
    12: {"name": "upper(name)"},
    13: {"name": "replace(name, 'é', 'è')"},
    14: {"name": "''"},
    16: {"name": "NULL"},
    17: {"code": "'C17'"},
    18: {"body": "replace(body, '\\t', ' ')"},
    19: {"body": "replace(body, '😀', '😁')"},
    21: {"kind": "'B'"},
    22: {"kind": "''"},
    23: {"rights": "rights + 0 ^ 4"},
    46: {"rights": "''"},
    26: {"raw": "X'1a00ff'"},
    27: {"raw": "''"},
    28: {"fixed": "X'1c000001'"},
    29: {"blob_": "NULL"},
    31: {"bits": "bits ^ 256"},
    32: {"day": "day + interval 1 day"},
    33: {"day": "NULL"},
    34: {"wall": "wall + interval 1 microsecond"},
    36: {"moment": "moment - interval 1 microsecond"},
    37: {"moment": "moment + interval 8 hour"},
    38: {"clock": "'38:00:00.501'"},
    39: {"clock": "'-39:00:00.5'"},
    41: {"born": "born + 1"},
    42: {"doc": """'{"n": 42, "t": ["a", null, 1.51]}'"""},
    43: {"place": "ST_GeomFromText('POINT(43 1.5000000000000002)', 4326)"},
    44: {"born": "0", "day": "'0000-00-00'", "unseen": "unseen + 1"},
}
"""What is done to rows without a word to the topic, each the smallest step that there is."""
GONE = (51, 52)
NEW = (1001,)
INVENTED = (2001,)
"""Rows that are deleted, inserted, and told of without being there."""


FOLLOWS = {"unseen": {"twice", "kept"}}
"""Columns that the database makes of others, and that differ with them."""


@pytest.fixture
def feed(server, connect, tmp_path: Path) -> Iterator[BinlogFeed]:
    connect("mysql", server)
    kind = MySQLFeed if server.name == "MySQL" else MariaDBFeed
    made = kind(server, tmp_path / "in")
    yield made
    made.close()


def kinds(result: Any) -> dict[int, str]:
    return {int(found.key["id"]): found.what for found in result.differences}


def test_rows_of_every_type_are_equal_and_stay_so_while_they_are_written(spark, migration, feed):
    feed.insert(*range(1, 301))
    spec = migration("canal", **SETTINGS)
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (300, 300)
    assert (result.differing, result.undecided) == (0, 0), result
    assert result.position is not None
    assert result.position.startswith("binlog.")
    with Live(spark, spec, feed, range(100, 200), 3000) as live:
        (result,) = run_verify(spec, lake, VerifyRequest(wait=45))
        assert live.written
    assert result.differences == []
    assert {int(key.strip('["]')) for key in result.pending} <= live.written


def test_forty_planted_differences_are_found_while_others_are_written(spark, migration, feed):
    feed.insert(*range(1, 301))
    for number in INVENTED:
        feed.say(number)
    spec = migration("canal", **SETTINGS)
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
    with Live(spark, spec, feed, range(100, 200), 3000) as live:
        (result,) = run_verify(spec, lake, VerifyRequest(wait=300))
    assert kinds(result) == expected
    assert {int(key.strip('["]')) for key in result.pending} <= live.written
    for found in result.differences:
        if found.what == DIFFERS:
            planted = set(PLANTED[int(found.key["id"])])
            made = set().union(*(FOLLOWS.get(name, ()) for name in planted))
            assert set(found.columns) == planted | made, found


def test_a_session_can_write_nothing(feed):
    feed.insert(1)
    with database_of(get_connection("source")) as database:
        for begin in (database.begin, lambda: database._fetch("ROLLBACK")):
            begin()
            with (
                pytest.raises(pymysql.err.MySQLError, match="READ ONLY"),
                database._session.cursor() as cursor,
            ):
                cursor.execute("DELETE FROM typed")
    assert feed._execute("SELECT count(*) FROM typed") == [(1,)]


def test_a_reader_who_is_slow_is_not_cut_off(feed):
    """A server gives up on whoever takes nothing for so long; here after a second."""
    feed._execute("DROP TABLE IF EXISTS large")
    feed._execute("CREATE TABLE large (id bigint PRIMARY KEY, body longtext)")
    feed._execute(
        "INSERT INTO large WITH RECURSIVE numbers AS "
        "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 400) "
        "SELECT n, repeat('x', 100000) FROM numbers"
    )
    feed.session.commit()
    ((usual,),) = feed._execute("SELECT @@GLOBAL.net_write_timeout")
    feed._execute("SET GLOBAL net_write_timeout = 1")
    try:
        with database_of(get_connection("source")) as database:
            database.begin()
            table = database.table(("waybill", "", "large"), None)
            (piece,) = database.pieces(table, ("id",), 1)
            rows = database.rows(table.columns, piece)
            first = next(rows)
            time.sleep(3)
            assert len([first, *rows]) == 400
    finally:
        feed._execute(f"SET GLOBAL net_write_timeout = {usual}")


def test_a_table_with_another_name_a_condition_and_a_mask(spark, migration, feed):
    feed.insert(*range(1, 31))
    rule = {
        "tables": ["waybill.typed"],
        "rename": {"database": "lake_of_shop", "table": "rows"},
        "columns": {"mask": {"body": "sha256"}, "rename": {"big": "large"}},
        "where": "big > 18446744073709551600 AND kind IN ('a', 'x y')",
    }
    spec = migration("canal", **SETTINGS, map=[rule], verify={"lag": "0s"})
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert result.table == "lake_of_shop.rows"
    assert result.in_database == result.in_lake
    assert 0 < result.in_lake < 30
    assert (result.differing, result.undecided) == (0, 0), result
    feed.update(6, silent=True, tiny="7", body="'hidden'")
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    (found,) = result.differences
    assert (found.key["id"], [*found.columns]) == ("6", ["tiny", "body"])
    assert found.columns["body"] == (MASKED, MASKED)
