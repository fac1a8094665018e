"""What topics of many tables cost: tables of the same columns what one does, others no more than
what learning their forms is for.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from waybill.bulk import forms, templates
from waybill.bulk.block import lines_block
from waybill.envelopes import registry
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.sources.streams import BLANKS
from waybill.spec.migration import table_rules

TABLES, EACH = 40, 10


def canal(table: int, number: int, note: str) -> bytes:
    flat = {
        "data": [{"id": str(number), note: f"row {number}"}],
        "database": "shop",
        "es": 1_700_000_000_000 + number,
        "gtid": "",
        "id": number,
        "isDdl": False,
        "mysqlType": {"id": "bigint(20)", note: "varchar(9)"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, note: 12},
        "table": f"orders{table}",
        "ts": 1_700_000_000_350 + number,
        "type": "INSERT",
    }
    return json.dumps(flat, separators=(",", ":")).encode()


class Topic:
    """Blocks of a few messages of each table, converted in bulk and message by message.

    Args:
        uniform: whether the tables have the same columns.
    """

    def __init__(self, uniform: bool) -> None:
        self.uniform = uniform
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
        lines = [
            canal(i % TABLES, self.first + i, "note" if self.uniform else f"note{i % TABLES}")
            for i in range(size)
        ]
        block, _ = lines_block(b"\n".join(lines), "t", self.first, BLANKS)
        self.first += size
        before = self.bulk.in_bulk
        found = self.bulk.convert(block).arrays()[1].to_pylist()
        expected: list[Any] = []
        self.exact.convert([block.message(i) for i in range(size)], expected, [])
        assert found == [one.value for one in expected]
        assert not self.refused
        return self.bulk.in_bulk - before


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was tried to be learnt."""
    found: list[Any] = []
    learn = forms.Forms._learn

    def counted(*arguments: Any) -> Any:
        found.append(arguments)
        return learn(*arguments)

    monkeypatch.setattr(forms.Forms, "_learn", counted)
    return found


def test_tables_of_the_same_columns_have_one_form(
    monkeypatch: pytest.MonkeyPatch, learnt: list[Any]
) -> None:
    planned = []
    plan = templates.Templates._learn

    def counted(*arguments: Any) -> Any:
        planned.append(arguments)
        return plan(*arguments)

    monkeypatch.setattr(templates.Templates, "_learn", counted)
    topic = Topic(uniform=True)
    assert [topic.block() for _ in range(3)] == [TABLES * EACH] * 3
    assert (len(learnt), len(planned)) == (1, 1)


def test_no_more_is_learnt_than_messages_pay_for(learnt: list[Any]) -> None:
    topic = Topic(uniform=False)
    for block in range(1, 4):
        topic.block()
        assert len(learnt) <= block * TABLES * EACH // forms.PRICE
    assert learnt


def test_all_forms_are_known_in_the_end() -> None:
    topic = Topic(uniform=False)
    found = [topic.block() for _ in range(30)]
    assert found[0] < TABLES * EACH
    assert found[-1] == TABLES * EACH
