"""`waybill upkeep`."""

from __future__ import annotations

from pathlib import Path

from waybill.cli.lake_session import open_lake
from waybill.cli.output import print_json, print_table
from waybill.cli.run import watching
from waybill.errors import ConfigurationError
from waybill.spec.durations import seconds_of
from waybill.spec.file import load_migration


def upkeep_command(migration: Path, snapshots: str | None, as_json: bool) -> None:
    """Keep the tables of a migration in shape, and say what was done."""
    try:
        if snapshots is not None:
            seconds_of(snapshots)
    except ValueError as error:
        raise ConfigurationError(f"--snapshots {snapshots}: {error}") from None
    spec = load_migration(migration)
    from waybill.jobs import UPKEEP
    from waybill.upkeep.run import run_upkeep

    spec = spec.for_stage(UPKEEP)
    with watching() as progress, open_lake(spec) as lake:
        done = run_upkeep(spec, lake, snapshots or spec.snapshots_kept, progress)
    if as_json:
        print_json(kept._asdict() for kept in done)
        return
    print_table(
        [
            "table",
            "files joined",
            "delete files removed",
            "snapshots expired",
            "tombstones expired",
            "messages deleted",
            "left",
        ],
        [[kept.table.split(".", 1)[1], *kept[1:]] for kept in done],
        spec.name,
    )
