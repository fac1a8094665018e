"""A topic of many tables, whose messages take turns."""

from __future__ import annotations

import msgspec

from waybill.envelopes.debezium import decoder as module
from waybill.envelopes.debezium.decoder import DebeziumDecoder
from waybill.envelopes.debezium.events import Event
from waybill.envelopes.debezium.settings import DebeziumReadSettings
from waybill.records import Message
from waybill.spec.migration import Table, table_rules

TABLES = 400


def message(number: int, offset: int) -> Message:
    source = {"connector": "mysql", "db": "shop", "table": f"orders_{number}", "ts_ms": 1}
    value = {
        "before": None,
        "after": {"id": offset, "name": "Ann"},
        "source": {**source, "file": "bin.000001", "pos": offset, "row": 0},
        "op": "c",
        "ts_ms": 2,
    }
    return Message("shop", 0, offset, None, None, msgspec.json.encode(value))


def test_what_is_known_of_a_table_is_not_worked_out_again(monkeypatch) -> None:
    declared = {"key": ["id"], "columns": {"id": "bigint", "name": "varchar(20)"}}
    rules = table_rules({f"shop.orders_{n}": Table.model_validate(declared) for n in range(TABLES)})
    decoder = DebeziumDecoder(DebeziumReadSettings(), rules)
    made: list[Event] = []

    def counted(*facts) -> Event:
        made.append(Event(*facts))
        return made[-1]

    monkeypatch.setattr(module, "Event", counted)
    for turn in range(2):
        for number in range(TABLES):
            offset = turn * TABLES + number
            (change,) = decoder.decode(message(number, offset))
            assert change.schema.table == f"orders_{number}"
            assert (change.after.f0, change.after.f1) == (str(offset), "Ann")
        assert len(made) == TABLES
