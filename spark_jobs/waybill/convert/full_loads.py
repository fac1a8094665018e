"""Reads the rows of table dumps as changes, beside the source's envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.full_load import HEADER, TOPIC, FullLoad
from waybill.order import AFTER, LOAD, LOADED
from waybill.records import Change, Column, TableSchema, intern_schema
from waybill.types import UNKNOWN, parse_type
from waybill.values.json_columns import Style, kind_of, notation_of, read_one
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.protocol import Decoder
    from waybill.records import Message
    from waybill.tables import TableRules
    from waybill.types import LogicalType
    from waybill.values.notation import Notation

_STYLE = Style(quoted=True)
_row = msgspec.json.Decoder(dict[str, Raw]).decode


class WithFullLoads:
    """A decoder that also reads the topics of full loads.

    Args:
        decoder: the source envelope's.
        rules: declared keys and column types.
    """

    def __init__(self, decoder: Decoder, rules: TableRules) -> None:
        self.decoder = decoder
        self.rules = rules
        self._loads: Bounded[bytes, _Load] = Bounded()

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message; see `Decoder.decode`."""
        if not message.topic.startswith(TOPIC):
            return self.decoder.decode(message)
        header = dict(message.headers or ()).get(HEADER)
        if header is None:
            return self.decoder.decode(message)
        load = self._loads.get(header)
        if load is None:
            load = self._loads[header] = _Load(FullLoad.from_header(header), self.rules)
        return [load.change(message)]


def has_full_loads(batch: pa.RecordBatch) -> bool:
    """Whether messages of full loads are among those of a batch."""
    # What reads migrations' files loads this module, and has no use for Arrow.
    import pyarrow.compute as pc

    found: Any = pc.starts_with(batch.column("topic"), TOPIC)
    return bool(pc.any(found).as_py())


class _Load:
    """One full load of one table."""

    def __init__(self, load: FullLoad, rules: TableRules) -> None:
        *spaces, table = load.table.split(".", 2)
        self.database = spaces[0] if spaces else None
        self.schema = spaces[1] if len(spaces) > 1 else None
        self.table = table
        self.as_of = load.as_of
        self.rule = rules.find(self.database, self.schema, table)
        types = {name: parse_type(text) for name, text in load.types.items()}
        self.types: dict[str, LogicalType] = {**types, **self.rule.columns}
        self._last: tuple[tuple[str, ...], TableSchema, list[Notation]] | None = None

    def change(self, message: Message) -> Change:
        if message.value is None:
            nothing = intern_schema(self.database, self.schema, self.table)
            return Change("truncate", nothing, message, sequence=self.as_of, rank=LOAD)
        check_json(message.value)
        try:
            row = _row(message.value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        schema, notations = self._table(row)
        values = {}
        for i, (name, raw) in enumerate(row.items()):
            try:
                values[f"f{i}"] = read_one(notations[i], raw)
            except Refusal as refusal:
                raise Refusal(refusal.kind, f"column {name!r}: {refusal.sentence}") from None
        image = schema.Image(**values)
        return Change(
            "read",
            schema,
            message,
            after=image,
            sequence=self.as_of,
            rank=AFTER if self.as_of is None else LOADED,
            full_row=self.as_of is None,
        )

    def _table(self, row: dict[str, Raw]) -> tuple[TableSchema, list[Notation]]:
        names = tuple(row)
        last = self._last
        new = [name for name in names if self.types.get(name, UNKNOWN) == UNKNOWN]
        if (
            last is not None
            and last[0] == names
            and not any(kind_of(row[name]) != UNKNOWN for name in new)
        ):
            return last[1], last[2]
        for name in new:
            self.types[name] = kind_of(row[name])
        kinds = [self.types[name] for name in names]
        columns = tuple(Column(n, kind) for n, kind in zip(names, kinds, strict=True))
        schema = intern_schema(self.database, self.schema, self.table, columns, self.rule.key)
        notations = [notation_of(kind, _STYLE) for kind in kinds]
        self._last = (names, schema, notations)
        return schema, notations
