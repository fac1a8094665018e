"""`waybill verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.lake_session import open_lake
from waybill.cli.output import console, print_json, print_table
from waybill.cli.run import watching
from waybill.errors import ConfigurationError
from waybill.spec.durations import seconds_of
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.verify.results import TableResult
    from waybill.verify.run import VerifyRequest

SHOWN = 20
"""Differences of a table that are printed; --json and the lake have more."""


def verify_command(migration: Path, asked: VerifyRequest, as_json: bool) -> None:
    """Compare the merged tables with their source database, and print what differs.

    Raises:
        DifferenceError: something does.
        UnreachableError: nothing does, and what kept tables from being verified may pass.
        ConfigurationError: nothing does, and a table could not be verified.
    """
    spec = load_migration(migration)
    from waybill.jobs import VERIFY
    from waybill.verify.history import with_history
    from waybill.verify.outcomes import check_equal
    from waybill.verify.run import needed_verify, run_verify

    needed_verify(spec)
    spec = spec.for_stage(VERIFY)
    with watching() as progress, open_lake(spec) as lake:
        results = run_verify(spec, lake, asked, progress)
        documents = with_history(spec, lake, results)
    if as_json:
        print_json(documents)
    else:
        _print(spec, results, documents)
    check_equal(spec, results)


def published_command(migration: Path, others: list[str], as_json: bool) -> None:
    """Compare what the targets hold with what was sent to them.

    Raises:
        ConfigurationError: other options were given, which say nothing here.
        DifferenceError: something differs.
    """
    if others:
        raise ConfigurationError(
            f"--against-topic compares all that was sent: leave --{others[0]} out"
        )
    spec = load_migration(migration)
    from waybill.verify.published import check_published, verify_published

    with watching() as progress, open_lake(spec) as lake:
        results = verify_published(spec, lake, progress)
    if as_json:
        print_json(result._asdict() for result in results)
    else:
        titles = ["target", "parts", "messages", "differ", "parts expired", "of others", ""]
        print_table(titles, [list(result) for result in results], spec.name)
    check_published(results)


def seconds_to_wait(text: str | None) -> float | None:
    """What `--wait` says.

    Raises:
        ConfigurationError: it is not a length of time.
    """
    if text is None:
        return None
    try:
        return float(seconds_of(text))
    except ValueError as error:
        raise ConfigurationError(f"--wait {text}: {error}") from None


def _print(spec: Migration, results: list[TableResult], documents: list[dict[str, Any]]) -> None:
    from waybill.verify.outcomes import outcome_sentence

    titles = [
        *("table", "method", "in the database", "in the lake", "differ", "not decided", "read"),
        "outcome",
    ]
    rows = [
        [
            *(r.label, r.method, r.in_database, r.in_lake, r.differing, r.undecided, r.read_at),
            r.outcome,
        ]
        for r in results
    ]
    print_table(titles, rows, spec.name)
    console().print(outcome_sentence(results), markup=False, soft_wrap=True)
    for result, plain in zip(results, documents, strict=True):
        if plain["sentence"]:
            line = f"{result.label}: {plain['sentence']}"
            console().print(line, markup=False, soft_wrap=True)
        for found in plain["differences"][:SHOWN]:
            _print_difference(result.label, found)
        if len(plain["differences"]) > SHOWN:
            line = f"only the first {SHOWN} differences of {result.label}; --json gives more"
            console().print(line, markup=False, soft_wrap=True)


def _print_difference(table: str, found: dict[str, Any]) -> None:
    key = ", ".join(f"{name}={value}" for name, value in found["key"].items())
    lines = [f"\n{table} {key}: {found['what']}"]
    for name, sides in found["columns"].items():
        lines.append(f"  {name}: {_shown(sides['database'])} in the database")
        lines.append(f"  {' ' * len(name)}  {_shown(sides['lake'])} in the lake")
    lines += [
        f"  {change['operation']} of {change['source_time'] or 'an unknown time'}, "
        f"{change['topic']}/{change['partition']}/{change['offset']}: {change['outcome']}"
        for change in found.get("history", ())
    ]
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)


def _shown(text: str | None) -> str:
    return "null" if text is None else repr(text)
