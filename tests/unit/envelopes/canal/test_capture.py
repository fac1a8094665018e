"""A stream recorded from Canal 1.1.7 leads to the database's own tables."""

from __future__ import annotations

import base64
import gzip
import json
import os
import struct
from collections import Counter
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.records import Message
from waybill.tables import TableRules

FOLDER = (
    Path(
        os.environ.get("WAYBILL_CAPTURES")
        or Path(__file__).resolve().parents[4].parent / "shared" / "captures"
    )
    / "canal-mariadb"
)

pytestmark = [
    pytest.mark.captures,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the recorded streams are not here"),
]


def lines(name: str) -> list[bytes]:
    path = FOLDER / name
    data = (
        path.read_bytes()
        if path.exists()
        else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())
    )
    return [line for line in data.split(b"\n") if line]


def truth(kind: str, value: str | None):
    """A value of the database's dump, as the folder's README compares it."""
    if value is None:
        return None
    compare = {
        "decimal": Decimal,
        "double": lambda v: struct.pack(">d", float(v)),
        "float": lambda v: struct.pack(">f", float(v)),
        "bytes": bytes.fromhex,
        "binary": bytes.fromhex,
        "bit": int,
    }
    return compare.get(kind, str)(value)


def text_of(kind: str, text: str | None):
    """A canonical text in the same terms."""
    if text is None:
        return None
    compare = {
        "decimal": Decimal,
        "double": lambda t: struct.pack(">d", float(t)),
        "float": lambda t: struct.pack(">f", float(t)),
        "bytes": lambda t: base64.b64decode(t, validate=True),
        "binary": lambda t: base64.b64decode(t, validate=True),
        "bit": lambda t: int.from_bytes(base64.b64decode(t, validate=True), "big"),
        "datetime0": lambda t: t.replace("T", " "),
        "datetime6": lambda t: t.replace("T", " "),
        "timestamp": lambda t: t.removesuffix("Z").replace("T", " "),
    }
    return compare.get(kind, str)(text)


def apply(tables: dict, change) -> None:
    table = tables[change.schema.table]
    if change.operation == "truncate":
        table.clear()
        return
    key = tuple(msgspec.structs.astuple(change.key_image()))
    old = change.old_key_image()
    if change.operation == "delete":
        # A column added since has its default here and was in no message before.
        assert row_of(change.schema, change.before).items() >= table.pop(key).items()
        return
    if change.operation == "update":
        before = key if old is None else tuple(msgspec.structs.astuple(old))
        assert row_of(change.schema, change.before).items() >= table.pop(before).items()
    else:
        assert key not in table
    table[key] = row_of(change.schema, change.after)


def row_of(schema, image) -> dict[str, str | None]:
    return dict(zip(schema.names, msgspec.structs.astuple(image), strict=True))


def compare(capture: dict, folder: str, tables: dict, known: dict) -> None:
    for name, table in capture["tables"].items():
        kinds = table["columns"]
        rows = {}
        for line in lines(f"{folder}/{name}.jsonl"):
            row = json.loads(line)
            rows[tuple(row[column] for column in table["key"])] = row
        assert rows.keys() == tables[name].keys()
        for key, row in rows.items():
            got = tables[name][key]
            for column, value in row.items():
                text = got[column] if column in got else table.get("added", {}).get(column)
                expected = known.get((name, tuple(map(str, key)), column), value)
                assert text_of(kinds[column], text) == truth(kinds[column], expected), (key, column)


def known_losses() -> dict:
    """What the messages say in cells whose dumped value no message carries, by state."""
    losses: dict = {}
    for line in lines("known-loss.jsonl"):
        cell = json.loads(line)
        place = cell["table"], tuple(map(str, cell["key"])), cell["column"]
        losses.setdefault(cell["state"], {})[place] = cell["message_says"]
    return losses


@pytest.mark.parametrize("through", ["canal", "canal again"])
def test_the_recorded_stream_leads_to_the_dumped_tables(through):
    envelope = registry.get("canal")
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    encoder = envelope.encoder(envelope.encode_settings())
    capture = json.loads((FOLDER / "capture.json").read_text())
    known = known_losses()
    tables: dict = {name: {} for name in capture["tables"]}
    points = {}
    for point in capture["points"]:
        points.setdefault(point["messages"], []).append(point)
    outcomes: Counter = Counter()
    losses: list[str] = []
    for offset, line in enumerate(lines("messages.jsonl")):
        for change in decode_message(decoder, Message("t", 0, offset, None, None, line)):
            outcomes[change.outcome, change.operation] += 1
            if change.outcome != "ok":
                continue
            if through == "canal again":
                (out,) = encoder.encode(change, losses)
                (change,) = decoder.decode(Message("t", 0, offset, None, None, out.value))
            if change.operation != "ddl":
                apply(tables, change)
        for point in points.get(offset + 1, ()):
            compare(capture, point["folder"], tables, known.get(point["state"], {}))
    assert outcomes == {
        ("ok", "insert"): 1678,
        ("ok", "update"): 1778,
        ("ok", "delete"): 407,
        ("ok", "ddl"): 6,
        ("ok", "truncate"): 1,
        ("skipped", "other"): 3318,
    }
    assert losses == []


def test_one_row_messages_come_back_byte_by_byte():
    """Canal to Canal writes what Canal wrote, but for floats, whose texts were Java's."""
    envelope = registry.get("canal")
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    encoder = envelope.encoder(envelope.encode_settings())
    compared = 0
    for offset, line in enumerate(lines("messages.jsonl")):
        changes = [
            c
            for c in decoder.decode(Message("t", 0, offset, None, None, line))
            if c.outcome == "ok"
        ]
        if len(changes) != 1:
            continue
        (out,) = encoder.encode(changes[0], [])
        if changes[0].schema.table == "orders" and changes[0].operation != "ddl":
            wrote, read = (json.loads(text) for text in (out.value, line))
            for image in [
                *(wrote["data"] or []),
                *(wrote["old"] or []),
                *(read["data"] or []),
                *(read["old"] or []),
            ]:
                for column in ("score", "ratio"):
                    if image.get(column) is not None:
                        image[column] = float(image[column])
                if image.get("hash8") is not None:
                    image["hash8"] = image["hash8"].ljust(8, "\0")
            assert wrote == read
        else:
            assert out.value == line
        compared += 1
    assert compared > 3000
