"""Where the newest metadata of each table is, asked of a catalog's database itself.

The table is that of Iceberg's JDBC catalog: `iceberg_tables` with the catalog's name, namespace and
name of each table and the place of its metadata.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waybill.lake.settings import CATALOG

SQLITE, POSTGRES = "jdbc:sqlite:", "jdbc:postgresql://"

PATIENCE = 10
"""Seconds in which a server has to answer."""

Query = Callable[[str, Sequence[str]], list[tuple[str, ...]]]


class TablePlaces:
    """The tables of a catalog.

    Args:
        query: runs SQL with `?` for each value.
    """

    def __init__(self, query: Query) -> None:
        self._query = query

    @classmethod
    def open(cls, properties: Mapping[str, str]) -> TablePlaces | None:
        """Those of a catalog with such properties; None where it is not a database known here."""
        uri = properties.get("uri", "")
        if properties.get("type") != "jdbc":
            return None
        if uri.startswith(SQLITE):
            return cls(_of_file(Path(uri.removeprefix(SQLITE).split("?")[0])))
        if uri.startswith(POSTGRES):
            return cls(_of_server(uri, properties))
        return None

    @classmethod
    def of_file(cls, properties: Mapping[str, str]) -> TablePlaces | None:
        """Those of a catalog that is a file of this machine; None for any other, and where none is.

        A file is asked in less time than Java takes to hand over an answer of its own.
        """
        uri = properties.get("uri", "")
        if properties.get("type") != "jdbc" or not uri.startswith(SQLITE):
            return None
        file = Path(uri.removeprefix(SQLITE).split("?")[0])
        return cls(_of_file(file)) if file.is_file() else None

    def names(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""
        found = self._query(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?",
            (CATALOG, namespace),
        )
        return sorted(name for (name,) in found)

    def place(self, namespace: str, name: str) -> str | None:
        """Where the metadata of a table is, None if there is no such table."""
        found = self._query(
            "SELECT metadata_location FROM iceberg_tables "
            "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (CATALOG, namespace, name),
        )
        return found[0][0] if found else None


def _of_file(file: Path) -> Query:
    def query(sql: str, values: Sequence[str]) -> list[tuple[str, ...]]:
        if not file.is_file():
            # Nothing has run yet; looking must not make a catalog.
            return []
        # A run that commits keeps the file locked for a moment.
        opened = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", timeout=60, uri=True)
        try:
            return list(opened.execute(sql, values))
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            opened.close()

    return query


def _of_server(uri: str, properties: Mapping[str, str]) -> Query:
    import psycopg

    login: dict[str, Any] = {
        theirs: properties[ours]
        for theirs, ours in (("user", "jdbc.user"), ("password", "jdbc.password"))
        if properties.get(ours)
    }
    place = f"postgresql://{uri.removeprefix(POSTGRES).split('?')[0]}"
    held: list[Any] = []

    def query(sql: str, values: Sequence[str]) -> list[tuple[str, ...]]:
        if not held:
            held.append(psycopg.connect(place, **login, connect_timeout=PATIENCE, autocommit=True))
        try:
            return list(held[0].execute(sql.replace("?", "%s"), values).fetchall())
        except psycopg.errors.UndefinedTable:
            return []

    return query
