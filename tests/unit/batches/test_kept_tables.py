"""What a reload keeps of what it decodes."""

from __future__ import annotations

import pyarrow as pa

from waybill.batches.kept_tables import KeptTables
from waybill.envelopes.pairs import DUPLICATE
from waybill.lake_columns import CHANGES
from waybill.mapping.changes import STATEMENT
from waybill.mapping.rules import NOT_MET, NOT_SELECTED
from waybill.mapping.shards import EMPTIED, OF_ONE, VOID

LEFT_OUT = (EMPTIED, VOID, NOT_MET, STATEMENT, OF_ONE, DUPLICATE)


def row(table: str | None, outcome: str, reason: str | None = None) -> dict[str, str | None]:
    return {"database": "shop", "table": table, "outcome": outcome, "reason_kind": reason}


def test_changes_of_its_tables_that_count_and_what_was_left_out_of_these():
    kept = [
        *(row("orders", outcome) for outcome in ("ok", "refused", "waiting", "schema")),
        *(row("orders", "skipped", reason) for reason in LEFT_OUT),
        row("orders_old", "skipped", NOT_MET),
        row("orders_new", "schema"),
    ]
    others = [
        row("orders", "skipped", NOT_SELECTED),
        row("orders", "skipped", "heartbeat"),
        row("people", "ok"),
        row("", "ok"),
        row(None, "ok"),
    ]
    tables = KeptTables(("shop.orders*",))
    (found,) = tables.of([pa.RecordBatch.from_pylist([*kept, *others], CHANGES)])
    names = ("database", "table", "outcome", "reason_kind")
    assert [{name: r[name] for name in names} for r in found.to_pylist()] == kept
    assert tables.rows == 10
    assert tables.met == {"shop.orders", "shop.orders_old"}
