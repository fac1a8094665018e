"""The settings of writing that have few values, for tests that try each of them."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import random

    from waybill.protocol import Envelope


def choices(annotation: Any) -> list[Any]:
    """The values of a setting that has few of them."""
    if annotation is bool:
        return [False, True]
    found = []
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is Literal:
            found += typing.get_args(part)
    return found


def choosable(envelope: Envelope) -> dict[str, list[Any]]:
    """Such settings of an envelope, each with its values."""
    fields = envelope.encode_settings.model_fields
    found = {name: choices(field.annotation) for name, field in fields.items()}
    return {name: values for name, values in found.items() if values}


def chosen(envelope: Envelope, dice: random.Random, never: tuple[str, ...] = ()) -> dict[str, Any]:
    """Some of them, with any of their values."""
    return {
        name: dice.choice(values)
        for name, values in choosable(envelope).items()
        if name not in never and dice.random() < 0.6
    }
