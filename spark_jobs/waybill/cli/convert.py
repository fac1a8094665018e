"""`waybill convert`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.options import check_takes_schemas, rules_in, schemas_in, setting_value
from waybill.cli.output import byte_progress, printable
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.lines import STANDARD, check_apart, check_new
from waybill.inprocess.run import convert_file, layout_of
from waybill.made_ids import WITHIN, made_ids_sentence
from waybill.tables import MAX_COLUMNS

if TYPE_CHECKING:
    from waybill.inprocess.counts import Account
    from waybill.mapping.rules import Rules
    from waybill.report import StageReport
    from waybill.tables import TableRules

FLAWED = 4
"""How a conversion ends that refused everything or, under `--strict`, refused or lost anything."""

FOREIGN = ("json", "binary", "shape", "operation", "schema")
"""Kinds of refusal of which messages in another envelope die."""


@dataclass(frozen=True)
class Conversion:
    """The options of one call, as they were given."""

    source: str
    target: str
    input: str
    output: str
    settings: list[str]
    tables: Path | None
    schemas: Path | None
    quarantine: str | None
    report: Path | None
    processes: int
    strict: bool
    max_columns: int = MAX_COLUMNS
    force: bool = False
    mapping: Path | None = None


def convert_command(given: Conversion) -> None:
    """Convert a file and say what became of it.

    Leaves with 4 where every message was refused, and under `--strict` where any was, or anything
    was lost.

    Raises:
        ConfigurationError: an option is wrong, or a file that is to be written is there already.
    """
    job = job_of(given)
    size = None
    if given.input != STANDARD and not given.input.endswith((".gz", ".parquet")):
        path = Path(given.input)
        size = path.stat().st_size if path.is_file() else None
    report_file = None if given.report is None else str(given.report)
    if report_file is not None:
        check_apart(given.input, given.output, given.quarantine, report_file)
    check_new(given.force, given.output, given.quarantine, report_file)
    with byte_progress(size) as progress:
        account, seconds = convert_file(job, given.quarantine, given.processes, progress)
    report = account.report(given.target, seconds)
    if given.report is not None:
        given.report.write_text(json.dumps(report_data(job, report)) + "\n", encoding="utf-8")
    weak = WITHIN in account.made_ids.counts()
    if account.flawed or weak or sys.stderr.isatty():
        sys.stderr.write(sentence(job, account, seconds) + "\n")
    if account.all_refused or (given.strict and account.flawed):
        sys.exit(FLAWED)


def job_of(given: Conversion) -> ConvertJob:
    """The conversion that the options describe.

    Raises:
        ConfigurationError: an option is wrong.
    """
    sides: dict[str, dict[str, Any]] = {"from": {}, "to": {}}
    for text in given.settings:
        name, equals, value = text.partition("=")
        side, dot, key = name.partition(".")
        if not (equals and dot and key and side in sides):
            message = f"--set {text}: write --set from.KEY=VALUE or --set to.KEY=VALUE"
            raise ConfigurationError(message)
        sides[side][key] = setting_value(value)
    if given.schemas is not None:
        check_takes_schemas(registry.get(given.source))
        sides["from"]["schemas"] = schemas_in(given.schemas)
    rules = rules_in(given.tables, given.max_columns)
    mappings: tuple[Rules, ...] = ()
    if given.mapping is not None:
        declared, mappings = _mapping_in(given)
        if given.tables is None:
            rules = declared
    for name in (given.input, given.output):
        layout_of(name)
    return ConvertJob(
        given.source,
        given.target,
        given.input,
        given.output,
        sides["from"],
        sides["to"],
        rules,
        mappings,
    )


def _mapping_in(given: Conversion) -> tuple[TableRules, tuple[Rules, ...]]:
    """The tables that a migration declares, and its mappings for the lake and for the target.

    Raises:
        ConfigurationError: it cannot be read, or cannot be applied to one file.
    """
    from waybill.spec.file import load_migration

    assert given.mapping is not None
    spec = load_migration(given.mapping)
    if given.processes > 1:
        raise ConfigurationError("--processes does not go with --mapping; leave it out")
    lake = spec.mapping()
    joining = next((n for n, one in enumerate(spec.map) if one.join is not None), None)
    if joining is not None:
        run = spec.command("run", "FILE")
        message = (
            f"map[{joining}].join in {given.mapping} makes one table of several, and a TRUNCATE or "
            "DROP of one of them deletes every row that came from it before, which only a lake "
            f"knows: run the migration instead, `{run}`"
        )
        raise ConfigurationError(message)
    targets = [target.mapping() for target in spec.publish if target.envelope == given.target]
    if any(other != targets[0] for other in targets[1:]):
        message = (
            f"{given.mapping} has several targets of {given.target} that map differently: name a "
            "file with one of them"
        )
        raise ConfigurationError(message)
    rules = spec.rules
    rules.max_columns = given.max_columns
    return rules, tuple(rules for rules in (lake, *targets[:1]) if rules)


def report_data(job: ConvertJob, report: StageReport) -> dict[str, Any]:
    """What `--report` writes."""
    data = report.to_dict()
    return {
        "from": job.source,
        "to": job.target,
        "input": job.input,
        "output": job.output,
        "messages_in": data["rows_in"],
        "messages_out": data["rows_out"],
        "extra_in": data["extra_in"],
        "refused": data["refused"],
        "skipped": data["skipped"],
        "losses": data["losses"].get(job.target, {}),
        "made_ids": data["made_ids"].get(job.target, {}),
        "declared_losses": job.declared_losses(),
        **data["details"],
        "seconds": round(data["seconds"], 3),
    }


def sentence(job: ConvertJob, account: Account, seconds: float) -> str:
    """The account as one sentence for a person."""
    parts = [f"{counted(account.messages, 'message')} in, {account.written} out"]
    for verb, counts in (
        ("refused", account.refused),
        ("skipped", account.skipped),
        ("lost in", account.losses),
    ):
        if counts:
            listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            parts.append(f"{verb} {sum(counts.values())} ({listed})")
        if counts is account.refused and account.first_refused is not None:
            parts.append(f"the first: {printable(account.first_refused)}")
    made = made_ids_sentence(account.made_ids.counts())
    if made:
        parts.append(made)
    rate = account.messages / seconds if seconds else 0.0
    parts.append(f"{seconds:.1f} s, {rate:.0f}/s")
    if account.over_limit:
        parts.append("--max-columns N takes messages of so many columns")
    foreign = sum(account.refused[kind] for kind in FOREIGN) - account.over_limit
    if foreign and foreign == account.messages and job.input != STANDARD:
        parts.append(f"waybill detect {job.input} says which envelope it is in")
    return f"{job.source} to {job.target}: {'; '.join(parts)}"
