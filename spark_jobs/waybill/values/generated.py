"""Functions made once per table schema, so that no row pays for what the schema decides.

The source of a generated function holds nothing but numbered field names (`f0`, `f1`, …) and
numbered helpers; names and texts of a message never get into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from msgspec import UNSET

from waybill.caches import Bounded

MAX_FEW = 1_000
FEW = frozenset({"int8", "uint8", "boolean"})
"""Kinds of types that have few values."""

Fields = Mapping[int, Callable[[str], str]]
"""Converters by column number; columns without one are copied."""


def function(header: str, lines: list[str], names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function `header` with `lines` as its body, see `later`.

    Args:
        header: name and parameters, e.g. `read(image)`.
        lines: the body, indented relative to itself.
        names: what the body may call.
    """
    return later(header, lines, {"UNSET": UNSET, **names})


def later(header: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A function that is compiled when it is first called.

    Messages of ever new columns make functions for each of their tables, most of which are never
    called: compiling one takes a thousand times as long as reading what it is made for.

    Args:
        header: name and parameters, without defaults.
        lines: the body, indented relative to itself.
        scope: its global names, which may still grow.
    """
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    source = f"def {header}:\n{body}\n"
    name = header.partition("(")[0]
    made = FunctionType(_first_call.__code__, scope, name)

    def compiled() -> Callable[..., Any]:
        found: dict[str, Any] = {}
        exec(_code(source), scope, found)
        # The same function goes on with its own code, so that later calls cost nothing more.
        made.__code__ = found[name].__code__
        made.__kwdefaults__ = None
        return made

    made.__kwdefaults__ = {"compiled": compiled}
    return made


def _first_call(*arguments: Any, compiled: Callable[[], Callable[..., Any]]) -> Any:
    return compiled()(*arguments)


_codes: Bounded[str, CodeType] = Bounded()


def _code(source: str) -> CodeType:
    # Every task of a worker makes its own functions, of the same source.
    code = _codes.get(source)
    if code is None:
        code = _codes[source] = compile(source, "<generated>", "exec")
    return code


class Few(dict[str, Any]):
    """Keeps what is made of the texts of a column that has few values.

    Args:
        make: from a text to what is kept; it may refuse.
    """

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, text: str) -> Any:
        made = self.make(text)
        if len(self) < MAX_FEW:
            self[text] = made
        return made


def converters(fields: Fields) -> dict[str, Callable[[str], str]]:
    """The converters under the names that generated bodies call them by."""
    return {f"c{i}": convert for i, convert in fields.items()}


def converter(fields: Fields) -> Callable[[Any], None] | None:
    """A function that converts the texts of an image in place; None if there is nothing to do."""
    lines = []
    for i in fields:
        lines += [f"v = image.f{i}", f"if v.__class__ is str: image.f{i} = c{i}(v)"]
    if not lines:
        return None
    return function("convert(image)", lines, converters(fields))


def overlay(columns: int, fields: Fields) -> Callable[[Any, Any], None]:
    """A function that completes an image of changed columns from the row after the change.

    It works in place, and converts the texts that the image of changed columns held.
    """
    lines = []
    for i in range(columns):
        lines += [f"v = old.f{i}", f"if v is UNSET: old.f{i} = new.f{i}"]
        if i in fields:
            lines += [f"elif v is not None: old.f{i} = c{i}(v)"]
    return function("overlay(old, new)", lines, converters(fields))


def unstated(columns: int) -> Callable[[Any, Any], list[int]]:
    """A function that gives the columns of `old` that `new` does not tell."""
    lines = ["found = []"]
    for i in range(columns):
        lines.append(f"if new.f{i} is UNSET and old.f{i} is not UNSET: found.append({i})")
    return function("unstated(old, new)", [*lines, "return found"], {})


def difference(columns: int, fields: Fields) -> Callable[[Any, Any, Any], None]:
    """A function that puts the columns that a change touched, as they were, into an empty image."""
    lines = []
    for i in range(columns):
        value = f"c{i}(v) if v.__class__ is str else v" if i in fields else "v"
        lines += [
            f"v = before.f{i}",
            f"if v != after.f{i} and v is not UNSET: old.f{i} = {value}",
        ]
    return function("difference(before, after, old)", lines, converters(fields))


def gaps(columns: int) -> Callable[[Any], bool]:
    """A function that tells whether an image lacks a column."""
    test = " or ".join(f"image.f{i} is UNSET" for i in range(columns)) or "False"
    return function("gaps(image)", [f"return {test}"], {})


def nulls(columns: int) -> Callable[[Any], bool]:
    """A function that tells whether a value of an image is null."""
    test = " or ".join(f"image.f{i} is None" for i in range(columns)) or "False"
    return function("nulls(image)", [f"return {test}"], {})


def picker(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives the values of some fields of an image, e.g. of its key."""
    values = "".join(f"image.{field}, " for field in fields)
    return function("pick(image)", [f"return ({values})"], {})


def fill(image: Any, other: Any) -> None:
    """Take the columns that an image lacks from another one, where that has them."""
    for field in image.__struct_fields__:
        if getattr(image, field) is UNSET:
            setattr(image, field, getattr(other, field))
