"""`waybill envelopes`."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import TYPE_CHECKING, Any

from msgspec import structs

from waybill.cli.output import console, print_json, print_table, printable
from waybill.envelopes import registry
from waybill.protocol import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from waybill.protocol import Envelope

FULL, PARTLY, NOT = "yes", "partly", "-"

GAP = 3
"""Columns between the columns of a table."""


def envelopes_command(name: str | None, as_json: bool) -> None:
    """Print the matrix of all envelopes, or one of them."""
    if name is not None:
        described = describe(registry.get(name))
        if as_json:
            print_json([described])
        else:
            _print_one(described)
        return
    envelopes = registry.all_envelopes()
    if as_json:
        print_json(describe(envelope) for envelope in envelopes)
        return
    out = console()
    fold = out.is_terminal
    for block in blocks(envelopes, out.width):
        rows: list[list[str]] = [
            ["reads", *("yes" if e.decoder else NOT for e in block)],
            ["writes", *("yes" if e.encoder else NOT for e in block)],
        ]
        rows += [
            [capability.replace("_", " "), *(carried(e, capability) for e in block)]
            for capability in CAPABILITIES
        ]
        print_table(["can carry", *(heading(e) if fold else e.name for e in block)], rows)
    out.print("waybill envelopes NAME shows the limits and the settings of one.", style="dim")


def blocks(envelopes: Sequence[Envelope], width: int) -> list[list[Envelope]]:
    """The envelopes in as few tables as fit the width, of about equal size.

    A pipe is wide enough for all of them.
    """
    words = max(len(capability) for capability in CAPABILITIES) + GAP
    column = max(len(line) for e in envelopes for line in heading(e).split("\n")) + GAP
    most = max(1, (width - words) // column)
    tables = -(-len(envelopes) // most)
    each = -(-len(envelopes) // tables)
    return [list(envelopes[at : at + each]) for at in range(0, len(envelopes), each)]


def heading(envelope: Envelope) -> str:
    """A name in two lines, so that more of them stand side by side."""
    return envelope.name.replace("-", "-\n", 1)


def carried(envelope: Envelope, capability: str) -> str:
    """How much of a capability a written message carries: yes, partly or -."""
    if capability in envelope.partly:
        return PARTLY
    return FULL if capability in envelope.carries else NOT


def describe(envelope: Envelope) -> dict[str, Any]:
    """The declaration of an envelope as plain data."""
    return {
        "name": envelope.name,
        "title": envelope.title,
        "source": envelope.source,
        "reads": envelope.decoder is not None,
        "writes": envelope.encoder is not None,
        "sequence": envelope.sequence,
        "key_by": envelope.key_by,
        "pairs": envelope.pairs,
        "carries": {name: carried(envelope, name) for name in CAPABILITIES},
        "brings": sorted(envelope.brings),
        "not_written": dict(envelope.not_written),
        "limits": dict(envelope.partly),
        "limits_of_settings": [
            {**structs.asdict(limit), "text": str(limit)} for limit in envelope.limits
        ],
        "decode_settings": settings_of(envelope.decode_settings),
        "encode_settings": settings_of(envelope.encode_settings),
    }


def settings_of(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The settings of an envelope: name, type, default and what they mean."""
    documented = _attribute_docs(model)
    properties = model.model_json_schema().get("properties", {})
    found = []
    for name, known in model.model_fields.items():
        schema = properties.get(name, {})
        found.append(
            {
                "name": name,
                "type": _type_text(known.annotation),
                "choices": schema.get("enum") or [],
                "default": None if known.is_required() else _default_of(known, schema),
                "required": known.is_required(),
                "meaning": known.description or documented.get(name, ""),
            }
        )
    return found


def _default_of(known: FieldInfo, schema: dict[str, Any]) -> Any:
    """A default as plain data; the schema of a model has none that is made each time."""
    return schema.get("default", known.get_default(call_default_factory=True))


def _type_text(annotation: Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return text.replace("typing.", "")


def _attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The strings that stand below the fields of a model."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if cls.__module__.split(".")[0] != "waybill":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, text in itertools.pairwise(statements):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                # As one line: where it breaks decides who prints it.
                found[field.target.id] = " ".join(text.value.value.split())
    return found


def _meaning(described: dict[str, Any], capability: str) -> str:
    """What a capability means, or its limit, and what settings leave of it."""
    parts = [described["limits"].get(capability, CAPABILITIES[capability])]
    if capability in described["brings"]:
        parts.append("read, and not written")
    limits = described["limits_of_settings"]
    parts += [limit["text"] for limit in limits if limit["capability"] == capability]
    return "; ".join(parts)


def _print_one(described: dict[str, Any]) -> None:
    out = console()
    out.print(described["name"], style="bold")
    for label, key in (
        ("", "title"),
        ("source", "source"),
        ("order", "sequence"),
        ("message key", "key_by"),
    ):
        if described[key]:
            start = f"{label}: " if label else ""
            out.print(f"{start}{printable(described[key])}", markup=False)
    ways = [way for way in ("reads", "writes") if described[way]]
    out.print(f"Waybill {' and '.join(ways)} it.")
    print_table(
        ["can carry", "", "what it means, and the limit"],
        [
            [name.replace("_", " "), how, _meaning(described, name)]
            for name, how in described["carries"].items()
        ],
    )
    if described["not_written"]:
        print_table(
            ["not written", "meaning"],
            [[name, sentence] for name, sentence in described["not_written"].items()],
        )
    for side, key in (("from", "decode_settings"), ("to", "encode_settings")):
        if described[key]:
            print_table(
                [f"settings as {'source' if side == 'from' else 'target'}", "type", "default", ""],
                [
                    [
                        s["name"],
                        s["type"],
                        "(required)" if s["required"] else str(s["default"]),
                        s["meaning"],
                    ]
                    for s in described[key]
                ],
            )
