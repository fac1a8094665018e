"""`waybill report`: Great Expectations' Data Docs of what the gate has said."""

from __future__ import annotations

import sys
from pathlib import Path

from waybill.cli.output import print_json
from waybill.counting import counted
from waybill.spec.file import load_migration


def site_command(migration: Path, place: str, as_json: bool) -> None:
    """Build the site or add to it.

    Args:
        migration: the migration's file.
        place: folder or URL where the pages are written.
        as_json: whether to print what was done as JSON.
    """
    spec = load_migration(migration)
    from waybill.validate.data_docs import build_site

    built = build_site(spec, place)
    if as_json:
        print_json([built._asdict()])
        return
    for what in built.failed:
        sys.stderr.write(
            f"waybill: Great Expectations makes no page of {what}, e.g. because an expectation is "
            f"not installed here; its gate report has it\n"
        )
    sys.stdout.write(
        f"{built.page}: {counted(built.verdicts, 'verdict')} of the gate, {built.added} of them "
        "new\n"
    )
