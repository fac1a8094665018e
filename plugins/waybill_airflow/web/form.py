"""The trigger form of a migration's DAG on our pages, so that a button can fill it in.

Airflow's own form cannot be opened filled in by an address. The fields are those of the DAG, and
what is sent goes to Airflow's own API with the user's own login, which checks rights and values and
writes its audit log.
"""

from __future__ import annotations

from typing import NamedTuple

from waybill_airflow.params import trigger_form


class Field(NamedTuple):
    """A field of the form.

    Attributes:
        name: of the parameter.
        title: for people.
        kind: `choice`, `tick` or `text`.
        default: what is sent where nobody changes it; empty for nothing.
        options: what may be chosen, as value and words.
        help: a sentence.
    """

    name: str
    title: str
    kind: str
    default: str
    options: list[tuple[str, str]]
    help: str


def form_fields() -> list[Field]:
    """The fields, in the order of the DAG's."""
    return [_field(name, param.value, param.schema) for name, param in trigger_form().items()]


def _field(name: str, value: object, schema: dict[str, object]) -> Field:
    choices = schema.get("enum")
    words = schema.get("values_display")
    options = [
        (str(choice), str(words[choice]) if isinstance(words, dict) else str(choice))
        for choice in (choices if isinstance(choices, list) else [])
    ]
    kind = "choice" if options else "tick" if schema.get("type") == "boolean" else "text"
    default = "" if value in (None, False) else str(value)
    description = str(schema.get("description_md", ""))
    return Field(name, str(schema.get("title", name)), kind, default, options, description)
