"""Keys of every type, looked up in a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.verify.live import run
from tests.verify.postgres_feed import PostgresFeed
from waybill.connections import get_connection
from waybill.verify.canonical import can_be_looked_up, of_database
from waybill.verify.databases import database_of
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.run import VerifyRequest, run_verify

KEYS: dict[str, list[str]] = {
    "bit(4)": ["0000", "0001", "0101", "1010", "1111"],
    "bit(1)": ["0", "1"],
    "bit(70)": ["0" * 69 + "1", "1" + "0" * 69],
    "bit varying(5)": ["", "0", "0101", "101", "00101"],
    "bit varying": ["", "0101", "101"],
    "integer[]": ["{}", "{1,2}", "{1,NULL}", "{{1},{2}}", "[0:1]={1,2}"],
    "text[]": ['{"a,b","c d",NULL,"NULL","\\"","\\\\"}', "{}"],
    "bit(3)[]": ["{101,011}"],
    "bytea[]": ['{"\\\\x00ff"}'],
    "timestamp with time zone[]": ['{"2024-01-01 00:00:00+02"}'],
    "time with time zone": ["12:00:00+02", "10:00:00+00", "12:00:00.5-08:30"],
    "boolean": ["t", "f"],
    "character(3)": ["A", "B  ", ""],
    "character varying(5)": ["A", "A ", "", "\\", "'", "%s", "NULL"],
    "bytea": ["\\x", "\\x00ff"],
    "smallint": ["-1", "0"],
    "numeric": ["1.10", "1e20", "NaN", "-0.5"],
    "numeric(10,2)": ["1.10", "100", "NaN"],
    "real": ["1.1", "Infinity", "NaN", "-0", "1e-40"],
    "double precision": ["0.1", "1e300", "-Infinity"],
    "date": ["2024-02-29", "infinity", "0044-03-15 BC", "10000-01-01"],
    "timestamp without time zone": ["2024-01-01 00:00:00.5", "-infinity", "10000-01-01 00:00:00"],
    "timestamp with time zone": ["2024-01-01 00:00:00.123456+02", "infinity"],
    "time without time zone": ["00:00:00", "23:59:59.5", "24:00:00"],
    "interval": ["1 day", "-1 mon", "PT0.5S"],
    "jsonb": ['{"b": 1.50, "a": [null, "x"]}', "null", "[]"],
    "uuid": ["0" * 32],
    "inet": ["1.2.3.4", "10.0.0.0/8"],
    "money": ["1.50", "-2"],
}
"""Values of keys by the types of their columns."""


@pytest.fixture
def session(postgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        host="127.0.0.1",
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=postgres.database,
        autocommit=True,
    ) as opened:
        yield opened
        opened.execute("DROP TABLE IF EXISTS keyed")


@pytest.mark.parametrize("declared", KEYS)
def test_a_key_is_found_by_its_canonical_text_or_not_looked_up(
    session, connect, postgres, declared
):
    connect("postgres", postgres)
    session.execute(f"CREATE TABLE keyed (k {declared} PRIMARY KEY)")
    for text in KEYS[declared]:
        session.execute(f"INSERT INTO keyed VALUES (%s::text::{declared})", (text,))
    with database_of(get_connection("source")) as database:
        table = database.table(("", "public", "keyed"), None)
        (column,) = table.columns
        assert column.declared == declared
        if not can_be_looked_up(column):
            assert column.array or declared.startswith(("bit varying", "time with", "interval"))
            return
        read = of_database(column)
        pieces = database.pieces(table, (), 1)
        texts = [text for piece in pieces for (text,) in database.rows(table.columns, piece)]
        assert len(texts) == len(KEYS[declared])
        for text in texts:
            found = list(database.looked_up(table, [column], [column], [[read(text)]]))
            assert found == [(text,)]
        if declared.startswith("bit("):
            for other in ("#" + "9" * 40, "no bits", "", "true " * 2):
                assert list(database.looked_up(table, [column], [column], [[other]])) == []


@pytest.fixture
def feed(postgres, connect, tmp_path: Path) -> Iterator[PostgresFeed]:
    connect("postgres", postgres)
    made = PostgresFeed(postgres, tmp_path / "in")
    yield made
    made.close()


@pytest.mark.parametrize("key", ["bits", "tags"])
def test_rows_with_keys_of_bits_and_arrays(spark, migration, feed, key):
    """What `changed` looks at, and the second look at what differs."""
    spec = migration(
        "debezium-json",
        tables={"*": {"key": [key]}},
        verify={"lag": "0s", "method": "changed"},
    )
    feed.insert(1, 2, 3, 4, 6, 7)
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (6, 6)
    assert (result.differing, result.undecided) == (0, 0), result
    feed.update(1, title="'told'")
    feed.update(2, silent=True, title="'not told'")
    feed.delete(3, silent=True)
    feed.insert(8, silent=True)
    run(spark, spec, feed)
    results = run_verify(spec, lake)
    assert results[0].method == ("changed" if key == "bits" else "full")
    run_verify(spec, lake, VerifyRequest(method="full"))
    feed.update(4, title="'told later'")
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake, VerifyRequest(method="full"))
    assert result.undecided == 0
    found = sorted((d.what, *d.columns) for d in result.differences)
    assert found == [(DIFFERS, "title"), (MISSING_IN_DATABASE,), (MISSING_IN_LAKE,)]
