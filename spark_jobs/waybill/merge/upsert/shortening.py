"""Short images (`waybill.merge.short_images`) of many rows, in bulk.

An image is made of pieces that stand side by side: what all rows have in common is one piece, so
rows whose texts are the usual ones cost no more than to compare their columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.merge.short_images import LEFT_OUT, LONGEST, MARK, SHORTEST, STATED
from waybill.merge.standard_texts import standard_texts
from waybill.merge.upsert.images import exact_image

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from waybill.bulk.arena import Mask
    from waybill.merge.columns import MergedColumn

_SPECIAL = r'["\\\x00-\x1f\x7f]'
"""What stands in JSON otherwise than in a text, or may."""


def short_images(
    images: Any,
    columns: Sequence[MergedColumn],
    texts: Sequence[Any],
    values: Sequence[Any],
    others: Mask,
    may_leave_out: Collection[int],
) -> Any:
    """The short forms of full images, null for none.

    Args:
        images: the images, none of which leaves out a column.
        columns: the columns.
        texts: of each column, those of the images.
        values: of each column, as rows have them in the lake.
        others: which images have other columns besides.
        may_leave_out: the places of the columns whose texts may be left out.
    """
    none = pc.is_null(images)
    codes: list[Any] = [
        _codes(found, values[place], column.type, none)
        if place in may_leave_out
        else _stated(found)
        for place, (column, found) in enumerate(zip(columns, texts, strict=True))
    ]
    pieces: list[Any] = []
    for column, code in zip(columns, codes, strict=True):
        comma = "," if pieces else f"{MARK}{{"
        _add(pieces, f"{comma}{_json(column.name)}:")
        _add(pieces, _members(code))
    _add(pieces, "}" if pieces else f"{MARK}{{}}")
    count = len(images)
    parts: list[Any] = [pa.scalar(one) if isinstance(one, str) else one for one in pieces]
    made: Any = (
        pa.repeat(parts[0], count)
        if len(parts) == 1 and isinstance(pieces[0], str)
        else pc.binary_join_element_wise(*parts, "")
    )
    made = pc.if_else(pc.is_valid(images), made, pa.scalar(None, pa.string()))
    places = np.flatnonzero(others)
    if not len(places):
        return made
    row_texts = made.to_pylist()
    names = [column.name for column in columns]
    for row in places.tolist():
        own = {name: code[row].as_py() for name, code in zip(names, codes, strict=True)}
        image = exact_image(images[row].as_py())
        more = {name: None if v is None else f"{STATED}{v}" for name, v in image.items()}
        row_texts[row] = MARK + _json({**more, **own})
    return pa.array(row_texts, pa.string())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _add(pieces: list[Any], piece: Any) -> None:
    if pieces and isinstance(piece, str) and isinstance(pieces[-1], str):
        pieces[-1] += piece
    else:
        pieces.append(piece)


def _stated(texts: Any) -> Any:
    """What short images have of a column whose texts they state; null for null."""
    return pc.binary_join_element_wise(STATED, texts, "")


def _codes(texts: Any, values: Any, type_: str, none: Any) -> Any:
    """What short images have of a column whose texts may be left out; anything where none is."""
    standard = standard_texts(values, type_)
    same = pc.or_(none, pc.fill_null(pc.equal(texts, standard), False))
    left_out: Any = pa.scalar(LEFT_OUT)
    if pc.all(same).as_py() is not False:
        return pa.repeat(left_out, len(texts))
    codes = pc.if_else(same, left_out, _stated(texts))
    if type_ not in ("timestamp", "timestamp_ntz"):
        return codes
    end = "Z" if type_ == "timestamp" else ""
    lengths = pc.utf8_length(texts)
    for length in pc.unique(lengths).drop_null().to_pylist():
        first = length - len(end)
        if not SHORTEST <= first <= LONGEST:
            continue
        cut = pc.binary_join_element_wise(pc.utf8_slice_codeunits(standard, 0, first), end, "")
        begins = pc.fill_null(pc.equal(texts, cut), False)
        begins = pc.and_(begins, pc.invert(same))
        codes = pc.if_else(begins, pa.scalar(f"{LEFT_OUT}{first}{end}"), codes)
    return codes


def _members(codes: Any) -> Any:
    """Codes as JSON: one text where all are the same, else an array."""
    if not len(codes):
        return "null"
    first = codes[0].as_py()
    if first is None:
        same = codes.null_count == len(codes)
    else:
        same = not codes.null_count and bool(pc.all(pc.equal(codes, first)).as_py())
    if same:
        return _json(first)
    odd = pc.fill_null(pc.match_substring_regex(codes, _SPECIAL), False)
    plain = pc.binary_join_element_wise('"', codes, '"', "")
    if pc.any(odd).as_py():
        rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
        written = [_json(code) for code in codes.take(pa.array(rows)).to_pylist()]
        plain = pc.replace_with_mask(plain, odd, pa.array(written, pa.string()))
    return pc.fill_null(plain, "null")
