"""Topics of many tables have many forms: what learning them costs stays below what it is for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.bulk import forms
from waybill.bulk.block import lines_block
from waybill.envelopes import registry
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.sources.streams import BLANKS
from waybill.spec.migration import table_rules

if TYPE_CHECKING:
    import pytest

TABLES, EACH = 40, 10


def canal(table: int, number: int) -> bytes:
    flat = {
        "data": [{"id": str(number), "note": f"row {number}"}],
        "database": "shop",
        "es": 1_700_000_000_000 + number,
        "gtid": "",
        "id": number,
        "isDdl": False,
        "mysqlType": {"id": "bigint(20)", "note": "varchar(9)"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "note": 12},
        "table": f"orders{table}",
        "ts": 1_700_000_000_350 + number,
        "type": "INSERT",
    }
    return json.dumps(flat, separators=(",", ":")).encode()


class Topic:
    """Blocks of a few messages of each table, converted in bulk and message by message."""

    def __init__(self) -> None:
        reads, writes = registry.get("canal"), registry.get("ogg")
        settings = reads.decode_settings(), writes.encode_settings()
        self.refused: list[Any] = []

        def refuse(*why: Any) -> None:
            self.refused.append(why)

        self.exact = Converter(reads, writes, table_rules({}), *settings, refuse)
        self.bulk = BulkConverter(
            reads, writes, Converter(reads, writes, table_rules({}), *settings, refuse)
        )
        self.first = 0

    def block(self) -> int:
        """Convert one more block; returns how many of its messages were converted at once."""
        size = TABLES * EACH
        lines = [canal(i % TABLES, self.first + i) for i in range(size)]
        block, _ = lines_block(b"\n".join(lines), "t", self.first, BLANKS)
        self.first += size
        before = self.bulk.at_once
        found = self.bulk.convert(block).arrays()[1].to_pylist()
        expected: list[Any] = []
        self.exact.convert([block.message(i) for i in range(size)], expected, [])
        assert found == [one.value for one in expected]
        assert not self.refused
        return self.bulk.at_once - before


def test_no_more_is_learnt_than_messages_pay_for(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = []
    learn = forms.Forms._learn

    def counted(*arguments: Any) -> Any:
        learnt.append(arguments)
        return learn(*arguments)

    monkeypatch.setattr(forms.Forms, "_learn", counted)
    topic = Topic()
    for block in range(1, 4):
        topic.block()
        assert 0 < len(learnt) <= block * TABLES * EACH // forms.PRICE


def test_all_forms_are_known_in_the_end() -> None:
    topic = Topic()
    found = [topic.block() for _ in range(30)]
    assert found[0] < TABLES * EACH
    assert found[-1] == TABLES * EACH
