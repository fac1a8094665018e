"""`waybill gate approve` and `waybill gate drop`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.cli.lake_session import open_lake, sign_of_life
from waybill.cli.output import console, print_json
from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from waybill.lake.decisions import GateDecision
    from waybill.spec.migration import Migration


def decide_command(
    migration: Path, what: str, reason: str, batch: str | None, as_json: bool
) -> None:
    """Take a decision about the held batch and say what follows from it.

    Args:
        migration: the migration's file.
        what: one of `waybill.lake.decisions.DECISIONS`.
        reason: why.
        batch: id of the batch that is meant; whichever is held where left out.
        as_json: whether to print it as JSON.
    """
    spec = load_migration(migration)
    from waybill.lake.decisions import RequestedDecision
    from waybill.overview.keeping import keep_overview
    from waybill.validate.deciding import decide, reason_of

    asked = RequestedDecision(what, login_name(), reason)
    # What cannot be taken down is said before Spark takes its time to start.
    reason_of(asked)
    sign_of_life("a decision is written into the lake")
    with open_lake(spec) as lake:
        if not lake.exists(lake.log("merges")):
            message = f"no batch of {spec.name} is held: it has not been run yet"
            raise ConfigurationError(message, code=Code.DECISION)
        decision = decide(spec, lake, asked, batch)
        keep_overview(spec, lake)
    if as_json:
        print_json([decision._asdict()])
        return
    for line in decision_lines(spec, decision):
        console().print(line, markup=False, soft_wrap=True)


def decision_lines(spec: Migration, decision: GateDecision) -> list[str]:
    """What was decided and what comes next, for a person."""
    from waybill.lake.decisions import APPROVED

    rules = [f"  {rule['rule']}" for rule in decision.rules]
    if decision.what == APPROVED:
        again = spec.command("run", "FILE", "--batch", decision.batch)
        then = (
            f"It is published by the next run, or now by `{again}`, if the gate finds the "
            "same again."
        )
    else:
        then = (
            "The next run merges its changes again, with new ones, and tries its refused messages "
            f"again: `{spec.command('run', 'FILE')}`"
        )
    failed = f"It does not meet {counted(len(rules), 'rule')}:"
    return [f"Batch {decision.batch} was {decision}", failed, *rules, then]


def login_name() -> str:
    """Who runs the command, as the system knows them: not what the environment says."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        # In a container a user may have no name.
        number = getattr(os, "getuid", lambda: "unknown")()
        return f"user {number}"
