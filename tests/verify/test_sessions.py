"""Sessions in MariaDB and MySQL: who may log in and how, what is read, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from waybill.connections import get_connection
from waybill.errors import Code, ConfigurationError, UnreachableError
from waybill.verify.canonical import of_database
from waybill.verify.databases import database_of

Run = Callable[..., list[tuple[Any, ...]]]


def opened(server: Any) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=server.user,
        password=server.password,
        database=server.database,
        autocommit=True,
    )


def statements_in(server: Any) -> Iterator[Run]:
    """Runs statements, and removes the users and the tables that they made."""
    session = opened(server)

    def run(*statements: str) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    yield run
    run("DROP USER IF EXISTS reader", "DROP TABLE IF EXISTS shown, hidden")
    session.close()


@pytest.fixture
def sql(server) -> Iterator[Run]:
    yield from statements_in(server)


@pytest.fixture
def mysql_sql(mysql) -> Iterator[Run]:
    yield from statements_in(mysql)


def read(name: str = "shown") -> list[tuple[str | None, ...]]:
    """The canonical texts of a table's rows, as a verification reads them."""
    with database_of(get_connection("source")) as database:
        database.begin()
        table = database.table(("waybill", "", name), None)
        assert table is not None
        texts = [of_database(column) for column in table.columns]
        (piece,) = database.pieces(table, ("id",), 1)
        return [
            tuple(None if v is None else text(v) for text, v in zip(texts, row, strict=True))
            for row in database.rows(table.columns, piece)
        ]


def cipher() -> str:
    with database_of(get_connection("source")) as database:
        ((_, name),) = database._fetch("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(name)


def test_a_user_who_may_read_some_columns_sees_those(server, sql, connect):
    sql(
        "CREATE TABLE shown (id int PRIMARY KEY, open_ int, closed int)",
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "INSERT INTO shown VALUES (1, 2, 3)",
        "CREATE USER reader IDENTIFIED BY 'a word'",
        "GRANT SELECT (id, open_) ON shown TO reader",
    )
    connect("mysql", server, login="reader", password="a word")
    with database_of(get_connection("source")) as database:
        assert database.tables() == [("waybill", "shown")]
        assert database.table(("waybill", "", "hidden"), None) is None
    assert read() == [("1", "2")]


def test_the_position_is_shown_to_whom_the_server_shows_it(server, sql, connect):
    def position() -> str | None:
        with database_of(get_connection("source")) as database:
            return database.begin().position

    sql("CREATE USER reader IDENTIFIED BY 'a word'")
    connect("mysql", server, login="reader", password="a word", schema="")
    # MariaDB tells everybody the position of a view.
    assert (position() is None) == (server.name == "MySQL")
    sql("GRANT REPLICATION CLIENT ON *.* TO reader")
    assert str(position()).startswith("binlog.0")


KEYS = {
    "id": ("bigint unsigned", "18446744073709551615", "0"),
    "amount": ("decimal(20,4)", "1.5", "-0.0001"),
    "tiny": ("tinyint(1)", "1", "-1"),
    "filled": ("int(6) unsigned zerofill", "42", "1234567"),
    "name": ("varchar(40)", "'é \\'x\\' %s \\\\'", "'e %'"),
    "narrow": ("char(9) CHARACTER SET latin1", "'é'", "''"),
    "kind": ("enum('a','x y')", "'x y'", "'a'"),
    "rights": ("set('r','w','x')", "'r,x'", "''"),
    "raw": ("varbinary(9)", "X'00ff27'", "X''"),
    "fixed": ("binary(4)", "X'ff'", "X'5c27'"),
    "bits": ("bit(9)", "b'100000001'", "b'0'"),
    "bit_": ("bit(1)", "b'1'", "b'0'"),
    "day": ("date", "'0000-00-00'", "'2024-02-29'"),
    "wall": ("datetime(6)", "'2024-02-29 01:02:03.000004'", "'0000-00-00 00:00:00'"),
    "moment": ("timestamp(6)", "'2001-01-01 00:00:00.123456'", "'1970-01-02 00:00:00'"),
    "clock": ("time(3)", "'-838:59:59'", "'00:00:00.5'"),
    "born": ("year", "2024", "0"),
    "ratio": ("float", "0.1", "-3.4028235e38"),
    "small": ("float", "1.1754944e-38", "16777217"),
    "scaled": ("float(7,3)", "1234.567", "-0.001"),
    "exact": ("double", "0.1", "-1.7976931348623157e308"),
    "rounded": ("double(20,3)", "12345678901234.567", "0.1"),
}
"""Columns of a key, and two values of each as SQL writes them."""


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_looked_up_by_keys_of_every_type(server, sql, connect, name):
    columns = ", ".join(f"`{name}` {declared} NOT NULL" for name, (declared, *_) in KEYS.items())
    sql(
        "SET SESSION sql_mode = '', time_zone = '+00:00'",
        f"CREATE TABLE shown ({columns}, PRIMARY KEY (`{name}`)) CHARACTER SET utf8mb4",
        *(
            f"INSERT INTO shown VALUES ({', '.join(row)})"
            for row in zip(*(values for _, *values in KEYS.values()), strict=True)
        ),
    )
    connect("mysql", server)
    with database_of(get_connection("source")) as database:
        database.begin()
        table = database.table(("waybill", "", "shown"), None)
        assert table is not None
        column = next(c for c in table.columns if c.name == name)
        (piece,) = database.pieces(table, (), 1)
        rows = [tuple(row) for row in database.rows(table.columns, piece)]
        assert len(rows) == 2
        for row in rows:
            text = of_database(column)(dict(zip(KEYS, row, strict=True))[name] or "")
            assert [*database.looked_up(table, table.columns, [column], [[text]])] == [row], text


def test_a_wrong_password_is_refused_and_not_shown(server, sql, connect):
    sql("CREATE USER reader IDENTIFIED BY 'a word'")
    connect("mysql", server, login="reader", password="no such word")
    with pytest.raises(ConfigurationError, match="Access denied") as error:
        cipher()
    assert error.value.code == Code.DATABASE_REFUSED
    assert "such" not in str(error.value)


def test_a_query_that_the_server_ends_may_pass(server, sql, connect):
    sql(
        "CREATE TABLE shown (id int PRIMARY KEY)",
        "INSERT INTO shown WITH RECURSIVE numbers AS "
        "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 900) SELECT n FROM numbers",
    )
    connect("mysql", server)
    # Seconds in one, milliseconds in the other.
    limit = "max_execution_time = 50" if server.name == "MySQL" else "max_statement_time = 0.05"
    with database_of(get_connection("source")) as database:
        database.begin()
        database._fetch(f"SET SESSION {limit}")
        with pytest.raises(UnreachableError, match=r"could not be read: \d+ .*exe") as error:
            database._fetch("SELECT sum(a.id * b.id * c.id) FROM shown a, shown b, shown c")
    assert error.value.code == Code.DATABASE_UNREACHABLE


def test_a_table_that_was_altered_since_may_be_read_once_more(server, sql, connect):
    sql("CREATE TABLE shown (id int PRIMARY KEY)", "INSERT INTO shown VALUES (1)")
    connect("mysql", server)
    with database_of(get_connection("source")) as database:
        database.begin()
        sql("ALTER TABLE shown FORCE")
        table = database.table(("waybill", "", "shown"), None)
        assert table is not None
        (piece,) = database.pieces(table, (), 1)
        with pytest.raises(UnreachableError, match="1412"):
            list(database.rows(table.columns, piece))
        database.begin()
        assert list(database.rows(table.columns, piece)) == [("1",)]


def test_logins_of_mysql_with_and_without_encryption(mysql, mysql_sql, connect):
    for extra, encrypted in (({}, True), ({"ssl": True}, True), ({"ssl": "false"}, False)):
        # The first login of a user is another one than those after it, which a cache answers.
        mysql_sql(
            "DROP USER IF EXISTS reader",
            "CREATE USER reader IDENTIFIED WITH caching_sha2_password BY 'a word'",
        )
        connect("mysql", mysql, login="reader", password="a word", schema="", extra=extra)
        for _ in range(2):
            assert bool(cipher()) == encrypted, extra
    mysql_sql("ALTER USER reader REQUIRE SSL")
    with pytest.raises(ConfigurationError, match="Access denied"):
        cipher()


def test_a_certificate_that_is_not_the_servers_is_refused(mysql, mysql_sql, connect, tmp_path):
    ca = tmp_path / "ca.pem"
    connect("mysql", mysql, extra={"ssl": {"ca": str(ca)}})
    with pytest.raises(ConfigurationError, match="No such file") as missing:
        cipher()
    assert missing.value.code == Code.CONNECTION_INVALID
    ((folder,),) = mysql_sql("SELECT @@datadir")
    ca.write_bytes((Path(folder) / "ca.pem").read_bytes())
    # Its own certificate names no address.
    with pytest.raises(ConfigurationError, match="certificate verify failed") as error:
        cipher()
    assert error.value.code == Code.DATABASE_REFUSED
    connect("mysql", mysql, extra={"ssl": {"ca": str(ca), "check_hostname": False}})
    assert cipher()


def test_types_that_only_mysql_has(mysql, mysql_sql, connect):
    connect("mysql", mysql)
    mysql_sql(
        "CREATE TABLE shown (id int PRIMARY KEY, v vector(3), j json, g geometry SRID 4326, "
        "n varchar(9) COLLATE utf8mb4_0900_as_cs)",
        "INSERT INTO shown VALUES (1, to_vector('[1, 0.1, -1e30]'), "
        '\'{"bb": [1.50, 1e30, 18446744073709551615], "a": "é😀"}\', '
        "ST_GeomFromText('POINT(43 100.5)', 4326), 'é😀'), (2, NULL, NULL, NULL, NULL)",
    )
    ((_, vector, document, place, name), nothing) = read()
    assert vector == "[1.0,0.1,-1e+30]"
    assert document == (
        '{"a":"\\u00e9\\ud83d\\ude00","bb":[1.5,1000000000000000000000000000000,'
        "18446744073709551615]}"
    )
    # Longitude first, whichever way it was given.
    assert place == "4326:010100000000000000002059400000000000804540"
    assert name == "é😀"
    assert nothing == ("2", None, None, None, None)
