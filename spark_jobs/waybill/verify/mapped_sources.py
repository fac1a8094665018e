"""Which tables of the database a merged table is made of, and what `map` makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.mapping.table import MappedTable
from waybill.records import Column, intern_schema
from waybill.spec.mapping import rules_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.records import TableSchema
    from waybill.spec.migration import Migration
    from waybill.verify.database import Database, SourceTable

Identity = tuple[str, str, str]
"""Database, schema and table as messages name them, empty where there is none."""


class MappedSource(NamedTuple):
    """A table of the database that becomes a merged one, alone or with others."""

    table: SourceTable
    mapped: MappedTable

    @property
    def keeps_its_name(self) -> bool:
        """Whether the lake calls it as the messages do."""
        return self.mapped.schema.qualified_name == self.mapped.source.qualified_name

    @property
    def where(self) -> str | None:
        """The condition that its rows have to meet."""
        return self.mapped.where


class MappedSources:
    """Finds the tables of the database by the names that the lake gives them.

    Args:
        spec: the migration.
        database: an open session.

    Raises:
        ConfigurationError: a connection with the key of a mask is missing, or has no password.
    """

    def __init__(self, spec: Migration, database: Database) -> None:
        self._database = database
        self._rules = rules_of(spec.select, spec.map)
        self._declared = spec.rules
        self._tables: list[tuple[Identity, tuple[str, ...]]] | None = None

    def of(self, name: str, identity: Identity | None, named: str | None) -> list[MappedSource]:
        """The tables that become a merged one; none where the database has none.

        Args:
            name: of the merged table.
            identity: its names in the messages, as they are after `map`; None where no message with
                a row has come.
            named: its name in the database, if the migration says it.
        """
        known = identity or ("", "", name.rsplit(".", 1)[-1])
        if named is None and (self._rules.renames or self._rules.joins):
            found = list(self._by_rules(name))
            # One that has the name already is another table: `map` gives no two tables one name.
            renamed = [one for one in found if not one.keeps_its_name]
            return renamed or found
        source = self._database.table(known, named or (None if identity else name))
        if source is None:
            return []
        by_parts = self._database.identity(source.parts)
        return [self._mapped(by_parts if self._names(by_parts) else known, source)]

    def _names(self, identity: Identity) -> bool:
        """Whether a rule names a table."""
        return bool(self._rules.rules_of(_schema(identity)))

    def _by_rules(self, name: str) -> Iterator[MappedSource]:
        """Those of all tables that get a name by the rules."""
        if self._tables is None:
            self._tables = [
                (identity, parts)
                for parts in self._database.tables()
                for identity in _identities(self._database.identity(parts))
            ]
        found = set()
        for identity, parts in self._tables:
            schema = _schema(identity)
            if parts in found or not self._rules.selects(schema):
                continue
            made = MappedTable(schema, self._rules.rules_of(schema))
            if made.schema.qualified_name == name:
                source = self._database.table(identity, None)
                if source is not None:
                    found.add(parts)
                    yield self._mapped(identity, source)

    def _mapped(self, identity: Identity, source: SourceTable) -> MappedSource:
        database, own, table = identity
        types = self._declared.find(database or None, own or None, table).columns
        # A declared type is what conditions and masks are given in the lake, too.
        columns = tuple(
            Column(column.name, types.get(column.name, column.type), column.declared, True)
            for column in source.columns
        )
        schema = _schema(identity, columns, self._database.kind)
        return MappedSource(source, MappedTable(schema, self._rules.rules_of(schema), types))


def _identities(whole: Identity) -> list[Identity]:
    """How messages may name a table: with its database, or with its schema alone."""
    return [whole, *([("", *whole[1:])] if whole[1] else [])]


def _schema(identity: Identity, columns: tuple[Column, ...] = (), dialect: str = "") -> TableSchema:
    database, schema, table = identity
    return intern_schema(database or None, schema or None, table, columns, None, dialect)
