"""Columns that go on under another name: `rename: map`.

All that the merge knows of a table bears the names that its columns have now. A change in the log
has those of its time. It is read as if it had the present ones: of every renaming above it, the old
name becomes the new one, from the oldest renaming to the newest. So it makes no difference which
batch brings a change, and names may be swapped, given back, or given to a new column.

Full rows are older than every change and may have been read later than a renaming. Where both
readings of their names are columns of the table, and their place does not tell, the table waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from waybill.errors import Code, SchemaChangeError
from waybill.records import Column, TableSchema, intern_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class Renaming(msgspec.Struct, frozen=True):
    """What a statement renamed.

    Attributes:
        order: the statement's place in the total order.
        names: new names by the old ones, all at once.
        place: topic, partition and offset of the statement.
        after: snapshot of `changes` behind which the batch of the statement begins.
    """

    order: str
    names: dict[str, str]
    place: tuple[str, int, int] = ("", 0, 0)
    after: int | None = None


Renamings = tuple[Renaming, ...]
"""Those of a table, oldest first."""


def above(renamed: Renamings, order: str) -> Renamings:
    """The renamings that changes of an order do not have in their names."""
    return tuple(one for one in renamed if one.order > order)


def present(name: str, renamed: Iterable[Renaming]) -> str:
    """The name that a column has after renamings."""
    for one in renamed:
        name = one.names.get(name, name)
    return name


def present_names(renamed: Iterable[Renaming]) -> dict[str, str]:
    """What renamings, one after the other, make of names: new ones by the old ones, at once."""
    renamed = tuple(renamed)
    found = {old: present(old, renamed) for one in renamed for old in one.names}
    return {old: new for old, new in found.items() if old != new}


def free_names(renamed: Iterable[Renaming]) -> dict[str, str]:
    """The names that no column has any more after renamings, with the orders that freed them."""
    found: dict[str, str] = {}
    for one in renamed:
        found.update(dict.fromkeys(one.names, one.order))
        for new in one.names.values():
            found.pop(new, None)
    return found


def exchanged(renamed: Renamings) -> bool:
    """Whether any renamings in turn gave a column a name that another one had."""
    ends = (present_names(renamed[i:]) for i in range(len(renamed)))
    return any(not names.keys().isdisjoint(names.values()) for names in ends)


def present_schema(schema: TableSchema, renamed: Iterable[Renaming]) -> TableSchema | None:
    """A schema with the names of now; None where two of its columns would have one name."""
    renamed = tuple(renamed)
    names = [present(name, renamed) for name in schema.names]
    if len(set(names)) < len(names):
        return None
    if names == list(schema.names):
        return schema
    columns = tuple(
        Column(name, column.type, column.source_type, column.nullable)
        for name, column in zip(names, schema.columns, strict=True)
    )
    key = None if schema.key is None else tuple(present(name, renamed) for name in schema.key)
    return intern_schema(schema.database, schema.schema, schema.table, columns, key, schema.dialect)


def present_key(text: str, renamed: Iterable[Renaming]) -> str:
    """A key image with the names that its columns have after renamings."""
    renamed = tuple(renamed)
    image = msgspec.json.decode(text, type=dict[str, str | None])
    return msgspec.json.encode({present(n, renamed): v for n, v in image.items()}).decode()


def is_unclear(names: Sequence[str], renamed: Renamings, columns: Collection[str]) -> bool:
    """Whether names may be of before or of after renamings, and mean something else then.

    Args:
        names: of the columns of a row whose order does not tell.
        renamed: the renamings of its table.
        columns: the names of the table's columns now.
    """
    read = {tuple(present(name, renamed[i:]) for name in names) for i in range(len(renamed) + 1)}
    return len([one for one in read if len(set(one)) == len(one) and set(one) <= {*columns}]) > 1


def renaming_error(happened: str, go_on: str) -> SchemaChangeError:
    """A person has to decide about names.

    Args:
        happened: what did.
        go_on: what to do.
    """
    return SchemaChangeError(
        f"{happened}, so it cannot be mapped: {go_on}", code=Code.COLUMN_RENAMED
    )


def instead(table: str) -> str:
    """What to do where names of a table cannot be mapped."""
    return (
        f"set `rename: beside` for {table} under schema_changes, to continue with a new column "
        "beside the old one, or continue under a new migration name"
    )
