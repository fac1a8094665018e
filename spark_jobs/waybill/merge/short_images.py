"""Text images that leave out what the columns beside them say.

A table whose migration says `lake.text_images: needed` gets images of this short form. It begins
with `~`, and a JSON object of all columns that the image has follows, in which a column has

- `"~"` where its text is the standard text of the value in the column of that name
  (`waybill.merge.standard_texts`);
- `"~19"` where it is the first 19 characters of that, and `"~19Z"` where a Z follows: times are
  stated to the second, or with as many digits as the source has;
- `"=1.10"` where it is 1.10; and null where it is null.

So whoever finds no value where the image leaves a text out knows that the value is gone.

Rows whose texts are the usual ones and that have the same nulls have one and the same image,
which a data file holds once in its dictionary, and a column that an image leaves out is no null.
The full form begins with a brace. One table may hold both, and whoever reads them takes either:
what a row has does not depend on what the migration says by now.

Only a column that is called the same in the source and in the lake is left out, and only where the
lake's type is the very one of the column. So no later change of names or types has to be known to
read it: a column is renamed or rewritten by rows that are rewritten, which state their texts
until a later change writes them once more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.errors import value_lost
from waybill.lake.names import literal, quoted
from waybill.merge.columns import IMAGE, KEY, OWN_COLUMNS
from waybill.merge.standard_texts import has_standard, standard_sql, standard_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Lake
    from waybill.lake.metadata import Metadata
    from waybill.merge.columns import MergedColumn

TEXT_IMAGES = "waybill.text-images"
"""Table property: what the migration says under `lake.text_images`. A table without it has never
held a short image."""
ALL, NEEDED = "all", "needed"

MARK, LEFT_OUT, STATED = "~", "~", "="
"""How a short image begins, a text that it leaves out, and one that it states."""

SHORTEST, LONGEST = 10, 26
"""Characters of a standard text of which an image may have the first ones: from a day to a time
with microseconds."""

MOST = 100
"""Tables of more columns have full images. SQL looks a column up in a map by going through it, for
each column of a row: with a hundred that takes as long as to read the image, and then ever more."""

_ROW, _OF, _LACKS = "the row ", " of {table}", " has no value in its column "
_BECAUSE = (
    ", of which its exact text is made (lake.text_images: needed): another program changed the row "
    "or dropped the column; roll the table back to the snapshot before that, or rebuild it with "
    "`waybill run FILE --reload TABLE`"
)
"""What is said of a value that is gone: the key, the table and the column stand in between."""

MAP_OF_TEXTS = "'map<string,string>', map('maxStringLen', '2147483647')"
"""How Spark reads an image: texts of any length."""


def keep_setting(lake: Lake, table: str, setting: str) -> None:
    """Let a table say what the migration says of text images, before rows are written.

    A table of which that was never anything but `all` says nothing.
    """
    if setting != lake.metadata(table).properties.get(TEXT_IMAGES, ALL):
        lake.set_properties(table, {TEXT_IMAGES: setting})


def may_be_short(properties: Mapping[str, str]) -> bool:
    """Whether a table with such properties may hold short images."""
    return TEXT_IMAGES in properties


def may_leave_out(
    columns: Sequence[MergedColumn], table: Metadata, becomes: Mapping[str, str]
) -> tuple[int, ...] | None:
    """The places of the columns that images of new rows may leave out; None if all are in full.

    Args:
        columns: of the source.
        table: what is known of the table.
        becomes: names that columns of the lake get with these rows (`Branch.becomes`).
    """
    if table.properties.get(TEXT_IMAGES) != NEEDED or len(columns) > MOST:
        return None
    types = table.shape.types
    places = tuple(
        place
        for place, column in enumerate(columns)
        if column.name == column.lake
        and column.lake not in {*becomes, *becomes.values()}
        and types.get(column.lake) == column.type
        and has_standard(column.type)
    )
    return places or None


def short_sql(image: str, values: Mapping[str, tuple[str, str]]) -> str:
    """SQL for the short form of a full image, null for none.

    Args:
        image: SQL of the image.
        values: of the columns that it may leave out, by name: SQL of the value, and its type.
    """
    text = "try_element_at(c, k)"
    code = (
        f"CASE WHEN v = {text} THEN '{LEFT_OUT}' "
        f"WHEN length(v) BETWEEN {SHORTEST} AND {LONGEST} AND v = left({text}, length(v)) "
        f"THEN concat('{LEFT_OUT}', length(v)) "
        f"WHEN length(v) BETWEEN {SHORTEST + 1} AND {LONGEST + 1} "
        f"AND v = concat(left({text}, length(v) - 1), 'Z') "
        f"THEN concat('{LEFT_OUT}', length(v) - 1, 'Z') "
        f"ELSE concat('{STATED}', v) END"
    )
    short = _with_values(
        f"transform_values(from_json({image}, {MAP_OF_TEXTS}), (k, v) -> {code})", values
    )
    return f"CASE WHEN {image} IS NOT NULL THEN concat('{MARK}', {short}) END"


def names_sql(image: str) -> str:
    """SQL for a JSON object whose keys are the columns that an image of either form has."""
    return f"ltrim('{MARK}', {image})"


def full_sql(image: str, values: Mapping[str, tuple[str, str]], row: str) -> str:
    """SQL for the full form of an image of either form; an error where a value is gone.

    Args:
        image: SQL of the image.
        values: see `short_sql`; all that the table has under these names.
        row: SQL that names the row in an error.
    """
    gone = f"raise_error(concat({row}, {literal(_LACKS)}, k, {literal(_BECAUSE)}))"
    text = f"coalesce(try_element_at(c, k), {gone})"
    read = (
        f"CASE WHEN v = '{LEFT_OUT}' THEN {text} "
        f"WHEN startswith(v, '{STATED}') THEN substring(v, 2) "
        f"WHEN v IS NOT NULL THEN concat(left({text}, int(substring(v, 2, 2))), substring(v, 4)) "
        f"END"
    )
    members = f"from_json(substring({image}, 2), {MAP_OF_TEXTS})"
    full = _with_values(f"transform_values({members}, (k, v) -> {read})", values)
    return f"CASE WHEN startswith({image}, '{MARK}') THEN {full} ELSE {image} END"


def _with_values(image: str, values: Mapping[str, tuple[str, str]]) -> str:
    """JSON of an image that is made with `c`, the standard texts by name, which are made once."""
    members = [f"{literal(name)}, {standard_sql(*value)}" for name, value in values.items()]
    texts = f"map({', '.join(members)})" if members else "CAST(map() AS map<string,string>)"
    # What an image does not have is not in the map; a null that is there stays.
    options = "map('ignoreNullFields', 'false')"
    return f"transform(array({texts}), c -> to_json({image}, {options}))[0]"


def stored_values(types: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What images may have left out of rows of a table, as `full_sql` takes it.

    Args:
        types: the types of the table's columns.
    """
    return {
        name: (quoted(name), type_)
        for name, type_ in types.items()
        if name not in OWN_COLUMNS and has_standard(type_)
    }


def types_of(rows: DataFrame) -> dict[str, str]:
    """The types of a frame's columns, as the lake names them."""
    return {field.name: field.dataType.simpleString() for field in rows.schema}


def full_image_sql(lake: Lake, table: str, rows: DataFrame) -> str:
    """SQL for the full image of rows of a table, which have all of its columns.

    It fails where a value is gone, and `waybill.lake.storage_errors` knows the sentence.
    """
    if not may_be_short(lake.metadata(table).properties):
        return IMAGE
    row = f"concat({literal(_ROW)}, coalesce({KEY}, ''), {literal(_OF.format(table=table))})"
    return full_sql(IMAGE, stored_values(types_of(rows)), row)


def with_full_images(lake: Lake, table: str, rows: DataFrame) -> DataFrame:
    """Rows of a table, which have all of its columns, with their images in full."""
    image = full_image_sql(lake, table, rows)
    return rows if image == IMAGE else rows.withColumn(IMAGE, _expression(image))


def written_image(
    lake: Lake, branch: Branch, columns: Iterable[MergedColumn], values: Iterable[str]
) -> str:
    """SQL for what rows that a branch gets have as image, made of `image`.

    Args:
        lake: the lake.
        branch: the branch.
        columns: the table's columns, as they are called on the branch.
        values: SQL of the value of each.
    """
    columns, values = tuple(columns), tuple(values)
    places = may_leave_out(columns, lake.metadata(branch.table), branch.becomes)
    if places is None:
        return "image"
    return short_sql(
        "image", {columns[place].name: (values[place], columns[place].type) for place in places}
    )


def _expression(sql: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(sql)


def image_columns(table: Metadata) -> tuple[str, ...]:
    """The columns of a table that `image_of_row` needs; files of before have those of before."""
    if not may_be_short(table.properties):
        return (IMAGE,)
    shape = table.shape
    every = [shape._replace(schema=schema) for schema in (shape.schema, *shape.schemas)]
    return (IMAGE, *dict.fromkeys(name for one in every for name in stored_values(one.types)))


def image_of_row(row: Mapping[str, Any], table: str) -> dict[str, str | None]:
    """The image of a live row that `History.scan` gave, whichever form it has.

    Args:
        row: the row, with `image_columns`; with its key, an error names it.
        table: full name of the table, for an error.

    Raises:
        LakeError: another program took away a value that the image rests on.
    """
    text = row[IMAGE]
    if not text.startswith(MARK):
        found: dict[str, str | None] = json.loads(text)
        return found
    codes: dict[str, str | None] = json.loads(text[len(MARK) :])
    return {name: _text(name, code, row, table) for name, code in codes.items()}


def full_text_of_row(row: Mapping[str, Any], table: str) -> str:
    """The full form of such an image, as JSON; see `image_of_row`."""
    text: str = row[IMAGE]
    return json.dumps(image_of_row(row, table)) if text.startswith(MARK) else text


def _text(name: str, code: str | None, row: Mapping[str, Any], table: str) -> str | None:
    if code is None:
        return None
    if code.startswith(STATED):
        return code[len(STATED) :]
    text = standard_text(row.get(name))
    if text is None:
        key = row.get(KEY) or ""
        message = f"{_ROW}{key}{_OF.format(table=table)}{_LACKS}{name}{_BECAUSE}"
        raise value_lost(message)
    return text if code == LEFT_OUT else text[: int(code[1:3])] + code[3:]
