"""`waybill init`: a migration's file, drawn up from a look at the source."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.check import check, print_findings
from waybill.cli.drafts.draft import Draft, DraftTarget
from waybill.cli.drafts.evidence import as_data
from waybill.cli.drafts.migration_text import decisions_of, migration_text
from waybill.cli.drafts.proven_types import proven_types
from waybill.cli.drafts.questions import Questions
from waybill.cli.drafts.reading import Lacking, NoneFits, SeveralFit, SourceReading, read
from waybill.cli.drafts.source_look import SAMPLE, TOPIC, Look, is_topic, look
from waybill.cli.drafts.target_trial import try_target
from waybill.cli.findings import WRONG
from waybill.cli.options import rules_in, schemas_in, setting_value
from waybill.cli.output import console, print_json, print_table, printable
from waybill.connections import find_connection, given, variable_of
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.inprocess.lines import check_new
from waybill.kafka.client import DEFAULT_CONNECTION
from waybill.spec.file import SpecificationError, load_migration
from waybill.spec.migrations_folder import VARIABLE, folder_of
from waybill.spec.values import check_migration_name
from waybill.storage.file_store import TEMPORARY, LocalStore
from waybill.tables import TableRule, TableRules

if TYPE_CHECKING:
    from waybill.cli.findings import Finding
    from waybill.spec.migration import Migration


@dataclass(frozen=True)
class InitOptions:
    """The options of one call, as they were given."""

    source: str
    output: Path | None = None
    name: str | None = None
    envelope: str | None = None
    layout: str | None = None
    targets: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    schemas: Path | None = None
    tables: Path | None = None
    keys: list[str] = field(default_factory=list)
    declare_types: bool = False
    connection: str | None = None
    bootstrap: str | None = None
    target_connection: str | None = None
    sample: int = SAMPLE
    force: bool = False
    ask: bool = True
    json: bool = False


def init_command(options: InitOptions) -> None:
    """Draw up a migration, check it, and say what comes next.

    Leaves with 2 where the check finds something to fix; the file is there then.

    Raises:
        ConfigurationError: an option is wrong, the file is there already, or the source is nothing
            that a migration could read.
    """
    asks = options.ask and not options.json and sys.stdin.isatty() and sys.stderr.isatty()
    if options.output is not None:
        _check_file(options.output, options.force)
    if options.name is not None:
        check_migration_name(options.name)
    with ExitStack() as block:
        connection = block.enter_context(_connected(options))
        questions = Questions() if asks else None
        draft = _drafted(options, connection, questions)
        text = migration_text(draft)
        spec = _placed(draft.file, text, options.force)
        findings = list(check(spec))
        if options.json:
            print_json([_as_data(draft, findings)])
        else:
            _print_draft(draft, spec, findings)
    if any(finding.verdict == WRONG for finding in findings):
        sys.exit(ConfigurationError.exit_code)


def _drafted(options: InitOptions, connection: str, questions: Questions | None) -> Draft:
    """The draft, with everything that options and answers decide."""
    settings, rules = _settings(options.settings), _rules(options)
    found = look(options.source, options.layout, connection, options.sample)
    try:
        reading = _reading(options, found, settings["from"], rules, questions)
    except NoneFits as error:
        if found.narrower is None:
            raise
        # What lies in folders below is often something else about the topic.
        place, narrower = found.place, found.narrower
        found = look(narrower, options.layout, connection, options.sample)
        try:
            reading = _reading(options, found, settings["from"], rules, questions)
        except NoneFits:
            raise error from None
        found.place = place
        found.notes.append("files in folders below left out: together with them no envelope fits")
    if not options.json:
        _print_look(found, reading)
    name, file = _name_and_file(options, found, questions)
    draft = Draft(found, reading, file, name, bootstrap=options.bootstrap)
    _declare(draft, rules)
    draft.guesses = proven_types(reading, found.messages, rules)
    places = [_target_of(text) for text in options.targets]
    if questions is not None and not places:
        places = questions.targets(draft)
    for envelope, place in places:
        _add_target(draft, envelope, place, settings["to"], options.target_connection or connection)
    if settings["to"] and not draft.targets:
        raise ConfigurationError("--set to.… sets something of a target: name one with --to")
    if options.declare_types:
        draft.take_types()
    if questions is not None:
        questions.keys(draft)
        questions.types(draft)
        questions.settings(draft)
    return draft


def _reading(
    options: InitOptions,
    found: Look,
    settings: Mapping[str, Any],
    rules: TableRules,
    questions: Questions | None,
) -> SourceReading:
    """How the source is read; a person may choose where several envelopes fit."""
    name, file, settings = options.envelope, options.schemas, dict(settings)
    while True:
        schemas = None if file is None else schemas_in(file)
        try:
            reading = read(found, name, settings, schemas, rules)
        except SeveralFit as error:
            if questions is None:
                raise
            name = questions.envelope(error)
        except Lacking as error:
            place = None if questions is None else questions.schemas(error)
            if place is None:
                raise
            name = error.name
            if isinstance(place, Path):
                file = place
            else:
                settings["registry"] = place
        else:
            break
    if file is not None:
        # The migration names it; its content is not copied.
        reading.schemas_file = str(file.expanduser().absolute())
    return reading


def _name_and_file(
    options: InitOptions, found: Look, questions: Questions | None
) -> tuple[str, Path]:
    name, file = options.name or found.name, options.output
    if questions is not None and options.name is None:
        name = questions.name(name)
    if questions is not None and file is None:
        file = questions.file(_default_file(name), options.force)
    file = file or _default_file(name)
    _check_file(file, options.force)
    return name, file


# Options


@contextmanager
def _connected(options: InitOptions) -> Iterator[str]:
    """The connection to the brokers by name; found inside of the block, if servers are given."""
    name = options.connection or DEFAULT_CONNECTION
    if options.bootstrap is None:
        if options.connection is not None and not is_topic(options.source):
            message = (
                f"--connection is for a topic, and {printable(options.source)} is none: write "
                f"{TOPIC}NAME"
            )
            raise ConfigurationError(message)
        yield name
        return
    if not re.fullmatch(r"[\w.\[\]:-]+:[0-9]{1,5}(,[\w.\[\]:-]+:[0-9]{1,5})*", options.bootstrap):
        # Not repeated: somebody may have put a password there.
        message = (
            "--bootstrap takes host:port, or several with commas between; a login belongs into a "
            "connection (--connection NAME)"
        )
        raise ConfigurationError(message)
    if find_connection(name) is not None:
        message = (
            f"there is a connection {name} ({variable_of(name)}), and --bootstrap is for brokers "
            "without one: leave --bootstrap out, or name another --connection"
        )
        raise ConfigurationError(message)
    text = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": options.bootstrap}})
    with given({name: text}):
        yield name


def _settings(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Settings by side."""
    sides: dict[str, dict[str, Any]] = {"from": {}, "to": {}}
    for text in texts:
        name, equals, value = text.partition("=")
        side, dot, key = name.partition(".") if "." in name else ("from", ".", name)
        if not (equals and dot and key and side in sides):
            message = (
                f"--set {printable(name)}: write --set KEY=VALUE or --set from.KEY=VALUE for the "
                "source, --set to.KEY=VALUE for the targets"
            )
            raise ConfigurationError(message)
        if key == "schemas" and side == "from":
            raise ConfigurationError("--set schemas: name them with --schemas FILE")
        sides[side][key] = setting_value(value)
    return sides


def _rules(options: InitOptions) -> TableRules:
    """Tables that the options declare."""
    rules = rules_in(options.tables)
    declared = dict(rules.declared)
    for text in options.keys:
        table, equals, columns = text.partition("=")
        key = tuple(name.strip() for name in columns.split(",") if name.strip())
        if not (table and equals) or "${" in table:
            message = (
                f"--key {printable(text)}: write --key shop.orders=id, or shop.orders= for none"
            )
            raise ConfigurationError(message)
        declared[table] = declared.get(table, TableRule())._replace(key=key)
    return TableRules(declared, rules.max_columns)


def _declare(draft: Draft, rules: TableRules) -> None:
    """Take what options declare into the draft."""
    for name, rule in rules.declared.items():
        if rule.key is not None:
            draft.keys[name] = list(rule.key)
        if rule.columns:
            draft.types[name] = {column: str(type_) for column, type_ in rule.columns.items()}


def _target_of(text: str) -> tuple[str, str]:
    """Envelope and place of a target; the place is empty where none is given."""
    envelope, equals, place = text.partition("=")
    if equals and not place:
        message = f"--to {printable(text)}: write --to canal, canal=FOLDER or canal={TOPIC}NAME"
        raise ConfigurationError(message)
    return envelope, place


def _add_target(
    draft: Draft, envelope: str, place: str, settings: Mapping[str, Any], connection: str
) -> None:
    trial = try_target(draft.reading, envelope, settings, draft.reading.evidence.changes)
    target = DraftTarget(envelope, trial, settings=dict(settings))
    target.name = draft.target_name(envelope)
    if is_topic(place):
        target.topic, target.connection = place.removeprefix(TOPIC), connection
        if re.fullmatch(r"[\w.-]{1,249}", target.topic, re.ASCII) is None:
            message = f"--to {envelope}={printable(place)} names no topic: write {TOPIC}NAME"
            raise ConfigurationError(message)
    else:
        path = place if "://" in place or not place else str(Path(place).expanduser().absolute())
        target.path = path or draft.output_folder(target.name or envelope)
        target.layout = trial.layout
    draft.targets.append(target)


# The file


def _default_file(name: str) -> Path:
    """Where the file of a migration goes: into the folder of migrations, if there is one."""
    import os

    folder = folder_of(Path.cwd()) if os.environ.get(VARIABLE) else Path("migrations")
    return (folder if folder.is_dir() else Path()) / f"{name}.yaml"


def _check_file(file: Path, force: bool) -> None:
    if file.suffix not in (".yaml", ".yml"):
        message = f"{printable(str(file))} must be a YAML file: give it a name that ends in .yaml"
        raise ConfigurationError(message)
    check_new(force, str(file))
    if not file.absolute().parent.is_dir():
        message = f"there is no folder {printable(str(file.parent))}: make it, or name another file"
        raise ConfigurationError(message)


def _placed(file: Path, text: str, force: bool) -> Migration:
    """Put the file there if it can be read, whole or not at all.

    Raises:
        ConfigurationError: it says what no migration may, or cannot be written.
    """
    folder = file.absolute().parent
    store = LocalStore(str(folder))
    trial = f"{TEMPORARY}{file.name}"
    try:
        with store.write(trial) as stream:
            stream.write(text.encode())
        try:
            load_migration(folder / trial)
        except SpecificationError as error:
            sentence = "; ".join(re.sub(r"^.*?:[0-9]+: ", "", one) for one in error.problems)
            message = f"such a migration cannot be: {sentence.rstrip(':')}"
            raise ConfigurationError(message) from error
        finally:
            store.remove(trial)
        if force:
            with store.write(file.name) as stream:
                stream.write(text.encode())
        elif not store.create(file.name, text.encode()):
            check_new(force, str(file))
    except OSError as error:
        message = f"{printable(str(file))} cannot be written ({error.strerror}); name another file"
        raise ConfigurationError(message) from error
    return load_migration(file)


# What is printed


def _print_look(found: Look, reading: SourceReading) -> None:
    from rich.text import Text

    out = console(stderr=True)
    envelope = reading.envelope
    out.print(
        Text(f"{found.place}: {envelope.name}, {envelope.title}", style="bold"), soft_wrap=True
    )
    layout = f", layout {found.fields['files']['layout']}: {found.why}" if found.why else ""
    lines = [f"{found.text}{layout}; {found.sampled}", *reading.why, *found.notes]
    if reading.doubtful:
        lines.append(f"to be confirmed: {reading.doubtful}")
    lines += [f"not {name}: {why}" for name, why in reading.others[:3]]
    for line in lines:
        out.print(Text(f"  {printable(line)}", style="dim"), soft_wrap=True)


def _print_draft(draft: Draft, spec: Migration, findings: list[Finding]) -> None:
    tables = draft.reading.evidence.tables
    print_table(
        ["table", "key", "columns", "operations", "order"],
        [
            [
                table.name,
                ", ".join(draft.keys.get(table.name) or table.key or ()) or "none stated",
                len(table.columns),
                ", ".join(f"{n} {what}" for what, n in table.operations.most_common()),
                table.order,
            ]
            for table in sorted(tables.values(), key=lambda one: one.name)
        ],
    )
    print_findings(spec, findings)
    decisions = decisions_of(draft)
    out = console()
    out.print(f"{draft.file} is written", style="bold", markup=False)
    if decisions:
        what = counted(len(decisions), "line", "lines")
        out.print(f"{what} with DECIDE: in it wait for you", markup=False)
    if draft.bootstrap is not None:
        names = {k["connection"] for k in _kafka_ends(spec)}
        for name in sorted(names):
            text = {"conn_type": "kafka", "extra": {"bootstrap.servers": draft.bootstrap}}
            out.print(
                f"add the connection, e.g.: export {variable_of(name)}='{json.dumps(text)}'",
                markup=False,
            )
    word = "check" if any(f.verdict == WRONG for f in findings) else "run"
    out.print(f"next: {spec.command(word, 'FILE')}", markup=False)


def _kafka_ends(spec: Migration) -> list[dict[str, str]]:
    ends = [spec.source.kafka, *(target.kafka for target in spec.publish)]
    return [{"connection": end.connection} for end in ends if end is not None]


def _as_data(draft: Draft, findings: list[Finding]) -> dict[str, Any]:
    reading = draft.reading
    return {
        "file": str(draft.file),
        "name": draft.name,
        "source": draft.look.place,
        "envelope": reading.envelope.name,
        "doubtful": reading.doubtful,
        "others": [{"name": name, "against": why} for name, why in reading.others],
        "settings": reading.settings,
        "messages": len(draft.look.messages),
        "whole": draft.look.whole,
        "tables": as_data(reading.evidence),
        "targets": [target.name or target.envelope for target in draft.targets],
        "decide": decisions_of(draft),
        "findings": [vars(finding) for finding in findings],
    }
