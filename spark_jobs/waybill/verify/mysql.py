"""MySQL, MariaDB and what speaks their protocol as the source of a verification.

The server sends every value of a plain query as text. Where its text would round or cut a value
(FLOAT, DOUBLE with digits) or is not a text (BIT, BINARY, geometry, VECTOR), the query asks for
another form. Sessions cannot share a view: each piece is read in a view of its own, which is exact
all the same, because rows that differ are looked at once more (`waybill.verify.deciding`).

Source: MySQL Reference Manual, "START TRANSACTION, COMMIT, and ROLLBACK Statements", "Text
Resultset"; MariaDB Server Documentation, "Enhancements for START TRANSACTION WITH CONSISTENT
SNAPSHOT".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, ConfigurationError, UnreachableError
from waybill.types import UNKNOWN, LogicalType, parse_type
from waybill.verify.canonical import MYSQL, SourceColumn, is_vector, literal_text
from waybill.verify.database import Database, DatabaseView, SourceTable, TablePiece, Texts
from waybill.verify.mysql_tls import refuses_tls, tls_of, unusable

if TYPE_CHECKING:
    import pymysql

SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET SESSION time_zone = '+00:00', sql_mode = '', autocommit = 1",
    "SET SESSION net_write_timeout = 3600",
)
"""Of every session: it can write nothing, prints instants in UTC, and may be read slowly: by itself
a server gives up on a reader who takes nothing for a minute."""

_TIMEOUT = 20
"""Seconds for a new session."""
_READ_TIMEOUT = 3600
"""Seconds that a query may be silent: counting a large table takes long."""

_COLUMNS = """
SELECT column_name, column_type, data_type FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type = 'BASE TABLE'
    AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY 1, 2
"""
_GEOMETRIES = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection", "geomcollection"),
}
_INTEGER = re.compile(r"-?\d+")


class MySQL(Database):
    """One session in a MySQL or MariaDB."""

    kind = MYSQL

    def _open(self) -> pymysql.Connection[Any]:
        import pymysql
        from pymysql import converters, cursors

        to = self.connection
        # Texts stay texts: only what is sent is converted.
        sent = {kind: how for kind, how in converters.conversions.items() if type(kind) is not int}
        tls = tls_of(to)
        with self._plainly():
            try:
                session = pymysql.connect(
                    host=to.host or "localhost",
                    port=to.port or 3306,
                    user=to.login or None,
                    password=to.password,
                    database=to.schema or None,
                    charset="utf8mb4",
                    connect_timeout=_TIMEOUT,
                    read_timeout=_READ_TIMEOUT,
                    autocommit=True,
                    conv=sent,
                    cursorclass=cursors.SSCursor,
                    program_name="waybill verify",
                    **tls,
                )
            except (OSError, ValueError) as error:
                # Those of the network are the driver's own; these are of files and certificates.
                raise unusable(to, error) from None
            for statement in SETTINGS:
                with session.cursor() as cursor:
                    cursor.execute(statement)
            return session

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Errors of the server as a sentence; its texts hold no password."""
        import pymysql

        try:
            yield
        except pymysql.err.MySQLError as error:
            if isinstance(error, pymysql.err.OperationalError) and _may_pass(error):
                sentence = self._sentence(error)
                raise UnreachableError(sentence, code=Code.DATABASE_UNREACHABLE) from None
            raise ConfigurationError(self._sentence(error), code=Code.DATABASE_REFUSED) from None

    def _sentence(self, error: Exception) -> str:
        text = " ".join(str(part) for part in error.args)
        to = self.connection
        return (
            f"the database of the connection {to.name} ({to.host}:{to.port or 3306}) could not be "
            f"read: {text}"
        )

    def _fetch(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._plainly(), self._session.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def begin(self, shared: str | None = None) -> DatabaseView:
        """See `Database.begin`."""
        self._fetch("ROLLBACK")
        self._fetch("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return DatabaseView(self.clock(), self._position())

    def _position(self) -> str | None:
        """The binlog's position: exactly the view's in MariaDB, right after it in MySQL."""
        exact = dict(self._fetch("SHOW SESSION STATUS LIKE 'binlog_snapshot_%'"))
        if exact.get("Binlog_snapshot_file"):
            return f"{exact['Binlog_snapshot_file']}:{exact['Binlog_snapshot_position']}"
        for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
            try:
                found = self._fetch(statement)
            except (ConfigurationError, UnreachableError):
                # Older servers know the other statement; some users may ask neither.
                continue
            if found:
                return f"{found[0][0]}:{found[0][1]}"
        return None

    def share(self) -> str | None:
        """See `Database.share`."""
        return None

    def release(self) -> None:
        """See `Database.release`."""
        self._fetch("ROLLBACK")

    def clock(self) -> int:
        """See `Database.clock`."""
        text = self._fetch("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS UNSIGNED)")[0][0]
        return int(text)

    def table(self, identity: tuple[str, str, str], named: str | None) -> SourceTable | None:
        """See `Database.table`."""
        parts = tuple(named.split(".", 1)) if named else tuple(p for p in identity if p)[-2:]
        if len(parts) == 1:
            parts = (self.connection.schema, *parts)
        rows = self._fetch(_COLUMNS, parts)
        if not rows:
            return None
        return SourceTable(parts, tuple(_column(*row) for row in rows))

    def tables(self) -> list[tuple[str, ...]]:
        """See `Database.tables`."""
        return [(str(database), str(name)) for database, name in self._fetch(_TABLES)]

    def identity(self, parts: tuple[str, ...]) -> tuple[str, str, str]:
        """See `Database.identity`."""
        return parts[0], "", parts[-1]

    def pieces(self, table: SourceTable, key: Sequence[str], about: int) -> list[TablePiece]:
        """Ranges of the first column of the key, where it is an integer; else all in one."""
        source = _from(table)
        first = key[0] if key else None
        column = next((c for c in table.columns if c.name == first), None)
        if column is None or not column.type.is_integer or about < 2:
            return [TablePiece(source)]
        name = _quoted(column.name)
        low, high = self._fetch(f"SELECT MIN({name}), MAX({name}) FROM {source}")[0]
        if low is None or high is None:
            return [TablePiece(source)]
        least, most = int(low), int(high)
        parts = max(1, min(about, most - least + 1))
        starts = sorted({least + (most - least + 1) * i // parts for i in range(parts)})
        pieces = []
        for i, start in enumerate(starts):
            # The first and the last one are open: rows may come before and behind them meanwhile.
            where = [f"{name} >= {start}"] if i else []
            where += [f"{name} < {starts[i + 1]}"] if i + 1 < len(starts) else []
            pieces.append(TablePiece(source, " AND ".join(where)))
        return pieces

    def count(self, table: SourceTable) -> int:
        """See `Database.count`."""
        return int(self._fetch(f"SELECT COUNT(*) FROM {_from(table)}")[0][0])

    def rows(self, columns: Sequence[SourceColumn], piece: TablePiece) -> Iterator[Texts]:
        """See `Database.rows`."""
        names = ", ".join(map(_selected, columns))
        condition = f" WHERE {piece.where}" if piece.where else ""
        with self._plainly(), self._session.cursor() as cursor:
            cursor.execute(f"SELECT {names} FROM {piece.source}{condition}")
            for row in cursor:
                yield tuple(
                    bytes(v).decode("utf-8") if isinstance(v, bytes | bytearray) else v for v in row
                )

    def key_piece(
        self, table: SourceTable, key: Sequence[SourceColumn], keys: Sequence[Sequence[str]]
    ) -> TablePiece:
        """See `Database.key_piece`."""
        names = ", ".join(_quoted(column.name) for column in key)
        rows = ", ".join(
            "("
            + ", ".join(self._literal(c, text) for c, text in zip(key, values, strict=True))
            + ")"
            for values in keys
        )
        return TablePiece(_from(table), f"({names}) IN ({rows})")

    def _literal(self, column: SourceColumn, canonical: str) -> str:
        text = literal_text(column, canonical)
        kind = column.type.kind
        if kind == "bytes":
            return f"X'{text}'"
        if kind == "boolean":
            text = {"true": "1", "false": "0"}.get(text, text)
        # Of a BIT, a quoted number would be compared by its characters.
        number = column.type.is_integer or kind in ("bit", "boolean")
        if number and _INTEGER.fullmatch(text):
            return text
        if kind == "float32":
            return _double_of_float(text)
        if kind == "timestamptz":
            text = text.removesuffix("Z")
        return str(self._session.escape(text))


_OF_CLIENT = range(2000, 3000)
"""Errors of the client, who has lost or never had the server; all others are the server's."""
_PASSING = frozenset(
    {
        *(1040, 1053, 1203),  # Too many connections, a server that shuts down.
        *(1205, 1213),  # Locks.
        1412,  # A table that was altered since the view was taken.
        *(1317, 1969, 3024),  # Queries that were cancelled, or took longer than the server lets.
        *(1927, 3169, 4031),  # Sessions that were ended.
    }
)


def _may_pass(error: Exception) -> bool:
    number = error.args[0] if error.args else 0
    return (number in _OF_CLIENT or number in _PASSING) and not refuses_tls(error)


def _quoted(name: str) -> str:
    # The driver takes a lone percent sign for a place of a value only where values are given.
    return "`" + name.replace("`", "``") + "`"


def _from(table: SourceTable) -> str:
    return ".".join(map(_quoted, table.parts))


def _selected(column: SourceColumn) -> str:
    name, kind = _quoted(column.name), column.type.kind
    if kind in ("bytes", "geometry") or is_vector(column):
        return f"HEX({name})"
    if kind == "bit" or (kind == "boolean" and column.declared.startswith("bit")):
        return f"({name} + 0)"
    if kind in ("float32", "float64"):
        # FLOAT is printed with six digits only, DOUBLE(M,D) with D behind the point.
        return f"({name} * 1e0)"
    return name


def _double_of_float(text: str) -> str:
    """A number of 32 bits as what the server compares a FLOAT as: the double of the same value.

    A FLOAT that shows as 0.1 is 0.10000000149…, and equals no 0.1. A text that is not a number is
    of no row.
    """
    try:
        (value,) = struct.unpack("<f", struct.pack("<f", float(text)))
    except (ValueError, OverflowError):
        return "NULL"
    # With an exponent it is a double, and no decimal.
    return f"{value:.17e}" if math.isfinite(value) else "NULL"


def _column(name: str, declared: str, data_type: str) -> SourceColumn:
    return SourceColumn(name, declared, _type(declared, data_type), MYSQL)


def _type(declared: str, data_type: str) -> LogicalType:
    if data_type.lower() in _GEOMETRIES:
        return LogicalType("geometry")
    try:
        return parse_type(declared, MYSQL)
    except ValueError:
        return UNKNOWN
