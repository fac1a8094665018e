"""What of a merged table is compared with what of its source table, and how a row is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.masks import OF_NO_VALUE, mask_function
from waybill.records import TableSchema
from waybill.suggestions import unknown
from waybill.verify.canonical import (
    SourceColumn,
    as_the_lake_has_it,
    can_be_looked_up,
    has_one_text,
    of_database,
    of_lake,
)
from waybill.verify.condition_texts import row_condition, uncertain_columns
from waybill.verify.mapped_sources import MappedSource, MappedSources
from waybill.verify.newest import label_of

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.mapping.rules import Mask
    from waybill.merge.state import MergeState, TableState
    from waybill.spec.migration import Migration
    from waybill.types import LogicalType
    from waybill.verify.database import Database, SourceTable, Texts

Canonical = tuple[str | None, ...]
"""A row as canonical texts, in the order of the columns that are compared."""


class Compared(NamedTuple):
    """One table of the lake, and the table of the database that it is compared with.

    Attributes:
        name: the table's name in the lake.
        lake: full name of the merged table.
        source: the table in the database; None where there is none.
        key: the columns of its key; all columns of a table without one, whose equal rows count.
        keyed: whether it has a key.
        columns: the columns that are compared, as the database has them.
        only_in_lake: columns of the lake that the database does not have (any more).
        names: what the lake calls the columns.
        dropped: columns that `map` drops.
        masked: columns that `map` masks and that cannot be compared, as their values may be written
            in several ways.
        where: the condition of `map` that rows have to meet, and the schema that it is about as
            JSON; None where all rows are taken.
        read: the columns that are read from the database: those that are compared, and behind them
            what the condition asks for.
        shard: column and value that tell the lake's rows of this source table from those of others
            that become the same table; None where it is the only one.
        why_not: why it cannot be compared; empty where it can.
        is_skipped: whether it is not compared by intent, and nothing is wrong.
        lake_key: the key in the lake, which may have the column of `shard` as well.
        masks: what hides the values of each column in the lake, None where nothing does.
    """

    name: str
    lake: str
    source: SourceTable | None
    key: tuple[SourceColumn, ...]
    keyed: bool
    columns: tuple[SourceColumn, ...]
    only_in_lake: tuple[str, ...]
    names: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    where: tuple[str, bytes] | None = None
    read: tuple[SourceColumn, ...] = ()
    shard: tuple[str, str] | None = None
    why_not: str = ""
    is_skipped: bool = False
    lake_key: tuple[str, ...] = ()
    masks: tuple[Mask | None, ...] = ()

    @property
    def key_is_masked(self) -> bool:
        """Whether rows of the database cannot be looked up by the keys that the lake has."""
        return self.keyed and self._has_masks_in_key

    @property
    def is_looked_up(self) -> bool:
        """Whether rows of the database are looked up by the keys that the lake has.

        Otherwise the whole table is read, as the database would not find some of them.
        """
        return self.keyed and not self._has_masks_in_key and all(map(can_be_looked_up, self.key))

    @property
    def _has_masks_in_key(self) -> bool:
        masked = {c for c, mask in zip(self.columns, self.masks, strict=True) if mask is not None}
        return not masked.isdisjoint(self.key)

    @property
    def key_has_one_text(self) -> bool:
        """Whether a key of the database is written as messages write it, whatever they are."""
        return all(map(has_one_text, self.key))

    @property
    def shown(self) -> frozenset[str] | None:
        """The columns whose values people may see, as the lake calls them; None where all are.

        Where `map` masks a column, the lake may have its values from before, also under a name that
        the column had: so only what is compared and has no mask is among them.
        """
        if not self.masked and all(mask is None for mask in self.masks):
            return None
        plain = {n for n, mask in zip(self.names, self.masks, strict=True) if mask is None}
        return frozenset(plain if self.shard is None else {*plain, self.shard[0]})

    def place_of(self, key: str) -> str:
        """What a row is kept under by its key: a digest where the key has masked values.

        Args:
            key: as `CanonicalRows.key` writes it.
        """
        return digest((key,)).hex() if self._has_masks_in_key else key

    def key_in_lake(self, values: list[str | None]) -> dict[str, str | None]:
        """A key as the lake has it.

        Args:
            values: of the columns of `key`.
        """
        places = {column: place for place, column in enumerate(self.columns)}
        names = [self.names[places[column]] for column in self.key]
        by_name = dict(zip(names, values, strict=True))
        if self.shard is not None:
            by_name[self.shard[0]] = self.shard[1]
        return {name: by_name[name] for name in self.lake_key or names}

    @property
    def source_name(self) -> str | None:
        """What messages call it, where it is one of several that become the same table."""
        return None if self.shard is None else self.shard[1]

    @property
    def label(self) -> str:
        """Tells it from others that become the same table."""
        return label_of(self.name, self.source_name)


NO_TABLE = (
    "the database has no such table, or does not show it to this user: name it under verify.tables "
    "if it has another name, or grant the right to read it"
)


def compared_tables(
    lake: History, spec: Migration, state: MergeState, database: Database, only: str | None
) -> list[Compared]:
    """The tables that are to be compared, as the database describes them now.

    What the database refuses to tell of a table, or what does not fit there, is that table's
    `why_not`.

    Args:
        lake: the lake.
        spec: the migration, which may say what a table is called in the database.
        state: what the merge knows of the tables.
        database: an open session.
        only: this table; all of them where it is None.

    Raises:
        ConfigurationError: `only` or the migration names a table that the lake does not have.
    """
    merged = lake.merged_tables()
    named = {} if spec.verify is None else spec.verify.tables
    for name in [*named, *([only] if only else [])]:
        if name not in merged:
            raise ConfigurationError(unknown("table", name, list(merged)), code=Code.OPTION)
    sources = MappedSources(spec, database)
    found = []
    for name, full in merged.items():
        if only in (None, name):
            known, why_not = state.table(name), NO_TABLE
            of_database: list[MappedSource] = []
            try:
                of_database = sources.of(name, known.identity, named.get(name))
            except ConfigurationError as error:
                why_not = str(error)
            found += [_compared(name, full, known, one) for one in of_database]
            if not of_database:
                keyed, names = bool(known.key), tuple(known.names)
                found.append(Compared(name, full, None, (), keyed, (), names, why_not=why_not))
    return found


def _compared(name: str, full: str, known: TableState, one: MappedSource) -> Compared:
    source, mapped = one
    held = {column.name: column.type for column in known.columns}
    made = {}
    for column in source.columns:
        now = mapped.column(column.name)
        # A mask makes text of whatever it hides.
        lake_type = "" if now is None or now.mask is not None else held.get(now.name, "")
        made[as_the_lake_has_it(column, lake_type)] = now
    becomes = {column: now for column, now in made.items() if now is not None}
    types = {column.name: column.type for column in mapped.source.columns}
    columns = {
        column: now
        for column, now in becomes.items()
        if _is_comparable(now.mask, column, types[column.name])
    }
    by_name = {now.name: column for column, now in columns.items()}
    join = mapped.join
    of_shard = () if join is None else (join.column,)
    wanted = [column for column in known.key or () if column not in of_shard]
    lacking = [column for column in wanted if column not in by_name]
    dropped = tuple(column.name for column, now in made.items() if now is None)
    masked = tuple(now.name for column, now in becomes.items() if column not in columns)
    gone = tuple(n for n in known.names if n not in {*by_name, *dropped, *masked, *of_shard})
    found = Compared(
        name,
        full,
        source,
        tuple(by_name[column] for column in wanted if column in by_name) or tuple(columns),
        bool(wanted),
        tuple(columns),
        gone,
        tuple(now.name for now in columns.values()),
        dropped,
        masked,
        shard=None if join is None else (join.column, mapped.source.qualified_name),
        lake_key=known.key or (),
        masks=tuple(now.mask for now in columns.values()),
    )
    if set(lacking) & set(masked):
        why_not = f"not compared, because map masks its key, and {_SEVERAL_TEXTS}"
        return found._replace(why_not=why_not, is_skipped=True)
    if lacking:
        why_not = (
            f"the key column {lacking[0]} of {name} is not in the database's table "
            f"{'.'.join(source.parts)}: name the right table under verify.tables"
        )
        return found._replace(why_not=why_not)
    if one.where is None:
        return found._replace(read=found.columns)
    others = tuple(column for column in made if column not in columns)
    read = (*columns, *others)
    found = found._replace(read=read, where=(one.where, mapped.source.to_json()))
    uncertain = uncertain_columns(one.where, mapped.source, read)
    if uncertain:
        why_not = (
            f"not compared, because the condition of map asks for {', '.join(uncertain)}, and "
            "messages may write such values in several ways: declare the column under tables with "
            "the database's own type if there is one, or let the condition ask for another column"
        )
        return found._replace(why_not=why_not, is_skipped=True)
    return found


_SEVERAL_TEXTS = "its values may be written in several ways, each with a hash of its own"


def _is_comparable(mask: Mask | None, column: SourceColumn, declared: LogicalType) -> bool:
    """Whether what a mask makes of the database's value is what it made of the message's."""
    if mask is None or mask.kind in OF_NO_VALUE:
        return True
    return has_one_text(column) and has_one_text(column._replace(type=declared))


class CanonicalRows:
    """Makes canonical rows of a table of what either side tells.

    Args:
        table: the table.
    """

    def __init__(self, table: Compared) -> None:
        self._names = table.names
        self._database = [of_database(column) for column in table.columns]
        masks = table.masks or (None,) * len(table.columns)
        self._masks = [(i, mask_function(mask)) for i, mask in enumerate(masks) if mask is not None]
        self._lake = [
            of_lake(column) if mask is None else str
            for column, mask in zip(table.columns, masks, strict=True)
        ]
        places = {column: place for place, column in enumerate(table.columns)}
        self._key = [places[column] for column in table.key]
        self._holds: Callable[[Texts], bool] | None = None
        if table.where is not None:
            text, described = table.where
            self._holds = row_condition(text, TableSchema.from_json(described), table.read)

    def of_database(self, row: Texts) -> Canonical | None:
        """A row of the database; None where the migration does not take it."""
        if self._holds is not None and not self._holds(row):
            return None
        # What only the condition asks for stands behind the columns that are compared.
        texts = tuple(
            None if text is None else canonical(text)
            for text, canonical in zip(row, self._database, strict=False)
        )
        if not self._masks:
            return texts
        masked = list(texts)
        for place, mask in self._masks:
            text = masked[place]
            masked[place] = None if text is None else mask(text)
        return tuple(masked)

    def of_image(self, image: Mapping[str, str | None]) -> Canonical:
        """A row of the lake; what the source never stated of it is null."""
        return tuple(
            None if (text := image.get(name)) is None else canonical(text)
            for name, canonical in zip(self._names, self._lake, strict=True)
        )

    def key(self, row: Canonical) -> str:
        """The key of a row, as JSON."""
        return json.dumps([row[i] for i in self._key], ensure_ascii=False)

    def has_key(self, key: Mapping[str, str | None]) -> bool:
        """Whether a key image has the columns of the key."""
        return all(self._names[i] in key for i in self._key)

    def key_of_image(self, key: Mapping[str, str | None]) -> str:
        """The key of a row that is gone, whose values alone are known."""
        values = [
            None if (text := key.get(self._names[i])) is None else self._lake[i](text)
            for i in self._key
        ]
        return json.dumps(values, ensure_ascii=False)


def digest(row: Canonical | None) -> bytes:
    """128 bits of a row; no two rows that differ have the same, as far as anybody can find one."""
    encoded = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()


def image_of(text: str | None) -> dict[str, Any]:
    """An image or a key as the lake keeps it."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
