"""What a migration's file decides about changes of columns, before they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from waybill.spec.decisions import CLASSES, ColumnDecision, Decisions
from waybill.spec.mapping import Patterns
from waybill.spec.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterable


class SchemaChanges(Model):
    """How [changes of columns](merge.md#schema-changes) of some tables are handled.

    The first entry that names a table decides all of its changes; `stop` waits until a person
    decides.
    """

    tables: Patterns = Field(min_length=1)
    """Names or patterns of tables, as the lake names them."""
    add: Literal["take", "stop"] = "take"
    """A new column."""
    widen: Literal["take", "stop"] = "take"
    """A type that holds more, such as `bigint` after `int`: the column is widened."""
    narrow: Literal["keep", "stop"] = "keep"
    """A type whose values the column can already hold: the column keeps its type."""
    retype: Literal["rewrite", "stop"] = "stop"
    """Any other type, such as `decimal(15,4)` after `decimal(10,2)`: the table is rewritten with
    the type that holds both exactly."""
    rename: Literal["map", "beside", "stop"] = "stop"
    """A new name, by a statement in the stream. `map`: the column gets the new name and keeps its
    values; not for [joined](mapping.md#shards) tables. `beside`: a new column is added beside the
    old one, which keeps the values of earlier rows."""
    drop: Literal["keep", "stop"] = "keep"
    """A column that the source dropped: it stays in the lake, with its values."""
    stops: Literal["table", "migration"] = "table"
    """What `stop` stops: the `table`, which [waits](merge.md#tables-that-wait) with its changes
    while all others continue, or the whole `migration`."""

    def decided(self) -> dict[str, str]:
        """What is decided for each class of changes, by its field."""
        return self.model_dump(include=set(CLASSES))

    def decision(self) -> ColumnDecision:
        """The decision as plain data."""
        return ColumnDecision(**self.decided(), stops_what=self.stops)


def decisions_of(entries: Iterable[SchemaChanges], joined: tuple[str, ...] = ()) -> Decisions:
    """The decisions as plain data.

    Args:
        entries: those of the file.
        joined: names or patterns of the tables that several of the source become.
    """
    return Decisions(tuple((tuple(one.tables), one.decision()) for one in entries), joined)
