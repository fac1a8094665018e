"""Rewrites a table whose columns get types that they cannot be promoted to, or other names.

Every row is copied on the branch, with the values of these columns made again from its text image:
exactly, or not at all. Where names change, text images and keys get the new ones.
(`waybill.lake.future_columns` tells how columns become visible.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from waybill.errors import Code, ReconciliationError
from waybill.lake.future_columns import GONE, future_name, is_future, left_behind
from waybill.lake.names import quoted
from waybill.merge import columns as own
from waybill.merge.renamed_texts import renamed_keys, renamed_text
from waybill.merge.renamings import present_names
from waybill.merge.short_images import with_full_images, written_image
from waybill.merge.typed_columns import typed, value_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column as Expression

    from waybill.lake import Branch, Lake
    from waybill.merge.columns import MergedColumn
    from waybill.merge.renamings import Renaming
    from waybill.merge.state import TableState


def add_future(lake: Lake, table: str, column: str, type_: str, there: Mapping[str, str]) -> str:
    """Give a table the column that will take the place of another one.

    Args:
        lake: the lake.
        table: full name.
        column: the column whose place it takes.
        type_: its type.
        there: the types of the columns that are there.

    Returns:
        The name that it has until then.
    """
    name = future_name(column)
    alter = f"ALTER TABLE {quoted(*table.split('.'))}"
    if name in there and there[name] != type_:
        # Of a merge that was killed, and found another type; main has nothing in it.
        lake.spark.sql(f"{alter} DROP COLUMN {quoted(name)}")
    if there.get(name) != type_:
        lake.spark.sql(f"{alter} ADD COLUMN {quoted(name)} {type_}")
    return name


def drop_future(lake: Lake, table: str) -> None:
    """Take away the columns that waited for a branch; call it when the branch is dropped."""
    names = [name for name in lake.metadata(table).shape.types if is_future(name)]
    if names:
        listed = ", ".join(quoted(name) for name in names)
        lake.spark.sql(f"ALTER TABLE {quoted(*table.split('.'))} DROP COLUMNS ({listed})")


def staged_state(state: TableState, becomes: Mapping[str, str]) -> TableState:
    """What is known of a table, with the names that its columns have on the branch."""
    if not becomes:
        return state
    waiting = {name: future for future, name in becomes.items() if name != GONE}
    columns = tuple(c._replace(lake=waiting.get(c.lake, c.lake)) for c in state.columns)
    return msgspec.structs.replace(state, columns=columns)


def without_old(branch: Branch) -> dict[str, Expression]:
    """What rows of a branch have in columns that go when it becomes visible: nothing."""
    names = branch.read().columns if branch.becomes else []
    return dict.fromkeys(left_behind(names, branch.becomes), F.lit(None))


def rewrite(
    lake: Lake,
    branch: Branch,
    qualified: str,
    columns: tuple[MergedColumn, ...],
    renamings: Iterable[Renaming] = (),
) -> int:
    """Copy the rows of a table on its branch, with some of its columns made of the text images.

    Args:
        lake: the lake.
        branch: the branch.
        qualified: the source table.
        columns: the table's columns, as they are called on the branch.
        renamings: what the batch renamed; text images and keys get the new names.

    Returns:
        How many rows and tombstones were copied.

    Raises:
        ReconciliationError: a row's text is not a value of the new type; nothing was written.
    """
    if branch.begins_empty:
        return 0
    rows = with_full_images(lake, branch.table, branch.read())
    names = rows.columns
    if renamed := present_names(renamings):
        texts = {name: renamed_text(F.col(name), renamed) for name in (own.KEY, own.IMAGE)}
        rows = rows.withColumns({**texts, own.SOURCES: renamed_keys(F.col(own.SOURCES), renamed)})
    made = [column for column in columns if column.lake in branch.becomes]
    # A column of the source may have any name, so a row is kept together.
    whole = rows.select(
        F.struct(*(F.col(quoted(name)) for name in names)).alias("row"),
        F.col(own.IMAGE).alias("image"),
        (~F.col(own.DELETED)).alias("live"),
    )
    valued = typed(whole, made)
    odd = valued.where("misfit").select(F.col("row").getField(own.KEY)).first()
    if odd is not None:
        listed = " and ".join(f"{column.name} as {column.type}" for column in made)
        message = (
            f"{qualified} cannot be rewritten with {listed}: the row {odd[0]} has a text that is "
            "no such value; nothing of this batch was merged: set `retype: stop` for the table "
            "under schema_changes, or continue under a new migration name"
        )
        raise ReconciliationError(message, code=Code.COLUMN_TYPE)
    stays = [column for column in columns if column not in made]
    texts_of = [quoted("row", column.lake) for column in stays]
    value = {
        **{column.lake: F.col(value_name(i)) for i, column in enumerate(made)},
        own.IMAGE: F.expr(written_image(lake, branch, stays, texts_of)),
    }
    dropped = left_behind(names, branch.becomes)
    return branch.overwrite(
        valued.select(
            *(
                (
                    F.lit(None).cast(rows.schema[name].dataType)
                    if name in dropped
                    else value.get(name, F.col("row").getField(name))
                ).alias(name)
                for name in names
            )
        ),
        F.lit(True),
    )
