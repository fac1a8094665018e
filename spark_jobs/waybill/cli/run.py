"""`waybill run`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from waybill.cli.group import forget_output
from waybill.cli.waybill_table import print_waybill
from waybill.errors import ConfigurationError
from waybill.report import Waybill
from waybill.spec.durations import moment_of
from waybill.spec.file import load_migration


class Ways(NamedTuple):
    """How a run differs from the ordinary one.

    Attributes:
        mode: see `waybill.stage_context.Options`.
        drop_held: drop what a failed gate holds.
        until_time: read topics up to this time at most, as people write it.
        tables: which tables mode `reload` takes.
        keys: which keys of them.
    """

    mode: str = "incremental"
    drop_held: bool = False
    until_time: str | None = None
    tables: tuple[str, ...] = ()
    keys: str = "all"


def run_command(
    migration: Path, until: str | None, batch: str | None, ways: Ways, as_json: bool
) -> None:
    """Run a batch and print its waybill, also of one that the gate holds."""
    spec = load_migration(migration)
    from waybill.jobs import new_batch_id, run_migration

    try:
        end = None if ways.until_time is None else moment_of(ways.until_time)
    except ValueError:
        message = f"--until-time {ways.until_time}: write a time such as 2026-11-20T06:00"
        raise ConfigurationError(message) from None
    waybill = Waybill(spec.name, batch or new_batch_id())
    with watching():
        try:
            run_migration(
                spec,
                until=until,
                batch=waybill.batch,
                mode=ways.mode,
                tables=ways.tables,
                keys=ways.keys,
                drop_held=ways.drop_held,
                until_time=end,
                on_stage=waybill.stages.append,
            )
        finally:
            # What was done is reported even if the next stage failed.
            if waybill.stages:
                _print(waybill, as_json)


def _print(waybill: Waybill, as_json: bool) -> None:
    try:
        if as_json:
            sys.stdout.write(waybill.to_json() + "\n")
        else:
            print_waybill(waybill)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # Nobody reads the waybill (rich leaves the process then); what the stages did still decides
        # how the command ends.
        forget_output()


class watching:
    """Shows the stages' own lines while they work, on standard error, also where that is a pipe."""

    def __init__(self) -> None:
        self._handler: logging.Handler | None = None

    def __enter__(self) -> Callable[..., None]:
        handler = self._handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log = logging.getLogger("waybill")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        return log.info

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            logging.getLogger("waybill").removeHandler(self._handler)
