"""What a migration declares about tables: keys and column types that the envelope does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from waybill.caches import Bounded
from waybill.counting import counted
from waybill.errors import LimitRefusal
from waybill.name_patterns import is_pattern, matches

if TYPE_CHECKING:
    from waybill.types import LogicalType

MAX_COLUMNS = 10_000
"""How many columns a message may describe unless `max_columns` says otherwise.

What is made once per table costs 1 to 3 KB a column, in Debezium 13, and 50 where an Avro schema
tells how bytes are read: up to a thousand times the bytes that name it in a message."""

TableName = tuple[str | None, str | None, str]
"""Database, schema and table."""


class TableRule(NamedTuple):
    """What is declared for one table.

    Attributes:
        key: names of the key columns, None where nothing is declared.
        columns: declared types by column name.
    """

    key: tuple[str, ...] | None = None
    columns: Mapping[str, LogicalType] = {}


NO_RULE = TableRule()

_Identity = tuple[str | None, str | None, str | None]


class TableRules:
    """Looks up the declaration of a table; patterns may hold `*`, the first that fits wins.

    The very name of a table goes before every pattern, whatever their order.
    """

    def __init__(
        self, rules: Mapping[str, TableRule] | None = None, max_columns: int = MAX_COLUMNS
    ) -> None:
        """See above.

        Args:
            rules: what is declared, by names or patterns of tables.
            max_columns: how many columns a message may describe.
        """
        self.max_columns = max_columns
        self.declared = dict(rules or {})
        self._patterns = [(name, rule) for name, rule in self.declared.items() if is_pattern(name)]
        self._found: Bounded[_Identity, TableRule] = Bounded()

    def find(self, database: str | None, schema: str | None, table: str | None) -> TableRule:
        """The rule for a table, or an empty one."""
        identity = (database, schema, table)
        rule = self._found.get(identity)
        if rule is None:
            rule = self._found[identity] = self._look_up(identity)
        return rule

    def admit(
        self, columns: int, database: str | None, schema: str | None, table: str | None
    ) -> None:
        """Take a message that describes so many columns of a table.

        Raises:
            LimitRefusal: they are more than `max_columns`.
        """
        if columns > self.max_columns:
            name = ".".join(part for part in (database, schema, table) if part)[:200]
            sentence = (
                f"the message describes {counted(columns, 'column')} of "
                f"{name or 'a table without name'}, and max_columns is {self.max_columns}: set "
                "source.max_columns (convert: --max-columns) higher if the table has so many"
            )
            raise LimitRefusal("shape", sentence)

    def _look_up(self, identity: _Identity) -> TableRule:
        database, _schema, table = identity
        names = [".".join(part for part in identity if part)]
        if database and table:
            names.append(f"{database}.{table}")
        for name in names:
            if name in self.declared:
                return self.declared[name]
        for name in names:
            for pattern, rule in self._patterns:
                if matches(name, pattern):
                    return rule
        return NO_RULE
