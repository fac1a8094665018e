"""Texts as values of a lake column: exactly, or not at all.

The rule of `waybill.values.lake_values` in Python; a test holds the two against each other.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from waybill.types import MOST_DIGITS
from waybill.values.lake_values import SHAPES

if TYPE_CHECKING:
    from waybill.merge.columns import MergedColumn

_FINER = re.compile(r"(.+[.][0-9]{6})([0-9]*[1-9])0*(Z?)")
_DECLARED = {"timestamp_ntz": "timestamp", "timestamp": "timestamptz"}
_NUMBER = re.compile(r"-?(\d+)(?:\.(\d+))?", re.ASCII)
_FLOAT = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity", re.ASCII)
_LARGEST = {"float": 3.4028235677973366e38, "double": float("inf")}


def fits(text: str, type_: str) -> bool:
    """Whether a text is a value of a lake type."""
    if type_ == "string":
        return True
    if type_ in SHAPES:
        return re.match(SHAPES[type_], text) is not None and _is_moment(text)
    if type_ == "boolean":
        return text in ("true", "false")
    if type_ == "binary":
        return _is_base64(text)
    if type_ in ("float", "double"):
        return _is_float(text, type_)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return False
    if type_ in ("int", "bigint"):
        bits = 31 if type_ == "int" else 63
        return match[2] is None and -(2**bits) <= int(text) < 2**bits
    precision, scale = (int(n) for n in re.findall(r"\d+", type_))
    return (
        len((match[2] or "").rstrip("0")) <= scale
        and len(match[1].lstrip("0")) <= precision - scale
    )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_float(text: str, type_: str) -> bool:
    if not _FLOAT.fullmatch(text):
        return False
    if text.endswith(("NaN", "Infinity")):
        return True
    value = abs(float(text))
    digits = re.split("[eE]", text)[0]
    smallest = 7.006492321624086e-46 if type_ == "float" else 0.0
    return value < _LARGEST[type_] and (value > smallest or not re.search("[1-9]", digits))


def _is_moment(text: str) -> bool:
    sign = -1 if text.startswith("-") else 1
    parts = [int(n) for n in re.findall(r"\d+", text.split(".")[0])]
    year, month, day = sign * parts[0], parts[1], parts[2]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    limits = (24, 60, 60)
    clock = all(n < limit for n, limit in zip(parts[3:], limits, strict=False))
    return 1 <= month <= 12 and 1 <= day <= lengths[month - 1] and clock


def misfit(image: Mapping[str, str | None], columns: Iterable[MergedColumn]) -> str | None:
    """The sentence that says which value does not fit its column, None if all fit."""
    for column in columns:
        text = image.get(column.name)
        if text is not None and not fits(text, column.type):
            return misfit_sentence(column, text)
    return None


def misfit_sentence(column: MergedColumn, text: str) -> str:
    """Why a text was refused by its column."""
    shown = text if len(text) <= 60 else f"{text[:57]}…"
    sentence = f"column {column.name} is {column.type} in the lake and cannot hold {shown!r}"
    finer = _FINER.fullmatch(text)
    if column.type not in _DECLARED or finer is None:
        return sentence
    if not fits(f"{finer[1]}{finer[3]}", column.type):
        return sentence
    digits = min(6 + len(finer[2]), MOST_DIGITS)
    return (
        f"{sentence}: declare the column as {_DECLARED[column.type]}({digits}), which keeps every "
        "digit as text, under a new migration name if the table is in the lake already"
    )
