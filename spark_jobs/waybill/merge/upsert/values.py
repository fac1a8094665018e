"""Texts as values of the lake, in bulk; doubtful ones are left to Spark.

A text is taken here only if it has the one form in which Arrow's cast is exact beyond doubt. All
others, those that `waybill.merge.exact_casts` refuses among them, are doubtful.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.merge.exact_casts import fits
from waybill.merge.upsert.images import text_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from waybill.merge.columns import MergedColumn
    from waybill.merge.upsert.images import ImageTexts

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_FLOAT = r"^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?$"
_PLAIN = {
    "boolean": "^(true|false)$",
    "int": "^-?[0-9]{1,10}$",
    "bigint": "^-?[0-9]{1,19}$",
    "float": _FLOAT,
    "double": _FLOAT,
    "date": f"^{_DAY}$",
    "timestamp_ntz": f"^{_DAY}[T ]{_CLOCK}$",
    "timestamp": f"^{_DAY}[T ]{_CLOCK}Z$",
}
_SURE = {"float": (1e-37, 3.4e38), "double": (1e-307, 1.7e308)}
"""Between these sizes a text has a floating point number next to it, whoever reads it."""

_KINDS: dict[str, Any] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def arrow_schema(types: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of columns of the lake, by their types."""
    fields: list[Any] = [pa.field(name, arrow_type(type_)) for name, type_ in types.items()]
    return pa.schema(fields)


def arrow_type(type_: str) -> Any:
    """The Arrow type of a type of the lake."""
    decimal = _DECIMAL.fullmatch(type_)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _KINDS[type_]


def _plain(type_: str) -> str:
    decimal = _DECIMAL.fullmatch(type_)
    if decimal is None:
        return _PLAIN[type_]
    precision, scale = int(decimal[1]), int(decimal[2])
    fraction = f"([.][0-9]{{1,{scale}}})?" if scale else ""
    return f"^-?[0-9]{{1,{max(1, precision - scale)}}}{fraction}$"


def exact(texts: Any, type_: str) -> tuple[Any, Any]:
    """Texts as values of a type of the lake.

    Args:
        texts: an array of texts and nulls.
        type_: the type, as `waybill.merge.columns` names it.

    Returns:
        The values, and which texts are doubtful, whose values are null.
    """
    if type_ == "string":
        return texts, np.zeros(len(texts), np.bool_)
    if type_ == "binary":
        return _decoded(texts)
    good = pc.fill_null(pc.match_substring_regex(texts, _plain(type_)), False)
    if type_ in ("int", "bigint"):
        # Beyond the type they are not cast but refused.
        good = pc.and_(good, _fitting(texts, type_))
    kind = arrow_type(type_)
    try:
        values = pc.if_else(good, texts, None).cast(kind)
    except pa.ArrowInvalid:
        text_values = texts.to_pylist()
        good = pa.array(
            [
                yes and fits(text or "", type_)
                for yes, text in zip(good.to_pylist(), text_values, strict=True)
            ]
        )
        try:
            values = pc.if_else(good, texts, None).cast(kind)
        except pa.ArrowInvalid:
            good, values = pa.repeat(pa.scalar(False), len(texts)), pa.nulls(len(texts), kind)
    if type_ in _SURE:
        good = pc.and_(good, _sure(values, texts, type_))
        values = pc.if_else(good, values, pa.scalar(None, kind))
    doubtful = pc.and_(pc.is_valid(texts), pc.invert(good))
    return values, doubtful.to_numpy(zero_copy_only=False)


def _sure(values: Any, texts: Any, type_: str) -> Any:
    """Which floating point numbers are far from where rounding makes them zero or infinite."""
    least, most = (pa.scalar(end, values.type) for end in _SURE[type_])
    size = pc.abs(values)
    sized = pc.and_(pc.greater(size, least), pc.less(size, most))
    zero = pc.and_(
        pc.equal(size, pa.scalar(0.0, values.type)),
        pc.invert(pc.match_substring_regex(texts, "^[^eE]*[1-9]")),
    )
    return pc.fill_null(pc.or_(sized, zero), False)


def _fitting(texts: Any, type_: str) -> Any:
    """Integers with so few digits that they fit, or that do fit."""
    digits = 9 if type_ == "int" else 18
    few = pc.fill_null(pc.less_equal(pc.utf8_length(texts), pa.scalar(digits, pa.int32())), False)
    if pc.all(pc.or_(few, pc.is_null(texts))).as_py():
        return few
    fitting = [text is not None and fits(text, type_) for text in texts.to_pylist()]
    return pa.array(fitting, pa.bool_())


def _decoded(texts: Any) -> tuple[Any, Any]:
    import base64

    text_values = texts.to_pylist()
    good = [text is None or (len(text) % 4 == 0 and fits(text, "binary")) for text in text_values]
    values = [
        base64.b64decode(text) if text is not None and yes else None
        for text, yes in zip(text_values, good, strict=True)
    ]
    return pa.array(values, pa.binary()), ~np.array(good, np.bool_)


class TypedImages(NamedTuple):
    """Images as the columns of the lake.

    Attributes:
        values: of each column, null in tombstones.
        doubtful: which rows are: an image leaves out a column, or a text is doubtful.
        texts: what the images say.
    """

    values: list[Any]
    doubtful: Any
    texts: ImageTexts


def typed_columns(images: Any, columns: Sequence[MergedColumn]) -> TypedImages:
    """Images as the columns of the lake.

    Args:
        images: the text images, null for a tombstone.
        columns: the columns.
    """
    texts = text_columns(images, [column.name for column in columns])
    found, doubtful = [], texts.lacking.copy()
    for column, column_texts in zip(columns, texts.columns, strict=True):
        values, odd = exact(column_texts, column.type)
        doubtful |= odd
        found.append(values)
    return TypedImages(found, doubtful, texts)
