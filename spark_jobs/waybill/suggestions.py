"""Says which known name a person probably meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: the nearest known name, or all of them if none is near."""
    names = list(known)
    near = get_close_matches(name, names, n=1) or [k for k in names if k.lower() == name.lower()]
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; nothing can be set here"


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """A sentence about a name that means nothing."""
    hint = did_you_mean(name, known) if known else "; there is none yet"
    return f"there is no {what} {name!r}{hint}"


def fields_at(model: Any, location: tuple[str | int, ...]) -> list[str]:
    """The field names that a model allows at a place inside it."""
    at = _models(model)
    for part in location:
        inner: list[Any] = []
        for candidate in at:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                known = candidate.model_fields.get(str(part))
                inner += _models(known.annotation) if known else []
            else:
                inner += _models(get_args(candidate)[-1])
        at = inner
    return [
        name
        for candidate in at
        if isinstance(candidate, type) and issubclass(candidate, BaseModel)
        for name in candidate.model_fields
    ]


def _models(annotation: Any) -> list[Any]:
    """What an annotation can hold that has places inside: models, lists and mappings."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return [model for argument in get_args(annotation) for model in _models(argument)]
    if origin in (list, dict) or (
        isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ):
        return [annotation]
    return []
