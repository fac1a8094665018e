"""The rows of a record: that in `data`, and the row before, which is stated in two forms.

It stands in an object of its own, or in columns of `data` whose names have a prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from waybill.envelopes.dms.values import contradicted, differing
from waybill.errors import Refusal
from waybill.values.json_rows import Row, RowReader, row_of

if TYPE_CHECKING:
    from waybill.envelopes.dms.settings import DmsSettings

_NULL = Raw(b"null")


class Images(NamedTuple):
    """The rows of a record: that in `data`, and both forms of the one before."""

    data: Row
    old: Row
    prefixed: Row


def images_of(operation: str, top: dict[str, Raw], settings: DmsSettings) -> Images:
    """The rows of a record.

    Args:
        operation: what happened to the row, as the record says it.
        top: the fields of the record, `data` among them.
        settings: where the row before stands.

    Raises:
        Refusal: kind `shape`, when there is none, or one too many.
    """
    field, prefix = settings.before_field, settings.before_prefix
    data, before = row_of(top["data"], "data"), top.get(field, _NULL)
    old = {} if before == _NULL else row_of(before, field)
    data, prefixed = parted(data, prefix)
    if not data and (operation != "delete" or not (old or prefixed)):
        raise Refusal("shape", f"operation {operation} of a row without columns in data")
    if operation in ("update", "delete"):
        return Images(data, old, prefixed)
    # Nulls alone are no row; DMS adds such columns to all of its records.
    if any(raw != _NULL for raw in old.values()):
        sentence = f"operation {operation} with a row in {field}"
        raise Refusal("shape", f"{sentence}, which only updates and deletes have")
    refuse_before(prefixed, prefix, f"operation {operation}", "data")
    return Images(data, {}, {})


def refuse_before(prefixed: Row, prefix: str, what: str, where: str) -> None:
    """Refuse columns of a row before where there is none; nulls tell nothing."""
    for name, raw in prefixed.items():
        if raw != _NULL:
            sentence = f"{what} with column {prefix + name!r} in {where}, which is one of a row "
            sentence += "before, and only updates and deletes have that; set before_prefix to an "
            sentence += "empty text if columns of the table begin so"
            raise Refusal("shape", sentence)


def parted(data: Row, prefix: str) -> tuple[Row, Row]:
    """The columns of the row, and those of the row before, which have the prefix."""
    if not prefix:
        return data, {}
    before = {n[len(prefix) :]: raw for n, raw in data.items() if n.startswith(prefix)}
    if not before:
        return data, {}
    return {n: raw for n, raw in data.items() if not n.startswith(prefix)}, before


def check_agreement(
    reader: RowReader, images: Images, operation: str, settings: DmsSettings
) -> None:
    """See that no column is stated in two ways, of which one would vanish.

    Raises:
        Refusal: kind `shape`, when one is.
    """
    field, columns = settings.before_field, f"the columns with {settings.before_prefix}"
    if images.old and images.prefixed:
        one, other = reader.image(images.old), reader.image(images.prefixed)
        refuse_disagreement(reader, differing(one, other), operation, field, columns)
    if operation != "delete":
        return
    data = reader.image(images.data)
    # Beside a value, a null in data is what was not logged.
    for old, what in ((images.old, field), (images.prefixed, columns)):
        if old:
            found = contradicted(data, reader.image(old))
            refuse_disagreement(reader, found, operation, "data", what)


def refuse_disagreement(
    reader: RowReader, place: int, operation: str, one: str, other: str
) -> None:
    """Refuse a record two of whose rows disagree about a column, if they do."""
    if place >= 0:
        column = reader.schema.names[place]
        sentence = f"operation {operation}: {one} and {other} disagree about column {column!r}"
        raise Refusal("shape", f"{sentence}, which has one value before the change")
