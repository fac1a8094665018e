"""What of a merged table is compared with what of its source table, and how a row is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.rules import fits
from waybill.spec.mapping import Columns
from waybill.suggestions import unknown
from waybill.verify.canonical import SourceColumn, of_database, of_lake

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.merge.state import MergeState
    from waybill.spec.migration import Migration
    from waybill.verify.database import Database, SourceTable, Texts

Canonical = tuple[str | None, ...]
"""A row as canonical texts, in the order of the columns that are compared."""


class Compared(NamedTuple):
    """One table that is compared.

    Attributes:
        name: the source table's name in the lake.
        lake: full name of the merged table.
        source: the table in the database; None where there is none.
        key: the columns of its key; all columns of a table without one, whose equal rows count.
        keyed: whether it has a key.
        columns: the columns that are compared.
        only_in_lake: columns of the lake that the database does not have (any more).
        mapped: whether the migration maps its columns or chooses its rows, so that it is another
            than the database's by intention.
    """

    name: str
    lake: str
    source: SourceTable | None
    key: tuple[SourceColumn, ...]
    keyed: bool
    columns: tuple[SourceColumn, ...]
    only_in_lake: tuple[str, ...]
    mapped: bool = False


def compared_tables(
    lake: History, spec: Migration, state: MergeState, database: Database, only: str | None
) -> list[Compared]:
    """The tables that are to be compared, as the database describes them now.

    Args:
        lake: the lake.
        spec: the migration, which may say what a table is called in the database.
        state: what the merge knows of the tables.
        database: an open session.
        only: this table; all of them where it is None.

    Raises:
        ConfigurationError: there is no such table, or its key is not in the database.
    """
    merged = lake.merged_tables()
    named = {} if spec.verify is None else spec.verify.tables
    for name in [*named, *([only] if only else [])]:
        if name not in merged:
            raise ConfigurationError(unknown("table", name, list(merged)), code=Code.OPTION)
    found = []
    for name, full in merged.items():
        if only in (None, name):
            one = _compared(name, full, state, database, named.get(name))
            found.append(one._replace(mapped=_is_mapped(spec, one)))
    return found


def _is_mapped(spec: Migration, table: Compared) -> bool:
    """Whether a rule of the migration makes other rows of the table's."""
    parts = () if table.source is None else table.source.parts
    short = ".".join((*table.name.split(".")[:1], *parts[-1:]))
    names = (table.name, ".".join(parts), short)
    return any(
        fits(names, tuple(rule.tables))
        for rule in spec.map
        if rule.where is not None or rule.columns != Columns()
    )


def _compared(
    name: str, full: str, state: MergeState, database: Database, named: str | None
) -> Compared:
    known = state.table(name)
    identity = known.identity or ("", "", name.rsplit(".", 1)[-1])
    source = database.table(identity, named or (None if known.identity else name))
    if source is None:
        return Compared(name, full, None, (), bool(known.key), (), tuple(known.names))
    by_name = {column.name: column for column in source.columns}
    lacking = [column for column in known.key or () if column not in by_name]
    if lacking:
        message = (
            f"the key column {lacking[0]} of {name} is not in the database's table "
            f"{'.'.join(source.parts)}: name the right table under verify.tables"
        )
        raise ConfigurationError(message, code=Code.DATABASE_TABLE)
    key = tuple(by_name[column] for column in known.key or ())
    gone = tuple(column for column in known.names if column not in by_name)
    return Compared(name, full, source, key or source.columns, bool(key), source.columns, gone)


class RowTexts:
    """Makes canonical rows of a table of what either side tells.

    Args:
        table: the table.
    """

    def __init__(self, table: Compared) -> None:
        self._names = [column.name for column in table.columns]
        self._database = [of_database(column) for column in table.columns]
        self._lake = [of_lake(column) for column in table.columns]
        self._key = [self._names.index(column.name) for column in table.key]

    def of_database(self, row: Texts) -> Canonical:
        """A row of the database."""
        return tuple(
            None if text is None else canonical(text)
            for text, canonical in zip(row, self._database, strict=True)
        )

    def of_image(self, image: Mapping[str, str | None]) -> Canonical:
        """A row of the lake; what the source never told of it is null."""
        return tuple(
            None if (text := image.get(name)) is None else canonical(text)
            for name, canonical in zip(self._names, self._lake, strict=True)
        )

    def key(self, row: Canonical) -> str:
        """The key of a row, as JSON."""
        return json.dumps([row[i] for i in self._key], ensure_ascii=False)

    def key_of_image(self, key: Mapping[str, str | None]) -> str:
        """The key of a row that is gone, whose values alone are known."""
        values = [
            None if (text := key.get(self._names[i])) is None else self._lake[i](text)
            for i in self._key
        ]
        return json.dumps(values, ensure_ascii=False)


def digest(row: Canonical | None) -> bytes:
    """128 bits of a row; no two rows that differ have the same, as far as anybody can find one."""
    told = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(told, digest_size=16).digest()


def image_of(text: str | None) -> dict[str, Any]:
    """An image or a key as the lake keeps it."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
