"""`waybill check`: what can be known before any data moves."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.output import console, print_json, print_table, printable
from waybill.envelopes import registry
from waybill.errors import ConfigurationError, LossError, Refusal, WaybillError
from waybill.file_store import TEMPORARY, open_store
from waybill.records import ROW_OPERATIONS
from waybill.spec_file import load_migration

if TYPE_CHECKING:
    from waybill.envelopes.protocol import Decoder, Encoder, Envelope
    from waybill.records import Change, Message
    from waybill.spec import KafkaTarget, Migration, Target

SAMPLE = 1000
"""Messages of the source that are tried."""

OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclass
class Finding:
    """One thing that was looked at.

    Attributes:
        about: source, sample, lake, a target.
        verdict: ok, note or wrong.
        text: what was found.
        details: counts for `--json`.
    """

    about: str
    verdict: str
    text: str
    details: dict[str, Any] = field(default_factory=dict)


def check_command(migration: Path, as_json: bool) -> None:
    """Print the findings; leave with 2 if something has to be mended."""
    spec = load_migration(migration)
    findings = list(check(spec))
    if as_json:
        print_json(vars(finding) for finding in findings)
    else:
        print_table(
            ["", "about", "found"], [[f.verdict, f.about, f.text] for f in findings], spec.name
        )
        wrong = sum(finding.verdict == WRONG for finding in findings)
        told = f"{wrong} to mend" if wrong else "ready to run"
        console().print(told, style="bold red" if wrong else "bold green")
    if any(finding.verdict == WRONG for finding in findings):
        sys.exit(ConfigurationError.exit_code)


def check(spec: Migration) -> Iterator[Finding]:
    """Everything that can be checked without moving data."""
    from waybill.convert.plan import make_plan

    source = registry.get(spec.source.envelope)
    yield Finding("specification", OK, f"{spec.name}, {len(spec.publish)} targets")
    try:
        plan = make_plan(spec)
    except LossError as error:
        yield Finding("losses", WRONG, str(error))
        plan = make_plan(spec.model_copy(update={"on_loss": "report"}))
    sample = yield from _sample(spec)
    decoder = plan.reading.decoder()
    changes = yield from _decoded(decoder, sample)
    for target, writing in zip(spec.publish, plan.writings, strict=True):
        yield from _losses(source, target)
        yield from _encoded(writing.encoder(trial=True), target, changes)
        if target.files is not None:
            yield _writable(f"target {target.label}", target.files.path)
        if target.kafka is not None:
            yield from _topic(f"target {target.label}", target.kafka)
    yield from _lake(spec)


def _topic(about: str, target: KafkaTarget) -> Iterator[Finding]:
    from waybill.publish.kafka.examining import examine

    try:
        text, notes = examine(target)
    except WaybillError as error:
        yield Finding(about, WRONG, str(error))
        return
    yield Finding(about, OK, text)
    for note in notes:
        yield Finding(about, NOTE, note)


def _sample(spec: Migration) -> Generator[Finding, None, list[Message]]:
    from waybill.envelopes.batch import messages_of
    from waybill.sources.sample import sample_of

    try:
        found = sample_of(spec.source, SAMPLE)
        yield Finding("source", OK if found.there else NOTE, found.text, found.details)
        for note in found.notes:
            yield Finding("source", NOTE, note)
        return list(islice((m for batch in found.batches for m in messages_of(batch)), SAMPLE))
    except WaybillError as error:
        yield Finding("source", WRONG, str(error))
        return []


def _decoded(decoder: Decoder, sample: list[Message]) -> Generator[Finding, None, list[Change]]:
    changes: list[Change] = []
    refused: Counter[str] = Counter()
    first = ""
    for message in sample:
        try:
            found = decoder.decode(message)
        except Refusal as refusal:
            refused[refusal.kind] += 1
            first = first or f"offset {message.offset}: {refusal.sentence}"
            continue
        except WaybillError as error:
            yield Finding("sample", WRONG, str(error))
            return []
        for change in found:
            if change.outcome == "refused":
                refused[change.reason_kind or "shape"] += 1
                first = first or f"offset {message.offset}: {change.reason}"
            elif change.outcome == "ok":
                changes.append(change)
    if sample:
        text = f"of the first {len(sample)} messages come {len(changes)} changes"
        verdict = OK
        if refused:
            text += f", {sum(refused.values())} are refused ({first})"
            verdict = WRONG if not changes else NOTE
        yield Finding("sample", verdict, text, {"refused": dict(refused)})
    yield from _undeclared(changes)
    return changes


def _undeclared(changes: list[Change]) -> Iterator[Finding]:
    """Tables whose keys or types nobody says."""
    tables: dict[str, set[str]] = {}
    keyless: set[str] = set()
    for change in changes:
        schema = change.schema
        if not schema.table or change.operation not in ROW_OPERATIONS:
            continue
        name = schema.qualified_name
        if not schema.key:
            keyless.add(name)
        unknown = {c.name for c in schema.columns if c.type.kind == "unknown"}
        tables[name] = tables.get(name, set()) | unknown
    for name, unknown in sorted(tables.items()):
        if unknown:
            listed = ", ".join(sorted(unknown)[:5])
            text = (
                f"the messages do not say the types of {len(unknown)} columns ({listed}): "
                f"declare them under tables, or they become strings"
            )
            yield Finding(f"table {name}", NOTE, text, {"columns": sorted(unknown)})
    for name in sorted(keyless):
        text = "has no key: declare one under tables, or its rows cannot be merged"
        yield Finding(f"table {name}", NOTE, text)


def _losses(source: Envelope, target: Target) -> Iterator[Finding]:
    losses = source.losses_to(registry.get(target.envelope), target.settings)
    about = f"target {target.label}"
    if not losses:
        yield Finding(about, OK, f"carries everything that {source.name} has")
    for capability, text in losses.items():
        yield Finding(about, NOTE, f"{capability}: {text}", {"capability": capability})


def _encoded(encoder: Encoder, target: Target, changes: list[Change]) -> Iterator[Finding]:
    lost: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    messages, first = 0, ""
    for change in changes:
        if change.half is not None:
            continue
        losses: list[str] = []
        try:
            messages += len(encoder.encode(change, losses))
        except Refusal as refusal:
            refused[refusal.kind] += 1
            first = first or f"offset {change.message.offset}: {refusal.sentence}"
        except WaybillError as error:
            yield Finding(f"target {target.label}", WRONG, str(error))
            return
        lost.update(losses)
    if not changes:
        return
    text = f"the sample becomes {messages} messages"
    if refused:
        text += f", {sum(refused.values())} changes cannot be written ({first})"
    if lost:
        text += "; not carried: " + ", ".join(f"{n} {c}" for n, c in sorted(lost.items()))
    details = {"messages": messages, "refused": dict(refused), "losses": dict(lost)}
    yield Finding(f"target {target.label}", NOTE if refused or lost else OK, text, details)


def _lake(spec: Migration) -> Iterator[Finding]:
    from waybill.lake.catalog_properties import catalog_properties
    from waybill.lake.settings import jars

    yield _writable("lake", spec.lake.warehouse)
    kind = spec.lake.catalog.get("type", "embedded SQLite" if not spec.lake.catalog else "jdbc")
    try:
        catalog_properties(spec)
        jars(spec)
    except ConfigurationError as error:
        yield Finding("lake", WRONG, str(error))
    else:
        yield Finding("lake", OK, f"catalog: {kind}")


def _writable(about: str, folder: str) -> Finding:
    """Whether a file can be put into a folder; it is taken away again."""
    name = f"{TEMPORARY}check"
    try:
        store = open_store(folder)
        there = Path(folder).is_dir() if "://" not in folder else True
        if there:
            store.create(name, b"")
            store.remove(name)
            return Finding(about, OK, f"{printable(folder)} can be written")
        near = next(p for p in Path(folder).absolute().parents if p.is_dir())
        probe = open_store(str(near))
        probe.create(name, b"")
        probe.remove(name)
    except (OSError, WaybillError) as error:
        return Finding(about, WRONG, f"{printable(folder)} cannot be written: {error}")
    return Finding(about, OK, f"{printable(folder)} will be made")
