"""`waybill suite init`: a suite of expectations to begin with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from waybill.cli.lake_session import open_lake
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.inprocess.lines import check_new
from waybill.spec.file import load_migration
from waybill.storage.file_store import file_name
from waybill.suggestions import unknown


def init_command(
    migration: Path, table: str, output: Path | None, whole: bool, force: bool
) -> None:
    """Write a suite that the rows of a merged table meet.

    Args:
        migration: the migration's file.
        table: the source table.
        output: the file; by default `<table>.suite.json` beside the migration's.
        whole: whether the suite runs over all rows of the table, not those of the batch.
        force: write over a file that is there.

    Raises:
        ConfigurationError: the file is there, the table is not, or it has no rows.
    """
    from waybill.validate.great_expectations_context import in_memory, loaded
    from waybill.validate.seen_rows import live_rows
    from waybill.validate.suite_drafts import draft_suite
    from waybill.validate.suites import BATCH, TABLE, load_suite

    spec = load_migration(migration)
    file = output or migration.parent / f"{file_name(table)}.suite.json"
    check_new(force, str(file))
    with open_lake(spec) as lake:
        tables = lake.merged_tables()
        if table not in tables:
            raise ConfigurationError(unknown("merged table", table, list(tables)))
        rows = live_rows(lake.read(tables[table]))
        row = rows.select("_waybill_key").first()
        if row is None:
            message = f"{table} has no rows to learn from: run the migration first"
            raise ConfigurationError(f"{message}, `{spec.command('run', 'FILE')}`")
        # Of a table without key these are names that no column has.
        key = list(json.loads(row[0]))
        name = file.name.removesuffix(".json").removesuffix(".suite")
        suite = draft_suite(name, table, TABLE if whole else BATCH, rows, key)
    file.write_text(json.dumps(suite, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    with in_memory():
        rules = len(loaded(load_suite(str(file))).expectations)
    sys.stderr.write(
        f"{file}: {counted(rules, 'expectation')}, all of them warnings; edit it, name it in "
        f"quality.suites of {migration}, and try it with `{spec.command('check', 'FILE')}`\n"
    )
