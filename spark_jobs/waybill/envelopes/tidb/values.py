"""What TiCDC's messages say of types, where it is not what Canal's say.

Sources of the rules: TiDB documentation, "TiCDC Canal-JSON Protocol", its sections "MySQL Type
field", "SQL Type field" and "Compatibility with the official Canal"; pingcap/tiflow,
pkg/sink/codec/utils/mysql_types.go (types without sizes) and pkg/sink/codec/canal/canal_entry.go
(the numbers in `sqlType`).

Without `content-compatible`, as by default, a type stands without its size. MySQL takes some of
these names for the smallest type that has it (BIT is BIT(1)), which here they need not be: an ENUM,
a SET or a BIT is then the number that the message holds, and a BINARY has any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from waybill.envelopes.canal.sql_types import SqlTypes
from waybill.values.mysql_types import name_of

if TYPE_CHECKING:
    from waybill.types import LogicalType

_HELD = {
    "enum": "smallint unsigned",
    "set": "bigint unsigned",
    "bit": "bigint unsigned",
    "binary": "varbinary",
}
"""Types without size, and the type of what a message holds of them."""

_SIZED = {"enum": "varchar", "set": "varchar", "bit": "bit(1)", "binary": "varbinary"}
"""The same names as other sources mean them, and what is written for them."""


def type_held(text: str | None, declared: LogicalType | None) -> str | None:
    """MySQL's name of what a column of a message holds.

    Args:
        text: its type in `mysqlType`.
        declared: the type that the migration declares for it, which has the size.
    """
    name = "" if text is None else text.strip().lower()
    if declared is not None and (name in _HELD or name == "decimal"):
        return name_of(declared)
    return _HELD.get(name, text)


def type_to_write(text: str) -> str:
    """`mysqlType` of a column of another source: a name without size would say something else."""
    return _SIZED.get(text.strip().lower(), text)


class TidbSqlTypes(SqlTypes):
    """`sqlType` as TiCDC states it: a SET that is null has the number of any SET."""

    null_set: ClassVar[int | None] = None
