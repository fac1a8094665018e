"""A tiny envelope for tests of the stages: one JSON object a message.

`{"op": "insert", "table": "t", "seq": 3, "row": {"id": "1", …}}`, with `old` for the before image;
`rows` instead of `row` for several inserts in one message; `half` for halves of updates; `key` for
the key columns, `sql` for a statement, `full` for a row of a snapshot. One that is `damaged` is
refused until the setting `mended`.
"""

from __future__ import annotations

import json
from typing import Any

from waybill.errors import Refusal
from waybill.protocol import CAPABILITIES, Encoded, Envelope, Settings
from waybill.records import Change, Column, Message, TableSchema, intern_schema, refused, skipped
from waybill.types import STRING


class TinySettings(Settings):
    database: str = "shop"
    mended: bool = False


class TinyDecoder:
    def __init__(self, settings: TinySettings, rules: Any) -> None:
        self.settings = settings

    def decode(self, message: Message) -> list[Change]:
        try:
            data = json.loads(message.value or b"")
        except ValueError as error:
            raise Refusal("json", "not JSON") from error
        if data["op"] == "crash":
            raise RuntimeError("a fault of the decoder")
        if data["op"] == "noise":
            return [skipped(message, "noise")]
        if "damaged" in data and not self.settings.mended:
            raise Refusal("shape", "damaged")
        if data["op"] in ("truncate", "ddl"):
            return [self._statement(message, data)]
        if "rows" in data:
            return [
                refused(message, Refusal("shape", "no row", index=i))
                if row is None
                else self._change(message, data, row, i)
                for i, row in enumerate(data["rows"])
            ]
        return [self._change(message, data, data["row"], 0)]

    def _statement(self, message: Message, data: dict) -> Change:
        schema = intern_schema(self.settings.database, None, data["table"])
        sequence = None if "seq" not in data else (data["seq"],)
        return Change(data["op"], schema, message, sequence=sequence, ddl_text=data.get("sql"))

    def _change(self, message: Message, data: dict, row: dict, index: int) -> Change:
        schema = self._schema(data, row)
        half = data.get("half")
        image = self._image(schema, row)
        old = data.get("old")
        before = image if half == "before" or data["op"] == "delete" else None
        return Change(
            operation=data["op"],
            schema=schema,
            message=message,
            index=index,
            before=before if old is None else self._image(schema, old),
            after=None if half == "before" or data["op"] == "delete" else image,
            sequence=None if "seq" not in data else (data["seq"],),
            rank=0 if half == "before" else 1,
            full_row="full" in data,
            half=half,
        )

    def _schema(self, data: dict, row: dict) -> TableSchema:
        columns = tuple(Column(name, STRING) for name in row)
        table, key = data.get("table", "t"), tuple(data.get("key", ("id",)))
        return intern_schema(self.settings.database, None, table, columns, key)

    @staticmethod
    def _image(schema: TableSchema, row: dict) -> Any:
        return schema.Image(*[row[name] for name in schema.names if name in row])


class TinyEncoder:
    def __init__(self, settings: TinySettings) -> None:
        pass

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        if change.operation == "delete":
            losses.append("delete")
            return []
        after = {} if change.after is None else json.loads(_json(change.after))
        if "unwritable" in after.values():
            raise Refusal("encoding", "cannot be written")
        if change.before is not None:
            losses.append("before_image")
        value = json.dumps({"op": change.operation, "after": after}).encode()
        if "twice" in after.values():
            return [Encoded(None, value), Encoded(b"second", value)]
        return [Encoded(None, value)]


def _json(image: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(image)


ENVELOPE = Envelope(
    name="tiny",
    title="for tests",
    source="these tests",
    sequence="seq",
    carries=frozenset(CAPABILITIES) - {"delete", "before_image"},
    decoder=TinyDecoder,
    encoder=TinyEncoder,
    decode_settings=TinySettings,
    encode_settings=TinySettings,
    pairs=True,
)
