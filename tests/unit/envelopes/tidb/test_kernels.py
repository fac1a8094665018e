"""The columns in `mysqlType` are sorted before messages are read at once."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.contract.test_bulk import agree
from tests.contract.test_bulk_avro import batch_of
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.envelopes.tidb.bulk import TidbReader
from waybill.envelopes.tidb.decoder import TidbDecoder
from waybill.envelopes.tidb.kernels import MOST, sort_types
from waybill.envelopes.tidb.settings import TidbReadSettings
from waybill.records import Message
from waybill.tables import TableRules

COLUMNS = {"id": "bigint", "v": "varchar", "e": "enum('a','}')", "v2": "int", "名": "text"}


def arranged(*texts: bytes) -> list[bytes]:
    data = np.frombuffer(b"".join(texts) + bytes(8), np.uint8).copy()
    ends = np.cumsum([len(text) for text in texts])
    begins = ends - np.array([len(text) for text in texts])
    room = np.empty(max(map(len, texts)), np.uint8)
    sort_types(data, begins, ends, *np.empty((2, MOST), np.int64), room)
    return [data[a:b].tobytes() for a, b in zip(begins, ends, strict=True)]


def in_json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("count", [0, 1, 2, 9, MOST])
def test_sorted_types_say_the_same(count):
    names = [f"名{i}" if i % 3 else f"c{i}" for i in range(count)]
    random.Random(count).shuffle(names)
    other = '"mysqlType":{"b":"x","a":"y"}'
    text = in_json(first=other, mysqlType=dict.fromkeys(names, "set(',','}')"), last=other)
    (found,) = arranged(text)
    assert json.loads(found) == json.loads(text)
    assert list(json.loads(found)["mysqlType"]) == sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        in_json(mysqlType={f"c{MOST - i:03}": "int" for i in range(MOST + 1)}),
        b'{"mysqlType":{"b":"x","a":"\\u0041"}}',
        b'{"mysqlType":{"b":"x", "a":"y"}}',
        b'{"mysqlType":{"b":"x","a":1}}',
        b'{"mysqlType":{"b":"x","a":null}}',
        b'{"mysqlType":{"b":"x","a":"y"',
        b'{"mysqlType":{"b":"x","a',
        b'{"mysqlType":{',
        b'{"mysqlTyp',
        b"",
    ],
)
def test_others_stay_as_they_are(text):
    behind = b'{"mysqlType":{"a":"x"}}'
    assert arranged(text, behind) == [text, behind]


def messages(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    found = []
    for number in range(300):
        names = list(COLUMNS)
        draw.shuffle(names)
        row = {"id": str(number), "v": "x", "e": "2", "v2": "5", "名": "b"}
        document = {"id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False}
        document |= {"type": "INSERT", "es": 1_700_000_000_000, "ts": 1_700_000_000_001, "sql": ""}
        document |= {"sqlType": {"id": -5, "v": 12, "e": 4, "v2": 4, "名": 2005}}
        document |= {
            "mysqlType": {name: COLUMNS[name] for name in names},
            "old": None,
            "data": [row],
        }
        if number % 3 == 0:
            before = {**row, "id": str(number + number % 2)}
            document |= {"type": "UPDATE", "old": [before], "data": [{**row, "v": "y"}]}
        found.append(in_json(**document, _tidb={"commitTs": 440_000_000_000_000_000 + number}))
    return found


def test_messages_with_types_in_any_order_are_read_in_bulk_as_on_their_own():
    lines = messages(1)
    agree("tidb-canal", "canal", lines, TableRules(), TidbReadSettings())
    decoder = TidbDecoder(TidbReadSettings(), TableRules())
    many = BulkChangeBatches(ChangeBatches(decoder, "batch", None), TidbReader(decoder), fewest=1)
    rows: pa.RecordBatch = many.rows(
        batch_of([Message("t", 0, place, None, None, line) for place, line in enumerate(lines)])
    )
    # Of the updates every other one gives its row another key, and is two changes.
    assert many.in_bulk == 250
    assert rows.filter(pa.compute.equal(rows["outcome"], "ok")).num_rows == 350
