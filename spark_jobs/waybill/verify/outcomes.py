"""What is said of the tables of a verification, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, DifferenceError, UnreachableError
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED, distinct

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.verify.newest import Outcome
    from waybill.verify.results import TableResult

NAMED = 5
"""Tables that could not be verified that an error names with the reason; of more only the number
is given."""


def summary(result: TableResult) -> str:
    """What was found about a table, in a line."""
    if result.outcome != VERIFIED:
        return f"{result.outcome}: {result.sentence}"
    rows = f"{counted(result.in_database, 'row')} in the database, {result.in_lake} in the lake"
    if result.method == "counts":
        rows = f"counted, {rows}"
    found = f"{result.differing} differ" if result.differing else "none differs"
    undecided = f", {result.undecided} not decided" if result.undecided else ""
    return f"{rows}: {found}{undecided}"


def by_outcome(results: Sequence[TableResult]) -> dict[str, list[str]]:
    """The tables by what came of them; one that was not verified in any way counts as that."""
    outcomes: dict[str, Outcome] = {}
    for result in results:
        known = outcomes.get(result.label, VERIFIED)
        outcomes[result.label] = max(known, result.outcome, key=(VERIFIED, SKIPPED, FAILED).index)
    found: dict[str, list[str]] = {VERIFIED: [], SKIPPED: [], FAILED: []}
    for label, outcome in outcomes.items():
        found[outcome].append(label)
    return found


def outcome_sentence(results: Sequence[TableResult]) -> str:
    """How many tables were verified, and which were not."""
    found = by_outcome(results)
    parts = [f"{counted(len(found[VERIFIED]), 'table')} verified"]
    for outcome in (SKIPPED, FAILED):
        if names := found[outcome]:
            parts.append(f"{len(names)} {outcome} ({', '.join(names)})")
    return ", ".join(parts)


def check_equal(spec: Migration, results: list[TableResult]) -> None:
    """Stop if anything differs, or if a table could not be verified.

    Raises:
        DifferenceError: something differs; names the tables, and where to look.
        UnreachableError: nothing differs of the tables that were verified, and what kept others
            from it may pass; names them, and why.
        ConfigurationError: as before, of which some cannot be verified later either.
    """
    differing = [result for result in results if result.differing]
    found = distinct(differing, lambda result: result.differing)
    failed = [result for result in results if result.outcome == FAILED]
    if not found and not failed:
        return
    if not found:
        sentence = _failed(failed, results)
        if all(result.transient for result in failed):
            raise UnreachableError(sentence, code=Code.DATABASE_UNREACHABLE)
        raise ConfigurationError(sentence, code=Code.DATABASE_TABLE)
    by_table = ", ".join(map(_differing, found))
    rows = next((result for result in found if result.method != "counts"), None)
    if rows is None:
        look = spec.command("verify", "FILE", "--table", found[0].table, "--method", "full")
        then = f"`{look}` finds the rows"
    else:
        look = spec.command("changes", "FILE", "--table", rows.table, "--key", "KEY")
        only = ("--keys", "differing") if rows.by_key else ()
        again = spec.command("run", "FILE", "--reload", rows.table, *only)
        what = "rebuilds these rows" if rows.by_key else "rebuilds the table"
        then = f"`{look}` shows the history of a row; if that is right, `{again}` {what}"
    message = f"tables differ from their source database ({by_table}): {then}"
    if failed:
        message += f"; {_failed(failed, results)}"
    raise DifferenceError(message, code=Code.DATABASE_DIFFERS)


def _differing(result: TableResult) -> str:
    """By how much a table differs."""
    what = " in the number of rows" if result.method == "counts" else ""
    return f"{result.label} by {result.differing}{what}"


def _failed(failed: list[TableResult], results: list[TableResult]) -> str:
    """A sentence on the tables that could not be verified."""
    tables = len({result.label for result in results})
    reasons = [f"{result.label}: {result.sentence}" for result in failed[:NAMED]]
    if len(failed) > NAMED:
        reasons.append(f"and {len(failed) - NAMED} more")
    were = "was" if len(failed) == 1 else "were"
    return f"{len(failed)} of {counted(tables, 'table')} {were} not verified ({'; '.join(reasons)})"
