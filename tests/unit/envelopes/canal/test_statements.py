"""Statements of Canal's messages that are no change of a schema: none gets lost on the way."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pyarrow as pa

from tests.contract.outbox_rows import accepted_halves, encoded
from tests.contract.roundtrip import write_settings
from tests.contract.test_bulk import Outcome, agree, one_by_one
from tests.contract.test_bulk_rows import archive_of
from waybill.batches.decoding import ChangeBatches
from waybill.envelopes import registry
from waybill.tables import TableRules

MESSAGE: dict[str, Any] = {
    "data": None,
    "database": "shop",
    "es": 1_700_000_000_000,
    "gtid": "",
    "id": 7,
    "isDdl": False,
    "mysqlType": None,
    "old": None,
    "pkNames": None,
    "sql": "",
    "sqlType": None,
    "table": "people",
    "ts": 1_700_000_000_350,
    "type": "INSERT",
}


def line(number: int) -> bytes:
    """A row; one in three with a statement beside it; or one event of an XA transaction in five."""
    if number % 5 == 4:
        xa = {"type": "XACOMMIT", "sql": f"XA COMMIT 'x{number}'", "table": "", "database": ""}
        return msgspec.json.encode({**MESSAGE, **xa})
    row = {
        "data": [{"id": str(number), "name": "Ann"}],
        "mysqlType": {"id": "bigint", "name": "varchar(20)"},
        "pkNames": ["id"],
        "sqlType": {"id": -5, "name": 12},
        "sql": f"insert {number}" if number % 3 == 1 else "",
    }
    return msgspec.json.encode({**MESSAGE, **row})


LINES = [line(number) for number in range(90)]


def test_a_statement_goes_on_to_canal():
    written = one_by_one(Outcome("canal", "canal", TableRules()), LINES)["values"]
    assert written == LINES
    assert agree("canal", "canal", LINES, TableRules()) > 20


def test_a_statement_goes_on_to_canal_by_the_lake():
    envelope = registry.get("canal")
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    archive = archive_of(LINES, random.Random(1))
    table = pa.Table.from_batches(ChangeBatches(decoder, "batch").convert(iter([archive])))
    batches, schemas = accepted_halves(table)
    settings = write_settings(envelope)
    expected = encoded("canal", settings, batches, schemas, bulk=False)
    assert encoded("canal", settings, batches, schemas, bulk=True) == expected
    came = [value for value in archive.column("value").to_pylist() if value]
    assert sorted(row["value"] for row in expected) == sorted(came)
