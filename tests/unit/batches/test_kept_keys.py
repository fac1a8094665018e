"""What a reload of keys keeps of what it decodes."""

from __future__ import annotations

import pyarrow as pa

from waybill.batches.kept_keys import KeptKeys
from waybill.lake_columns import CHANGES
from waybill.mapping.rules import NOT_MET


def row(key: str | None, old_key: str | None = None, **more: str | None) -> dict[str, str | None]:
    given = {"database": "shop", "table": "orders", "outcome": "ok", "key": key}
    return {**given, "old_key": old_key, **more}


def test_changes_that_touch_a_key_and_what_names_none():
    kept = [
        *(row("1"), row("2", "1"), row("1", "2"), row("1", outcome="waiting")),
        row(None, outcome="refused"),
        row(None, outcome="schema"),
        row(None, outcome="skipped", reason_kind=NOT_MET),
    ]
    others = [
        *(row("2"), row("2", "3"), row(None), row("3", outcome="waiting")),
        row(None, outcome="skipped", reason_kind="heartbeat"),
        *(row("1", table="people"), row("1", schema=""), row("1", database=None)),
    ]
    keys = KeptKeys({"shop.orders": ["1"], "shop.audit": []})
    (found,) = keys.of([pa.RecordBatch.from_pylist([*kept, *others], CHANGES)])
    names = ("key", "old_key", "outcome")
    wanted = [tuple(one[name] for name in names) for one in kept]
    assert [tuple(one[name] for name in names) for one in found.to_pylist()] == wanted
    assert keys.others == 4
    assert [*keys.of([pa.RecordBatch.from_pylist(others, CHANGES)])] == []
