"""Where to look when an expectation is not met: commands that run as they stand."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from waybill.validate.result import FAILED
from waybill.validate.suites import ROWS

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.validate.result import Checked, GateResult

SHOWN = 3
"""How many rows of a profile that do not meet an expectation get a command each."""

FILE, TABLE, KEY, HELD = "{file}", "{table}", "{key}", "{held}"
"""What a suite writes where the migration's file, a table, a key of it, and ` --held` belong."""

AT_KEY, AT_TABLE = f" --key {KEY}", f" --table {TABLE}"


class Example(NamedTuple):
    """A row that does not meet an expectation."""

    table: str | None = None
    key: str | None = None


Find = Callable[[str, str, str], Example]
"""Finds an example by profile, column of the profile, and name of its row; or by `ROWS`, the table,
and the key of a row."""


def with_commands(spec: Migration, result: GateResult, find: Find) -> list[Checked]:
    """The checks; where one is not met, what its suite says to do is filled in.

    Args:
        spec: the migration.
        result: what was checked, judged already: only what is held can be shown as held.
        find: finds an example; it is called for what is not met alone.
    """
    return [
        check if check.success else replace(check, look=_filled(spec, result, check, find))
        for check in result.checks
    ]


def _filled(spec: Migration, result: GateResult, check: Checked, find: Find) -> str:
    if not any(sign in check.look for sign in (FILE, TABLE, KEY, HELD)):
        return check.look
    look = check.look.replace(FILE, spec.command("FILE").removeprefix("waybill "))
    look = look.replace(HELD, " --held" if result.outcome == FAILED else "")
    if TABLE not in look and KEY not in look:
        return look
    names: Sequence[str] = [str(found["where"]) for found in check.observed[:SHOWN]]
    column = str(check.arguments.get("column"))
    if check.table is not None:
        about = [find(ROWS, check.table, name) for name in names or [""]]
    else:
        about = [find(check.profile, column, name) for name in names or [""]]
    sentences = [_about(look, example) for example in about]
    return "\n".join(dict.fromkeys(sentences))


def _about(look: str, example: Example) -> str:
    """The commands about one example; what it does not tell is left out of them."""
    for option, sign, value in (
        (AT_KEY, KEY, example.key),
        (AT_TABLE, TABLE, example.table),
    ):
        look = look.replace(option, "") if value is None else look
        look = look.replace(sign, "" if value is None else shlex.quote(value))
    return look
