"""DataHub messages that are written from other envelopes, one by one and at once."""

from __future__ import annotations

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.records import Message
from waybill.tables import TableRules

ROW = {"id": "1", "name": "Ann"}
TYPES = {"id": "bigint", "name": "varchar(20)"}


def canal(es: int | None, number: int = 0) -> bytes:
    """A row of a FlatMessage, at a time in milliseconds."""
    message = {
        "data": [{**ROW, "id": str(number)}],
        "database": "shop",
        "es": es,
        "id": 7,
        "isDdl": False,
        "mysqlType": TYPES,
        "old": None,
        "pkNames": ["id"],
        "table": "people",
        "ts": 1_700_000_000_000,
        "type": "INSERT",
    }
    return msgspec.json.encode(message)


def read_times(target: str, lines: list[bytes]) -> tuple[list[int | None], int]:
    """The times of what is written from Canal, as they are read again, and how many were lost."""
    written = one_by_one(Outcome("canal", target, TableRules()), lines)
    envelope = registry.get(target)
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    found = [
        change.source_time
        for offset, value in enumerate(written["values"])
        for change in decoder.decode(Message("out", 0, offset, None, None, value))
    ]
    return found, written["losses"]["source_time"]


@pytest.mark.parametrize("target", ["datahub-blob", "datahub-tuple"])
def test_a_time_before_1970_is_written_as_none_and_counted(target):
    times = [1_700_000_000_000, 0, -1, -2, -5_000, -62_135_596_800_000]
    lines = [canal(es) for es in times]
    assert read_times(target, lines) == ([1_700_000_000_000_000, 0, None, None, None, None], 4)
    many = [canal(times[n % len(times)], n) for n in range(120)]
    agree("canal", target, many, TableRules())


def test_the_bare_name_of_a_table_is_counted_and_not_of_one_that_has_no_more():
    lines = [canal(1_700_000_000_000, n) for n in range(40)]
    lines += [line.replace(b'"database":"shop"', b'"database":""') for line in lines]
    bare = registry.get("datahub-tuple").encode_settings(source_table="name")
    outcome = one_by_one(Outcome("canal", "datahub-tuple", TableRules(), None, bare), lines)
    assert outcome["losses"]["schema_name"] == 40
    assert b'"_source_table_":"people"' in outcome["values"][0]
    agree("canal", "datahub-tuple", lines, TableRules(), None, bare)
