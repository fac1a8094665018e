"""`waybill check`: what can be known before any data moves."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.cli.check_decisions import check_decisions
from waybill.cli.check_mapping import mapped
from waybill.cli.check_suites import check_suites
from waybill.cli.check_tables import Sampled, check_tables
from waybill.cli.findings import NOTE, OK, WRONG, Finding
from waybill.cli.new_targets import check_beginnings
from waybill.cli.output import console, print_json, print_table, printable
from waybill.connections import find_connection
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.errors import ConfigurationError, LossError, Refusal, WaybillError
from waybill.inprocess.counts import Account
from waybill.made_ids import made_ids_sentence
from waybill.records import ROW_OPERATIONS
from waybill.records import refused as refused_change
from waybill.row_times.typed import check_row
from waybill.row_times.zoned import count_zones
from waybill.spec.alerts import CONNECTIONS, sends_nothing
from waybill.spec.file import load_migration
from waybill.storage.file_store import TEMPORARY, open_store
from waybill.tables import TableRules

if TYPE_CHECKING:
    from waybill.protocol import Decoder, Encoder, Envelope
    from waybill.records import Change, Message
    from waybill.spec.endpoints import KafkaTarget, Target
    from waybill.spec.migration import Migration

SAMPLE = 1000
"""Messages of the source that are tried."""


def check_command(migration: Path, as_json: bool) -> None:
    """Print the findings; leave with 2 if something has to be fixed."""
    spec = load_migration(migration)
    findings = list(check(spec))
    if as_json:
        print_json(vars(finding) for finding in findings)
    else:
        print_findings(spec, findings)
    if any(finding.verdict == WRONG for finding in findings):
        sys.exit(ConfigurationError.exit_code)


def print_findings(spec: Migration, findings: Sequence[Finding]) -> None:
    """Print what was found, and whether the migration can run."""
    print_table(["", "about", "found"], [[f.verdict, f.about, f.text] for f in findings], spec.name)
    wrong = sum(finding.verdict == WRONG for finding in findings)
    verdict = f"{wrong} to fix" if wrong else "ready to run"
    console().print(verdict, style="bold red" if wrong else "bold green")


def check(spec: Migration) -> Iterator[Finding]:
    """Everything that can be checked without moving data."""
    from waybill.convert.plan import make_plan

    source = registry.get(spec.source.envelope)
    yield Finding("specification", OK, f"{spec.name}, {counted(len(spec.publish), 'target')}")
    try:
        plan = make_plan(spec)
    except LossError as error:
        yield Finding("losses", WRONG, str(error))
        plan = make_plan(spec.model_copy(update={"on_loss": "report"}))
    sample, whole = yield from _sample(spec)
    decoded = yield from _decoded(plan.reading.decoder(), sample)
    checked = [_checked(change) for change in decoded or ()]
    reading = plan.reading
    every = yield from mapped(
        "migration", spec.select, spec.map, reading.mapping, checked, reading.bags
    )
    if decoded is not None and sample:
        yield from _taken(every, len(sample))
    changes = [change for change in every if change.outcome == "ok"]
    tables = (change.schema.qualified_name for change in changes if change.schema.table)
    yield from check_decisions(spec.schema_changes, tables, spec.decisions.joined)
    if spec.tables and sample:
        plain = replace(plan.reading, rules=TableRules()).decoder()
        good = [change for change in decoded or () if change.outcome == "ok"]
        yield from check_tables(spec, Sampled(good, list(_each(plain, sample)), whole))
    for target, writing in zip(spec.publish, plan.writings, strict=True):
        yield from _losses(source, target, spec.source.settings)
        about = f"target {target.label}"
        own = yield from mapped(about, target.select, target.map, writing.mapping, changes)
        taken = [change for change in own if change.outcome == "ok"]
        yield from _encoded(writing.encoder(trial=True), target, taken)
        if target.files is not None:
            yield _writable(f"target {target.label}", target.files.path)
        if target.kafka is not None:
            yield from _topic(f"target {target.label}", target.kafka)
    encoders = {
        target.label: partial(writing.encoder, trial=True)
        for target, writing in zip(spec.publish, plan.writings, strict=True)
    }
    yield from check_suites(spec, every, encoders)
    yield from _receivers(spec)
    yield from _lake(spec)
    yield from check_beginnings(spec, plan)


def _receivers(spec: Migration) -> Iterator[Finding]:
    """Connections that are to send alerts, as far as they are known outside of Airflow."""
    for receiver in spec.alerts.to if spec.alerts is not None else ():
        found = find_connection(receiver.connection) if receiver.connection else None
        if found is not None and found.kind not in CONNECTIONS:
            yield Finding("alerts", WRONG, sends_nothing(found.name, found.kind))


def _each(decoder: Decoder, sample: list[Message]) -> Iterator[Change]:
    """The changes of a sample; what cannot be decoded is left out."""
    for message in sample:
        with suppress(WaybillError):
            yield from decoder.decode(message)


def _topic(about: str, target: KafkaTarget) -> Iterator[Finding]:
    from waybill.publish.kafka.preflight import examine

    try:
        text, notes = examine(target)
    except WaybillError as error:
        yield Finding(about, WRONG, str(error))
        return
    yield Finding(about, OK, text)
    for note in notes:
        yield Finding(about, NOTE, note)


def _sample(spec: Migration) -> Generator[Finding, None, tuple[list[Message], bool]]:
    """The first messages, and whether there are no others."""
    from waybill.batches.messages import messages_of
    from waybill.sources.sampling import sample_of

    try:
        found = sample_of(spec.source, SAMPLE)
        yield Finding("source", OK if found.there else NOTE, found.text, found.details)
        for note in found.notes:
            yield Finding("source", NOTE, note)
        every = (message for batch in found.batches for message in messages_of(batch))
        sample = list(islice(every, SAMPLE))
        # Of topics only a share of each partition is looked at.
        whole = spec.source.files is not None and next(every, None) is None
        return sample, whole
    except WaybillError as error:
        yield Finding("source", WRONG, str(error))
        return [], False


def _decoded(
    decoder: Decoder, sample: list[Message]
) -> Generator[Finding, None, list[Change] | None]:
    """Every change of the sample, with those that are refused or skipped; None if it breaks off."""
    every: list[Change] = []
    for message in sample:
        try:
            every += decoder.decode(message)
        except Refusal as refusal:
            every.append(refused_change(message, refusal))
        except WaybillError as error:
            yield Finding("sample", WRONG, str(error))
            return None
    return every


def _checked(change: Change) -> Change:
    """The change, or what stands for it where the conversion refuses what the decoder took."""
    if change.outcome == "ok" and change.operation in ROW_OPERATIONS:
        try:
            check_row(change)
        except Refusal as refusal:
            return refused_change(change.message, refusal)
    return change


def _taken(every: list[Change], messages: int) -> Iterator[Finding]:
    """How many changes come of the sample, and why the first that is refused is."""
    changes = [change for change in every if change.outcome == "ok"]
    refused = [change for change in every if change.outcome == "refused"]
    brings = counted(messages, "message brings", "messages bring")
    text = f"the first {brings} {counted(len(changes), 'change')}"
    verdict = OK
    if refused:
        first = refused[0]
        text += (
            f", {counted(len(refused), 'is refused', 'are refused')} "
            f"(offset {first.message.offset}: {first.reason})"
        )
        verdict = WRONG if not changes else NOTE
    kinds = Counter(change.reason_kind or "shape" for change in refused)
    yield Finding("sample", verdict, text, {"refused": dict(kinds)})
    yield from _undeclared(changes)


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
                f"the messages do not say the types of {counted(len(unknown), 'column')} "
                f"({listed}): declare them under tables, or they become strings"
            )
            yield Finding(f"table {name}", NOTE, text, {"columns": sorted(unknown)})
    for name in sorted(keyless):
        text = "has no key: declare one under tables, or its rows cannot be merged"
        yield Finding(f"table {name}", NOTE, text)


def _losses(source: Envelope, target: Target, read: Mapping[str, object]) -> Iterator[Finding]:
    losses = source.losses_to(registry.get(target.envelope), target.settings, read)
    about = f"target {target.label}"
    if not losses:
        yield Finding(about, OK, f"carries everything that {source.name} has")
    for capability, text in losses.items():
        yield Finding(about, NOTE, f"{capability}: {text}", {"capability": capability})


def _encoded(encoder: Encoder, target: Target, changes: list[Change]) -> Iterator[Finding]:
    account = Account()
    refused: Counter[str] = Counter()
    messages, first = 0, ""
    for change in changes:
        if change.half is not None:
            continue
        losses: list[str] = []
        try:
            written = encoder.encode(change, losses)
            if written:
                count_zones(change, losses)
            messages += len(written)
        except Refusal as refusal:
            refused[refusal.kind] += 1
            first = first or f"offset {change.message.offset}: {refusal.sentence}"
        except WaybillError as error:
            yield Finding(f"target {target.label}", WRONG, str(error))
            return
        place = change.message
        account.tell(losses, place.topic, place.partition)
    if not changes:
        return
    lost = account.losses
    text = f"the sample becomes {counted(messages, 'message')}"
    if refused:
        lost_changes = counted(sum(refused.values()), "change")
        text += f", {lost_changes} cannot be written ({first})"
    if lost:
        text += "; not carried: " + ", ".join(f"{n} {c}" for n, c in sorted(lost.items()))
    made_ids = account.made_ids.counts()
    if made_ids:
        text += f"; {made_ids_sentence(made_ids)}"
    details = {
        "messages": messages,
        "refused": dict(refused),
        "losses": dict(lost),
        "made_ids": made_ids,
    }
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
    return Finding(about, OK, f"{printable(folder)} will be created")
