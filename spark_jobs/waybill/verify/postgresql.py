"""PostgreSQL as the source of a verification.

Rows are read with COPY, which writes every value with the output function of its type: what psql
shows. A view is a REPEATABLE READ transaction, which other sessions share by its exported snapshot.

Source: PostgreSQL's documentation, "Snapshot Synchronization Functions", "COPY", "System Columns".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, ConfigurationError, UnreachableError
from waybill.types import UNKNOWN, LogicalType, parse_type
from waybill.verify.canonical import POSTGRESQL, SourceColumn, literal_text
from waybill.verify.database import Database, DatabaseView, SourceTable, TablePiece, Texts

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

SETTINGS = {
    "default_transaction_read_only": "on",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "idle_in_transaction_session_timeout": "0",
}
"""Of every session: it can write nothing, prints values so that nothing is lost, and keeps the view
that others read in while it waits for them."""

_TIMEOUT = 20
"""Seconds for a new session."""

_COLUMNS = """
SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid),
           CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE a.atttypmod END)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2
"""

_LEAVES = """
SELECT n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::bigint
FROM (SELECT %s::oid AS oid WHERE (SELECT relkind FROM pg_class WHERE oid = %s) <> 'p'
      UNION ALL SELECT relid FROM pg_partition_tree(%s) WHERE isleaf) l
JOIN pg_class c ON c.oid = l.oid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY 1, 2
"""


class PostgreSQL(Database):
    """One session in a PostgreSQL."""

    kind = POSTGRESQL

    def _open(self) -> psycopg.Connection[Any]:
        import psycopg

        to = self.connection
        options = " ".join(
            f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in SETTINGS.items()
        )
        given = {name: to.extra[name] for name in _TAKEN if to.extra.get(name) is not None}
        conninfo = psycopg.conninfo.make_conninfo(
            host=to.host,
            port=to.port or 5432,
            user=to.login,
            password=to.password or None,
            dbname=self._database,
            connect_timeout=_TIMEOUT,
            client_encoding="UTF8",
            application_name="waybill verify",
            options=options,
            **given,
        )
        with self._plainly():
            session = psycopg.connect(conninfo, autocommit=True)
            session.prepare_threshold = None
            return session

    @property
    def _database(self) -> str:
        return self.connection.schema or str(
            self.connection.extra.get("dbname") or self.connection.login
        )

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Errors of the server as a sentence; its texts hold no password, and no query."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError) and not _for_good(error):
                sentence = self._sentence(error)
                raise UnreachableError(sentence, code=Code.DATABASE_UNREACHABLE) from None
            raise ConfigurationError(self._sentence(error), code=Code.DATABASE_REFUSED) from None

    def _sentence(self, error: psycopg.Error) -> str:
        # Beside its own sentence the server quotes the query, which may name keys.
        text = " ".join((error.diag.message_primary or str(error)).split())
        to = self.connection
        return (
            f"the database of the connection {to.name} ({to.host}:{to.port or 5432}) could not be "
            f"read: {text}"
        )

    def _fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._plainly():
            found: list[tuple[Any, ...]] = self._session.execute(statement, values).fetchall()
            return found

    def begin(self, shared: str | None = None) -> DatabaseView:
        """See `Database.begin`."""
        from psycopg import sql

        with self._plainly():
            self._session.execute("ROLLBACK")
            self._session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if shared is not None:
                text = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(shared))
                self._session.execute(text)
        # The first query takes the view; the clock that it tells is read after it was taken.
        self._fetch("SELECT 1")
        return DatabaseView(self.clock(), self._position())

    def _position(self) -> str:
        statement = (
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
            "ELSE pg_current_wal_lsn() END::text"
        )
        return str(self._fetch(statement)[0][0])

    def share(self) -> str | None:
        """See `Database.share`."""
        return str(self._fetch("SELECT pg_export_snapshot()")[0][0])

    def release(self) -> None:
        """See `Database.release`."""
        with self._plainly():
            self._session.execute("ROLLBACK")

    def clock(self) -> int:
        """See `Database.clock`."""
        return int(
            self._fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
        )

    def table(self, identity: tuple[str, str, str], named: str | None) -> SourceTable | None:
        """See `Database.table`."""
        parts = tuple(named.split(".")) if named else tuple(p for p in identity[1:] if p)
        if len(parts) > 2:
            parts = parts[1:]
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        found = self._fetch("SELECT to_regclass(%s)::oid", quoted)[0][0]
        if found is None:
            return None
        rows = self._fetch(_COLUMNS, found)
        return SourceTable(parts, tuple(_column(*row) for row in rows))

    def tables(self) -> list[tuple[str, ...]]:
        """See `Database.tables`."""
        return self._fetch(_TABLES)

    def identity(self, parts: tuple[str, ...]) -> tuple[str, str, str]:
        """See `Database.identity`."""
        schema = parts[-2] if len(parts) > 1 else "public"
        return self._database, schema, parts[-1]

    def pieces(self, table: SourceTable, key: Sequence[str], about: int) -> list[TablePiece]:
        """Ranges of blocks, which are exact inside of one view whatever the key is."""
        oid = self._fetch("SELECT to_regclass(%s)::oid", self._from(table).as_string(None))[0][0]
        leaves = self._fetch(_LEAVES, oid, oid, oid)
        blocks = max(sum(size for _, _, size in leaves), 1)
        found = []
        for namespace, name, size in leaves:
            source = "ONLY " + _identifier((namespace, name)).as_string(None)
            parts = max(1, min(size, round(about * size / blocks)))
            starts = [size * i // parts for i in range(parts)]
            for start, end in zip(starts, [*starts[1:], None], strict=True):
                where = f"ctid >= '({start},0)'::tid" if start else ""
                if end is not None:
                    where += f"{' AND ' if where else ''}ctid < '({end},0)'::tid"
                found.append(TablePiece(source, where))
        return found

    def count(self, table: SourceTable) -> int:
        """See `Database.count`."""
        from psycopg import sql

        text = sql.SQL("SELECT count(*) FROM {}").format(self._from(table))
        with self._plainly():
            return int(self._session.execute(text).fetchone()[0])

    @staticmethod
    def _from(table: SourceTable) -> sql.Identifier:
        return _identifier(table.parts)

    def rows(self, columns: Sequence[SourceColumn], piece: TablePiece) -> Iterator[Texts]:
        """See `Database.rows`."""
        from psycopg import sql

        names = sql.SQL(", ").join(map(_selected, columns))
        condition = f" WHERE {piece.where}" if piece.where else ""
        text = sql.SQL("COPY (SELECT {} FROM ").format(names).as_string(self._session)
        copied = f"{text}{piece.source}{condition}) TO STDOUT"
        with self._plainly(), self._session.cursor() as cursor, cursor.copy(copied) as copy:
            yield from copy.rows()

    def key_piece(
        self, table: SourceTable, key: Sequence[SourceColumn], keys: Sequence[Sequence[str]]
    ) -> TablePiece:
        """See `Database.key_piece`."""
        from psycopg import sql

        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in key)
        rows = sql.SQL(", ").join(
            sql.SQL("({})").format(
                sql.SQL(", ").join(
                    sql.SQL("{}::" + column.declared).format(sql.Literal(_literal(column, text)))
                    for column, text in zip(key, values, strict=True)
                )
            )
            for values in keys
        )
        where = sql.SQL("({}) IN ({})").format(names, rows).as_string(self._session)
        return TablePiece(self._from(table).as_string(None), where)


_WORDS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")
"""What libpq says of a login that will not be taken later either; it tells no code."""


def _for_good(error: Exception) -> bool:
    return any(words in str(error) for words in _WORDS)


_TAKEN = (
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "target_session_attrs"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "gssencmode"),
)
"""Which of a connection's extra settings are passed to libpq."""


def _identifier(parts: Sequence[str]) -> sql.Identifier:
    from psycopg import sql

    return sql.Identifier(*parts)


def _literal(column: SourceColumn, text: str) -> str | None:
    """What the database reads as the value of a key; None where no row can have it."""
    if column.declared.startswith("bit("):
        return _bits_literal(column, text)
    written = literal_text(column, text)
    return f"\\x{written}" if column.type.kind == "bytes" else written


def _bits_literal(column: SourceColumn, text: str) -> str | None:
    """All digits of a BIT(n): fewer would be filled up at the wrong end, and more cut off."""
    number = {"true": "1", "false": "0"}.get(text, literal_text(column, text))
    if not (number.isascii() and number.isdigit()):
        return None
    width = column.type.precision or 1
    digits = format(int(number), "b").zfill(width)
    return digits if len(digits) == width else None


def _selected(column: SourceColumn) -> sql.Composable:
    from psycopg import sql

    name = sql.Identifier(column.name)
    # MONEY is printed with the currency of the server's locale.
    return sql.SQL("{}::numeric").format(name) if column.declared == "money" else name


def _column(name: str, declared: str) -> SourceColumn:
    array = declared.endswith("[]")
    base = declared.removesuffix("[]")
    return SourceColumn(
        name, declared, _type(base), POSTGRESQL, array, base.startswith(("character(", "bpchar"))
    )


def _type(declared: str) -> LogicalType:
    if declared == "money":
        return LogicalType("decimal", 19, 2)
    if declared == "bit varying":
        return LogicalType("bit")
    if declared.startswith("time") and declared.endswith("with time zone"):
        kind = "timestamptz" if declared.startswith("timestamp") else "timetz"
        return LogicalType(kind)
    if declared in ("point", "box", "polygon", "path", "lseg", "line", "circle"):
        # Shapes of PostgreSQL's own have texts of their own and no well-known binary.
        return UNKNOWN
    try:
        return parse_type(declared, POSTGRESQL)
    except ValueError:
        return UNKNOWN
