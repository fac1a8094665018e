"""Changes of columns that a verdict makes visible, as rows of `runs`.

Reports, `waybill status` and pages show those of the last batches. `runs` keeps every one, beside
the verdict that let it through and in the same commit, so that each is there once.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from waybill.lake_columns import MERGE_STATE, SCHEMA_EVENT
from waybill.report import COLUMN_CHANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake import Commit, Lake


def schema_events(lake: Lake, merges: Sequence[Commit]) -> list[tuple[Any, ...]]:
    """The changes of columns that visible merges brought, as rows of `runs`.

    Args:
        lake: the lake.
        merges: their stamps.
    """
    # A report names some of each table, the record has them all; most batches bring none.
    tables = {
        merge.batch: [
            name
            for name, account in merge.report["details"].items()
            if isinstance(account, dict) and COLUMN_CHANGES in account
        ]
        for merge in merges
    }
    batches = [batch for batch, names in tables.items() if names]
    if not batches:
        return []
    wanted = {"kind": [MERGE_STATE], "batch": batches}
    states = {
        row["batch"]: json.loads(row["body"])["tables"]
        for row in lake.scan(lake.log("merges"), ["batch", "body"], wanted)
    }
    now = datetime.now(UTC)
    return [
        (batch, SCHEMA_EVENT, event["change"], now, None, _text(name, event))
        for batch in batches
        for name in sorted(tables[batch])
        for event in states[batch][name]["changes"]
    ]


def _text(table: str, event: dict[str, Any]) -> str:
    return json.dumps({"table": table, **event}, ensure_ascii=False)
