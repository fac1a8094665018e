"""Tables of the methods whose messages name the types of their columns (Canal and DataWorks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.caches import Bounded
from waybill.envelopes.oms.lobs import forget, untouchable
from waybill.envelopes.oms.type_names import DIALECT, in_notation, logical_type
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.types import UNKNOWN
from waybill.values.generated import unstated
from waybill.values.json_columns import kind_of
from waybill.values.json_rows import RowReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from waybill.envelopes.oms.settings import OmsReadSettings
    from waybill.records import TableSchema
    from waybill.tables import TableName, TableRules
    from waybill.types import LogicalType
    from waybill.values.json_columns import Style
    from waybill.values.json_rows import Row


class TypedTable(NamedTuple):
    """A table as messages describe it.

    Attributes:
        schema: the table.
        reader: reads its rows.
        forget: leaves LOB columns out of both images of an update that did not touch them.
        unstated: gives the columns of a row before an update that the row after it does not tell.
        loose: whether its rows showed columns or types that the messages do not name: then another
            row may be one of another table, although its message says the same about types.
    """

    schema: TableSchema
    reader: RowReader
    forget: Callable[[Any, Any], None]
    unstated: Callable[[Any, Any], list[int]]
    loose: bool


class TypedTables:
    """The tables that a decoder has met.

    A declared type goes before the one that the message names. A column without any is what JSON
    says it is, as in the document's samples, whose rows have other columns than their types.

    Args:
        settings: what null means in a LOB column.
        rules: declared keys and column types.
        style: notations of values.
    """

    def __init__(self, settings: OmsReadSettings, rules: TableRules, style: Style) -> None:
        self.earlier = settings.version == "earlier"
        self.lobs = settings.lobs == "unchanged"
        self.rules = rules
        self.style = style
        self._tables: Bounded[tuple[TableSchema, frozenset[str], bool], TypedTable] = Bounded()

    def find(
        self,
        name: TableName,
        types: Mapping[str, str | None],
        rows: tuple[Row, ...],
        key: tuple[str, ...],
    ) -> TypedTable:
        """The table that a message describes.

        Args:
            name: its name.
            types: the names of types, by column.
            rows: the images of the message.
            key: the key as the message says it; a declared one goes before.

        Raises:
            Refusal: the rows disagree about a type, or lack a key column, or it is named twice.
        """
        rule = self.rules.find(*name)
        names = dict.fromkeys([*types, *(column for row in rows for column in row)])
        self.rules.admit(len(names), *name)
        inferred = set()
        columns = []
        for column in names:
            stated = types.get(column)
            kind = rule.columns.get(column) or logical_type(stated, self.earlier)
            if kind is None:
                inferred.add(column)
                kind = _inferred(column, rows)
            columns.append(Column(column, kind, stated))
        if rule.key is not None:
            key = rule.key
        missing = [column for column in key if column not in names]
        if missing:
            table = ".".join(part for part in name if part)
            sentence = f"the key names {missing[0]!r}, which the row does not have; "
            raise Refusal("key", f"{sentence}declare the key of {table} under tables")
        schema = intern_schema(*name, tuple(columns), key, DIALECT)
        _ = schema.key_places  # refuses a key that names a column twice
        identity = schema, frozenset(inferred), names.keys() > types.keys()
        found = self._tables.get(identity)
        if found is None:
            lobs = untouchable(schema) if self.lobs else ()
            reader = RowReader(in_notation(schema, self.earlier), self.style, identity[1])
            found = self._tables[identity] = TypedTable(
                schema,
                reader,
                forget(lobs),
                unstated(len(columns)),
                bool(inferred) or identity[2],
            )
        return found


def _inferred(name: str, rows: tuple[Row, ...]) -> LogicalType:
    found = {kind_of(row[name]) for row in rows if name in row} - {UNKNOWN}
    if len(found) > 1:
        kinds = " and ".join(sorted(str(kind) for kind in found))
        raise Refusal("schema", f"column {name!r} holds {kinds} in one message; declare its type")
    return found.pop() if found else UNKNOWN
