"""`sqlType` of messages of several rows: stated for the last one, carried by those it is not of."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec

from waybill.envelopes.canal.settings import CanalReadSettings
from waybill.envelopes.canal.text_rows import CanalDecoder
from waybill.records import Message
from waybill.tables import TableRules

SMALL, LARGE = "1", str(2**63)
"""Of a BIGINT UNSIGNED: Canal's number for it is another one where BIGINT does not hold it."""


def _message(number: int, values: list[str], sql: int) -> Message:
    rows = [{"id": str(number), "u": value} for value in values]
    flat: dict[str, Any] = {
        "data": rows,
        "database": "d",
        "es": 1714000000000 + number,
        "id": number,
        "isDdl": False,
        "mysqlType": {"id": "bigint", "u": "bigint unsigned"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "u": sql},
        "table": "t",
        "ts": 1714000000350,
        "type": "INSERT",
    }
    return Message("t", 0, number, 5, None, msgspec.json.encode(flat))


def _decoder() -> CanalDecoder:
    return CanalDecoder(CanalReadSettings(), TableRules({}))


def test_rows_of_other_kinds_are_read_by_the_table_and_carry_what_was_stated():
    decoder = _decoder()
    decoder.decode(_message(0, [SMALL, LARGE], 3))
    known = [
        _message(1, [LARGE, SMALL, LARGE], 3),
        _message(2, [SMALL], 3),
        _message(3, [LARGE], 3),
    ]
    with patch.object(decoder, "_slow", side_effect=AssertionError("read exactly")):
        found = [decoder.decode(message) for message in known]
    assert found == [_decoder().exact(message) for message in known]
    carried = [b"sqlType" in (change.extra or b"") for change in found[0]]
    assert carried == [False, True, False]


def test_a_number_that_was_not_seen_with_such_a_row_is_looked_at():
    decoder = _decoder()
    decoder.decode(_message(0, [SMALL], -5))
    for message in (_message(1, [SMALL, LARGE], -5), _message(2, [SMALL], 12)):
        with patch.object(decoder, "_slow", wraps=decoder._slow) as exactly:
            assert decoder.decode(message) == _decoder().exact(message)
        assert exactly.call_count == 1
