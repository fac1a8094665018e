"""Texts of images as values of the lake's columns, in SQL: exactly, or not at all."""

from __future__ import annotations

_DATE = r"-?[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
SHAPES = {
    "date": f"^{_DATE}$",
    "timestamp_ntz": f"^{_DATE}([T ]{_TIME})?$",
    "timestamp": f"^{_DATE}[T ]{_TIME}Z$",
}
"""What the texts of a type of time look like, as a regular expression; a date is its midnight."""


def value_sql(text: str, type_: str) -> str:
    """SQL for the value of a text, null if the text is no value of the type.

    Args:
        text: SQL of the text.
        type_: a type of `waybill.merge.columns.lake_type`.
    """
    if type_ == "string":
        return text
    if type_ == "boolean":
        return f"CASE {text} WHEN 'true' THEN true WHEN 'false' THEN false END"
    if type_ == "binary":
        # Without the length Spark also takes texts that were cut off in their padding.
        return f"CASE WHEN length({text}) % 4 = 0 THEN try_to_binary({text}, 'base64') END"
    cast = f"try_cast({text} AS {type_})"
    if type_ in SHAPES:
        return f"CASE WHEN {text} RLIKE '{SHAPES[type_]}' THEN {cast} END"
    if type_ in ("float", "double"):
        # Too large becomes infinite and too small becomes zero: neither is the value.
        return (
            f"CASE WHEN abs({cast}) = {type_}('Infinity') AND instr({text}, 'I') = 0 THEN NULL "
            f"WHEN {cast} = 0 AND {text} RLIKE '^[^eE]*[1-9]' THEN NULL ELSE {cast} END"
        )
    if type_.startswith("decimal"):
        scale = int(type_.rstrip(")").split(",")[1])
        point = f"instr({text}, '.')"
        return (
            f"CASE WHEN {text} RLIKE '[eE]' THEN NULL "
            f"WHEN {point} = 0 OR length({text}) - {point} <= {scale} "
            f"OR length(rtrim('0', {text})) - {point} <= {scale} THEN {cast} END"
        )
    return cast
