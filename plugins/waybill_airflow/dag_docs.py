"""The text on a DAG's page, made from the migration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from waybill.envelopes import registry
from waybill.spec.endpoints import KafkaTarget

if TYPE_CHECKING:
    from waybill.spec.endpoints import Source, Target
    from waybill.spec.mapping import Selection, TableMapping
    from waybill.spec.migration import Migration
    from waybill.spec.schema_changes import SchemaChanges


def dag_docs(spec: Migration, file: str) -> str:
    """What the migration does, as Markdown: source, tables, targets and what they cannot carry."""
    source = spec.source
    facts = [
        ("Source", f"`{source.envelope}` from {_place(source)}"),
        ("Tables", ", ".join(map(_code, spec.tables)) or "as the envelope names them"),
        *_mapping(spec.select, spec.map),
        *_decided(spec.schema_changes),
        ("Lake", _code(spec.lake.warehouse)),
        ("Gate", f"{', '.join(map(_code, spec.quality.suites))}; on failure {_gate(spec)}"),
        ("File", _code(file)),
    ]
    parts = [spec.description.strip(), _table(facts[0], facts[1:])]
    if spec.publish:
        rows = [_target(spec, target) for target in spec.publish]
        parts += ["### What it publishes", _table(("Envelope", "Place", "Cannot carry"), rows)]
    else:
        parts.append("It publishes nothing; its result is the merged tables.")
    parts.append(
        "A run can be cleared or started again at any time: finished work is not repeated."
    )
    return "\n\n".join(part for part in parts if part)


def _gate(spec: Migration) -> str:
    return {
        "stop": "nothing is published",
        "ask": "nothing is published, and a person is asked in *Required actions*",
        "report": "it is only reported",
    }[spec.quality.on_failure]


def _target(spec: Migration, target: Target) -> tuple[str, str, str]:
    source = registry.get(spec.source.envelope)
    written = registry.get(target.envelope)
    lost = source.losses_to(written, target.settings, spec.source.settings)
    sentences = "<br>".join(f"{_cell(why)}" for why in lost.values())
    mapped = [f"{what}: {how}" for what, how in _mapping(target.select, target.map)]
    return (
        _code(target.envelope),
        _place(target),
        "<br>".join([sentences or "nothing is lost", *mapped]),
    )


def _mapping(select: Selection, tables: list[TableMapping]) -> Iterator[tuple[str, str]]:
    """What is chosen and mapped, each with what it is called."""
    if select.include:
        yield "Takes only", ", ".join(map(_code, select.include))
    if select.exclude:
        yield "Leaves out", ", ".join(map(_code, select.exclude))
    for one in tables:
        parts = [f"{part} {_code(text)}" for part, text in one.rename.given().items()]
        columns = one.columns
        for what, names in (
            ("keeps", columns.keep or ()),
            ("drops", columns.drop),
            ("renames", [f"{old} to {new}" for old, new in columns.rename.items()]),
            ("masks", columns.mask),
            ("adds", columns.add),
        ):
            if names:
                parts.append(f"{what} {', '.join(map(_code, names))}")
        if one.join is not None:
            parts.append(f"joins all with their name in {_code(one.join.column)}")
        if one.where is not None:
            parts.append(f"rows where {_code(one.where)}")
        yield f"Maps {', '.join(map(_code, one.tables))}", "; ".join(parts)


def _decided(entries: Sequence[SchemaChanges]) -> Iterator[tuple[str, str]]:
    """What is decided about changes of columns."""
    for one in entries:
        decisions = [f"{name} {_code(word)}" for name, word in one.decided().items()]
        yield f"Schema changes of {', '.join(map(_code, one.tables))}", ", ".join(decisions)


def _place(end: Source | Target) -> str:
    """Where messages are: a path, or topics."""
    if end.files is not None:
        return _code(end.files.path)
    kafka = end.kafka
    if isinstance(kafka, KafkaTarget):
        return f"topic {_code(kafka.topic)}"
    if kafka is None:
        return ""
    if kafka.pattern is not None:
        return f"topics like {_code(kafka.pattern)}"
    return f"topic {', '.join(map(_code, kafka.topics))}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    return f"`{_cell(text).replace('`', chr(39))}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
