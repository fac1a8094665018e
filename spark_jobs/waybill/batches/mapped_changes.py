"""Rows of `changes` as a mapping makes them.

Names of tables and what is left out are worked out once for each schema and set for all rows
together. Only rows of tables whose columns change are looked at individually.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.batches.message_rows import CHANGE, changes_of, text_of
from waybill.lake_columns import MESSAGE_PLACE, TABLE_PARTS
from waybill.mapping.carried import STATEMENTS, carried_with, without_statements
from waybill.mapping.changes import (
    NO_TABLE_RULES,
    OF_STATEMENTS,
    OF_TABLES,
    STATEMENT,
    ChangeMapper,
)
from waybill.mapping.column_history import NO_HISTORY
from waybill.mapping.shards import EMPTIED, VOID
from waybill.mapping.table import ChangeContext
from waybill.order import read_order_key
from waybill.records import NO_TABLE as NOWHERE
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from waybill.mapping.changes import Bags
    from waybill.mapping.column_history import ColumnHistory
    from waybill.mapping.rules import Rules
    from waybill.mapping.shards import EmptiedShards, Floor, Several
    from waybill.mapping.table import MappedTable
    from waybill.records import TableSchema
    from waybill.tables import TableRules


_EDITED = ("before", "after", "key", "old_key", "extra", "ddl_text")
"""Columns that a mapping edits row by row."""


class MappedRows(NamedTuple):
    """Rows of `changes` as they become.

    Attributes:
        rows: all of them; those that are left out are not meant to be read.
        why: for each row why it is left out (the class of the refusal where it is refused), null
            where it is taken.
        sentences: for each row why it is refused, null where it is not.
        emptied: by number of a row which of the joined tables it empties; a row that is taken has
            a schema of its own then, which no other row may have stated.
    """

    rows: pa.Table
    why: pa.Array[Any]
    sentences: pa.Array[Any]
    emptied: dict[int, tuple[EmptiedShards, ...]]


class MappedChanges:
    """Maps rows of `changes`; keeps what it has learnt, so one serves one task.

    Args:
        rules: the mapping.
        schemas: the schemas of the rows by id; may grow.
        declared: see `ChangeMapper`.
        floors: where joined tables were emptied before, by the source's names.
        by_source_time: whether times order what has no sequence id.
        bags: see `ChangeMapper`.
        history: see `ChangeMapper`.

    Attributes:
        schemas: those of the mapped rows by id, as far as they were met.
    """

    def __init__(
        self,
        rules: Rules,
        schemas: dict[str, TableSchema],
        declared: TableRules = NO_TABLE_RULES,
        floors: Mapping[str, Floor] = MappingProxyType({}),
        by_source_time: bool = False,
        bags: Bags = None,
        history: ColumnHistory = NO_HISTORY,
    ) -> None:
        self._floors, self._by_source_time = floors, by_source_time
        self._emptied: dict[int, tuple[EmptiedShards, ...]] = {}
        self.mapping = ChangeMapper(rules, declared, bags, history)
        self._given = schemas
        self.schemas: dict[str, TableSchema] = {}
        self._found: dict[str, MappedTable | None] = {}

    def table(self, schema_id: str) -> MappedTable | None:
        """What becomes of the table of a schema; None where it is left out."""
        if schema_id not in self._found:
            mapped = self._found[schema_id] = self.mapping.of(self._given[schema_id])
            if mapped is not None:
                self.schemas[mapped.schema.id] = mapped.schema
        return self._found[schema_id]

    @property
    def tables(self) -> list[MappedTable]:
        """What becomes of the tables that were met and are taken."""
        return [mapped for mapped in self._found.values() if mapped is not None]

    def left_out(self, schema_id: str) -> str | None:
        """Why changes of the table of a schema are left out, None where they are taken."""
        if self.table(schema_id) is not None:
            return None
        return self.mapping.rules.left_out(self._given[schema_id])

    def map(self, rows: pa.Table) -> MappedRows:
        """What becomes of some rows.

        Args:
            rows: with any of the columns of `changes`, but at least those of `CHANGE`.
        """
        ids: Any = rows.column("schema_id").combine_chunks().dictionary_encode()
        found = [self.table(one) for one in ids.dictionary.to_pylist()]
        indices: Any = pc.fill_null(ids.indices, len(found))
        numbers = np.asarray(indices).astype(np.int64)
        why = np.full(len(numbers), None, object)
        reasons = [self.left_out(one) for one in ids.dictionary.to_pylist()]
        why[:] = np.array([*reasons, None], object)[numbers]
        sentences = np.full(len(numbers), None, object)
        self._emptied = {}
        if self.mapping.rules.hides_columns:
            self._check_statements(rows)
        several = self._several(rows) if self.mapping.rules.joins else {}
        if self.mapping.rules.shows_less:
            self._hide(rows, found, numbers, why)
            rows = _without_statements(rows)
        if self._floors:
            self._void(rows, found, numbers, why)
        asked = np.array([m is not None and m.holds is not None for m in found] + [False], np.bool_)
        apart = asked[numbers] & (why != VOID)
        if apart.any():
            rows = self._one_by_one(rows, apart, why, sentences)
        changed = np.array([m is not None and not m.same for m in found] + [False], np.bool_)
        if changed.any():
            rows = self._changed(rows, found, numbers, changed, why, apart)
        if self.mapping.maps_statements:
            rows = self._elsewhere(rows, found, numbers, why)
        for place, one in several.items():
            rows = self._apart(rows, place, one, why)
        arrays = [pa.array(texts, pa.string()) for texts in (why, sentences)]
        return MappedRows(rows, arrays[0], arrays[1], self._emptied)

    def _check_statements(self, rows: pa.Table) -> None:
        """See that no statement takes a column away from what hides it, of any table."""
        for _, operation, text, schema in self._statements_of(rows):
            self.mapping.check_statement(operation, text, schema)

    def _several(self, rows: pa.Table) -> dict[int, Several]:
        """By number of a row, what a statement means that empties several tables."""
        found = {
            place: self.mapping.several(operation, text, schema)
            for place, operation, text, schema in self._statements_of(rows)
        }
        return {place: one for place, one in found.items() if one is not None}

    def _statements_of(self, rows: pa.Table) -> Iterator[tuple[int, str, str, TableSchema]]:
        """Numbers, operations, texts and schemas of rows with statements."""
        if "ddl_text" not in rows.schema.names:
            return
        asked: Any = pc.is_valid(rows.column("ddl_text"))
        places = np.flatnonzero(np.asarray(asked))
        columns = [_taken(rows, name, places) for name in ("operation", "ddl_text", "schema_id")]
        for place, operation, text, schema_id in zip(places.tolist(), *columns, strict=True):
            yield place, operation, text, self._given.get(schema_id, NOWHERE)

    def _apart(self, rows: pa.Table, place: int, several: Several, why: Any) -> pa.Table:
        """Rows with a statement about those of its tables that stay tables of their own."""
        self._emptied[place] = several.emptied
        why[place] = EMPTIED if several.rest is None else None
        if several.rest is None:
            return rows
        schema = several.rest.schema
        self.schemas[schema.id] = schema
        now = {name: getattr(schema, name) for name in TABLE_PARTS}
        now |= {"schema_id": schema.id, "ddl_text": several.text, "extra": None}
        for name, text in now.items():
            if name in rows.schema.names:
                rows = _set(rows, name, np.array([place]), [text])
        return rows

    def _hide(
        self, rows: pa.Table, found: list[MappedTable | None], numbers: Any, why: Any
    ) -> None:
        """Say of events that they may show rows of which something is left out.

        Args:
            rows: all rows.
            found: what becomes of each schema.
            numbers: for each row the number of its schema.
            why: for each row why it is left out.
        """
        if not {"extra", "ddl_text"} <= set(rows.schema.names):
            return
        named = [None if m is None else m.source for m in found] + [NOWHERE]
        kinds: Any = pc.is_in(rows.column("operation"), value_set=pa.array(OF_STATEMENTS))
        places = np.flatnonzero(np.asarray(kinds))
        columns = [_taken(rows, name, places) for name in ("operation", "ddl_text", "extra")]
        for place, operation, text, extra in zip(places.tolist(), *columns, strict=True):
            source = named[numbers[place]]
            if source and self.mapping.hides(operation, source, text, extra):
                why[place] = STATEMENT

    def _void(
        self, rows: pa.Table, found: list[MappedTable | None], numbers: Any, why: Any
    ) -> None:
        """Say of rows of joined tables that they are from before their table was emptied.

        Args:
            rows: all rows.
            found: what becomes of each schema.
            numbers: for each row the number of its schema.
            why: for each row why it is left out.
        """
        names = [None if m is None or m.join is None else m.source.qualified_name for m in found]
        floors = [None if name is None else self._floors.get(name) for name in names] + [None]
        places = np.flatnonzero(np.array([floor is not None for floor in floors])[numbers])
        if not len(places):
            return
        asked = ("operation", "outcome", "order_key")
        operations, outcomes, orders = (_taken(rows, name, places) for name in asked)
        stand = zip(*(_taken(rows, name, places) for name in MESSAGE_PLACE), strict=True)
        placed = zip(places.tolist(), orders, _micros(rows, places), stand, strict=True)
        for (number, order, time, place), outcome, operation in zip(
            placed, outcomes, operations, strict=True
        ):
            floor = floors[numbers[number]]
            if floor is None or outcome != "ok" or operation not in ROW_OPERATIONS:
                continue
            if floor.voids(order, time, place, self._by_source_time):
                why[number] = VOID

    def _one_by_one(self, rows: pa.Table, apart: Any, why: Any, sentences: Any) -> pa.Table:
        """Rows with what becomes of those whose table has a condition.

        Args:
            rows: all rows.
            apart: which of them these are; loses those that are refused or wait.
            why: for each row why it is left out.
            sentences: for each row why it is refused.
        """
        there = rows.schema.names
        if "outcome" in there:
            ok: Any = pc.equal(rows.column("outcome"), pa.scalar("ok"))
            apart &= np.asarray(ok)
        places = np.flatnonzero(apart)
        edited: dict[str, list[str | None]] = {
            name: [] for name in (*_EDITED, "operation") if name in there
        }
        if not len(places):
            return rows
        numbers: Any = pa.array(places)
        chosen = rows.select(CHANGE.names).take(numbers).combine_chunks()
        number = 0
        for batch in chosen.to_batches():
            for change in changes_of(batch, self._given):
                made, reason, sentence, emptied = self.mapping.map(change)
                why[places[number]], sentences[places[number]] = reason, sentence
                if emptied:
                    self._emptied[int(places[number])] = emptied
                for name, texts in edited.items():
                    texts.append(None if made is None else text_of(made, name))
                number += 1
        left_out = np.array([why[place] is not None for place in places.tolist()])
        kept = places[~left_out]
        for name, texts in edited.items():
            left = [text for text, out in zip(texts, left_out.tolist(), strict=True) if not out]
            rows = _set(rows, name, kept, left)
        return rows

    def _changed(
        self,
        rows: pa.Table,
        found: list[MappedTable | None],
        numbers: Any,
        changed: Any,
        why: Any,
        done: Any,
    ) -> pa.Table:
        """Rows with what becomes of those of tables that change.

        Args:
            rows: all rows.
            found: what becomes of each schema.
            numbers: for each row the number of its schema.
            changed: for each schema whether anything changes.
            why: for each row why it is left out; takes statements that cannot be written.
            done: for each row whether all but its names is done.
        """
        now = [None if m is None else m.schema for m in found] + [None]
        mine = pa.array(changed[numbers])
        for name in (*TABLE_PARTS, "schema_id"):
            if name not in rows.schema.names:
                continue
            texts = [
                None if s is None else s.id if name == "schema_id" else getattr(s, name)
                for s in now
            ]
            values = pa.array(texts, pa.string()).take(pa.array(numbers))
            rows = with_column(rows, name, pc.if_else(mine, values, rows.column(name)))
        whole = np.array([m is not None and not m.columns_stay for m in found] + [False], np.bool_)
        images = np.flatnonzero(whole[numbers] & ~done)
        if len(images):
            rows = self._images(rows, [found[n] for n in numbers[images].tolist()], images)
        named = np.flatnonzero(changed[numbers] & ~done)
        of = [found[n] for n in numbers[named].tolist()]
        if "extra" in rows.schema.names:
            rows = _edited(rows, "extra", named, of, _extra)
        return self._statements(rows, named, of, why)

    def _elsewhere(
        self, rows: pa.Table, found: list[MappedTable | None], numbers: Any, why: Any
    ) -> pa.Table:
        """Rows with statements of tables that stay as they are, which may name others."""
        if "ddl_text" not in rows.schema.names:
            return rows
        every = [*found, self.mapping.of(NOWHERE)]
        same = np.array([m is not None and m.same for m in every], np.bool_)[numbers]
        of_tables = pc.is_in(rows.column("operation"), value_set=pa.array(OF_TABLES))
        asked: Any = pc.and_(pc.is_valid(rows.column("ddl_text")), of_tables)
        places = np.flatnonzero(np.asarray(asked) & same)
        places = np.array([place for place in places.tolist() if why[place] is None], np.int64)
        before = _taken(rows, "ddl_text", places)
        rows = self._statements(rows, places, [every[n] for n in numbers[places].tolist()], why)
        after = _taken(rows, "ddl_text", places)
        pairs = zip(places.tolist(), before, after, strict=True)
        other = np.array([place for place, one, now in pairs if one != now], np.int64)
        if not len(other) or "extra" not in rows.schema.names:
            return rows
        of = [every[n] for n in numbers[other].tolist()]
        return _edited(rows, "extra", other, of, lambda text, m: carried_with(text.encode(), m))

    def _statements(
        self, rows: pa.Table, named: Any, of: list[MappedTable | None], why: Any
    ) -> pa.Table:
        if "ddl_text" not in rows.schema.names:
            return rows
        operations = rows.column("operation")
        is_ddl = pc.equal(operations, pa.scalar("ddl"))
        has_text: Any = pc.or_(is_ddl, pc.is_valid(rows.column("ddl_text")))
        among = np.asarray(has_text)[named]
        joined = np.array([m is not None and m.join is not None for m in of], np.bool_)
        if joined.any():
            about = np.asarray(pc.is_in(operations, value_set=pa.array(OF_TABLES)))
            among |= about[named] & joined
        if not among.any():
            return rows
        places = named[among]
        tables = [mapped for mapped, is_one in zip(of, among.tolist(), strict=True) if is_one]
        texts = _taken(rows, "ddl_text", places)
        kinds = _taken(rows, "operation", places)
        self._of_shards(places, tables, kinds, texts, why)
        made = [
            None if m is None else self.mapping.statement(text, m)
            for m, text in zip(tables, texts, strict=True)
        ]
        for place, text, kind in zip(places.tolist(), made, kinds, strict=True):
            if text is None and kind != "truncate" and why[place] is None:
                why[place] = STATEMENT
        return _set(rows, "ddl_text", places, made)

    def _of_shards(
        self,
        places: Any,
        tables: list[MappedTable | None],
        kinds: list[str],
        texts: list[str | None],
        why: Any,
    ) -> None:
        """Say what becomes of TRUNCATEs and statements of joined tables.

        Args:
            places: numbers of their rows.
            tables: what becomes of the table of each.
            kinds: operation of each.
            texts: statement of each.
            why: for each row of all why it is left out.
        """
        for place, mapped, kind, text in zip(places.tolist(), tables, kinds, texts, strict=True):
            joined = None if mapped is None else self.mapping.joined(kind, text, mapped)
            if joined is None:
                continue
            result = self.mapping.of_shard(kind, text, joined)
            if result.why is not None:
                why[place] = result.why
            if result.emptied:
                self._emptied[place] = result.emptied

    def _images(self, rows: pa.Table, of: list[MappedTable | None], places: Any) -> pa.Table:
        """Rows with the mapped images and keys of some."""
        events = self._events(rows, places)
        there = rows.schema.names
        after = _taken(rows, "after", places) if "after" in there else [None] * len(places)
        for name in ("before", "after"):
            if name not in there:
                continue
            texts = after if name == "after" else _taken(rows, name, places)
            alone = [None if name == "after" else row_after is None for row_after in after]
            made = [
                None
                if text is None or mapped is None
                else mapped.image_text(text, event, is_alone).decode()
                for text, mapped, event, is_alone in zip(texts, of, events, alone, strict=True)
            ]
            rows = _set(rows, name, places, made)
        for name in ("key", "old_key"):
            if name in there:
                rows = _edited(rows, name, places, of, _key)
        return rows

    @staticmethod
    def _events(rows: pa.Table, places: Any) -> list[ChangeContext]:
        operations = _taken(rows, "operation", places)
        nothing: list[Any] = [None] * len(places)
        times = nothing
        if "source_time" in rows.schema.names:
            times = _micros(rows, places)
        orders = _taken(rows, "order_key", places) if "order_key" in rows.schema.names else nothing
        return [
            ChangeContext(operation, time, None if order is None else read_order_key(order)[0])
            for operation, time, order in zip(operations, times, orders, strict=True)
        ]


def _extra(text: str, mapped: MappedTable) -> bytes | None:
    return text.encode() if mapped.schema_stays else carried_with(text.encode(), mapped)


def _without_statements(rows: pa.Table) -> pa.Table:
    """Rows without the statements that made them; see `waybill.mapping.carried`."""
    if "extra" not in rows.schema.names:
        return rows
    extra: Any = rows.column("extra")
    asked: Any = pc.fill_null(pc.match_substring_regex(extra, STATEMENTS), False)
    if "outcome" in rows.schema.names:
        # What is no change has other things there, such as a schema.
        asked = pc.and_(asked, pc.equal(rows.column("outcome"), pa.scalar("ok")))
    places = np.flatnonzero(np.asarray(asked))
    if not len(places):
        return rows
    operations = _taken(rows, "operation", places)
    texts: list[str | None] = [
        without_statements(text.encode(), operation in ROW_OPERATIONS).decode()
        for text, operation in zip(_taken(rows, "extra", places), operations, strict=True)
    ]
    return _set(rows, "extra", places, texts)


def _key(text: str, mapped: MappedTable) -> bytes | None:
    return mapped.key_text(text)


def _edited(
    rows: pa.Table,
    name: str,
    places: Any,
    of: list[MappedTable | None],
    edit: Callable[[str, MappedTable], bytes | None],
) -> pa.Table:
    """Rows with some texts of a column edited."""
    made: list[str | None] = []
    for text, mapped in zip(_taken(rows, name, places), of, strict=True):
        edited = None if text is None or mapped is None else edit(text, mapped)
        made.append(None if edited is None else edited.decode())
    return _set(rows, name, places, made)


def _taken(rows: pa.Table, name: str, places: Any) -> list[Any]:
    return rows.column(name).take(pa.array(places)).to_pylist()


def _micros(rows: pa.Table, places: Any) -> list[int | None]:
    return rows.column("source_time").take(pa.array(places)).cast(pa.int64()).to_pylist()


def _set(rows: pa.Table, name: str, places: Any, texts: list[str | None]) -> pa.Table:
    """Rows with other texts in some places of a column."""
    chosen = np.zeros(rows.num_rows, np.bool_)
    chosen[places] = True
    mask: Any = pa.array(chosen)
    column = rows.column(name).combine_chunks()
    return with_column(rows, name, pc.replace_with_mask(column, mask, pa.array(texts, column.type)))


def with_column(rows: pa.Table, name: str, column: Any) -> pa.Table:
    """Rows with other values in a column."""
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at).with_type(column.type), column)
