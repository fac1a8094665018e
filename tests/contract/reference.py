"""The tables of pages that come from other code than declarations: error codes, fields."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from waybill.errors import Code
from waybill.spec import mapping, values
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

TYPES = {
    values.ColumnType: "column type",
    values.FilePlace: "path or URL",
    values.LengthOfTime: "length of time",
    values.MigrationName: "name",
    values.Schedule: "cron text or preset",
    values.SparkSettings: "settings",
    values.Start: "`earliest`, `latest`, time or offsets",
    values.End: "time or offsets",
    mapping.Patterns: "name or pattern, or a list of them",
    mapping.MaskRule: "`null`, `sha256`, `last4`, or fields",
    mapping.AddedColumn: (
        "`database`, `schema`, `table`, `source_time`, `operation`, `sequence`, or fields"
    ),
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    Any: "any",
}
"""What types of fields are called on the page."""

FILLED_IN = {(Migration, "lake"): "see `lake`"}
"""Defaults that reading the file fills in, where the model has none."""


def heading(code: Code) -> str:
    """The heading of a code's section in the runbook."""
    return f"{code.label}: {code.title}"


def anchor(title: str) -> str:
    """Where a link to a heading goes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def codes() -> str:
    """Every code with a link to its section."""
    lines = ["| code | what happened |", "|---|---|"]
    lines += [f"| [{code}](#{anchor(heading(code))}) | {code.title} |" for code in Code]
    return "\n".join(lines) + "\n"


def fields() -> str:
    """Every field of a migration with its type, its default and its meaning."""
    parts: list[str] = []
    paths: dict[type[BaseModel], str] = {}
    for path, model in _models("", Migration):
        paths.setdefault(model, path)
    among = Counter(paths.values())
    for model, path in paths.items():
        title = f"`{path}`" if path else "The migration"
        if among[path] > 1:
            # Several models fit there, and the first field shows which one it is.
            title = f"{title} (`{next(iter(model.model_fields))}`)"
        parts += [f"### {title}", "", _said(model.__doc__), ""]
        parts += ["| field | type | default | meaning |", "|---|---|---|---|"]
        hints = get_type_hints(model, include_extras=True)
        for name, field in model.model_fields.items():
            default = FILLED_IN.get((model, name)) or _default(field)
            meaning = meanings(model)[name]
            parts.append(
                f"| `{field.alias or name}` | {_typed(hints[name])} | {default} | {meaning} |"
            )
        parts.append("")
    return "\n".join(parts)


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """A model and, below it, those of its fields, each with the path of its fields."""
    yield path, model
    for name, hint in get_type_hints(model, include_extras=True).items():
        for inner, below in _inner(hint) if name in model.model_fields else ():
            yield from _models(f"{path}.{name}{below}".lstrip("."), inner)


def _inner(hint: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """The model in a field's type, and how its place is written below the field."""
    if get_origin(hint) is Annotated:
        yield from _inner(get_args(hint)[0])
    elif isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint, ""
    elif get_origin(hint) in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _inner(part)
    elif get_origin(hint) in (list, dict):
        below = "[]" if get_origin(hint) is list else ".NAME"
        yield from ((model, f"{below}{more}") for model, more in _inner(get_args(hint)[-1]))


def _typed(hint: Any) -> str:
    """A type in words."""
    if hint in TYPES:
        return TYPES[hint]
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_typed(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is list:
        return f"list of {_typed(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"by {_key(get_args(hint)[0])}: {_typed(get_args(hint)[1])}"
    assert issubclass(hint, BaseModel), hint
    return "fields"


def _key(hint: Any) -> str:
    return "stage" if get_origin(hint) is Literal else "name"


def _default(field: FieldInfo) -> str:
    """A default as a file writes it; what has none and is optional stays empty."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ({}, [], ""):
        return ""
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`[{', '.join(value)}]`" if isinstance(value, list) else f"`{value}`"


@cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What each field of a model means: the text below it in the model.

    Raises:
        KeyError: by whoever looks up a field that has none.
    """
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            body = ast.parse(inspect.getsource(parent)).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, text in zip(body.body, body.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    assert isinstance(field.target, ast.Name)
                    assert isinstance(text.value, ast.Constant)
                    found[field.target.id] = _said(text.value.value)
    return found


def _said(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
