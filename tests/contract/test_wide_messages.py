"""Messages of very many columns, through every envelope: refused before they cost anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.roundtrip import read, read_settings, rules_for, write_settings
from tests.contract.test_envelopes import BOTH_WAYS
from tests.histories import by_name, column_of
from waybill import caches as bounded
from waybill.caches import Bounded
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import Refusal
from waybill.records import Change, Message, TableSchema, image_struct, intern_schema
from waybill.values import generated

WIDTH = 300

envelopes = pytest.mark.parametrize("envelope", BOTH_WAYS, ids=lambda envelope: envelope.name)


def table(width: int = WIDTH, prefix: str = "c") -> TableSchema:
    columns = [column_of("id", "int64", ""), *_texts(width - 1, prefix)]
    return intern_schema("shop", None, "wide", tuple(columns), ("id",))


def _texts(count: int, prefix: str) -> list[Any]:
    return [column_of(f"{prefix}{i}", "string", "") for i in range(count)]


def messages_of(envelope: Any, schema: TableSchema, offset: int = 0) -> list[Message]:
    """An inserted row as the envelope writes it."""
    origin = Message("topic", 0, offset, 1_700_000_000_000, None, None)
    row = schema.Image("1", *("x" for _ in schema.columns[1:]))
    change = Change(
        "insert", schema, origin, after=row, sequence=(7,), source_time=1_700_000_000_000_000
    )
    written = envelope.encoder(write_settings(envelope)).encode(change, [])
    return [
        Message("topic", 0, offset + i, 1_700_000_000_000, one.key, one.value, one.headers)
        for i, one in enumerate(written)
    ]


@envelopes
def test_a_message_of_more_columns_than_allowed_is_refused(envelope) -> None:
    schema = table()
    messages = messages_of(envelope, schema)
    settings = read_settings(envelope, write_settings(envelope))
    rules = rules_for(envelope, [schema])
    rules.max_columns = WIDTH - 1
    with pytest.raises(Refusal) as caught:
        read(envelope.decoder(settings, rules), PairJoiner(), messages)
    assert f"the message describes {WIDTH} columns" in str(caught.value)
    assert "set source.max_columns (convert: --max-columns) higher" in str(caught.value)
    rules.max_columns = WIDTH
    (change,) = read(envelope.decoder(settings, rules), PairJoiner(), messages)
    assert by_name(change.schema, change.after) == {
        "id": "1",
        **{f"c{i}": "x" for i in range(WIDTH - 1)},
    }


@envelopes
def test_what_is_made_for_tables_is_bounded_by_their_columns(envelope, monkeypatch) -> None:
    """Ever new columns in every message: whatever a decoder keeps, it keeps so much of."""
    monkeypatch.setattr(bounded, "MOST_COLUMNS", 1_000)
    stored: list[Bounded[Any, Any]] = []
    store = Bounded.__setitem__

    def watched(self: Bounded[Any, Any], key: Any, value: Any) -> None:
        store(self, key, value)
        if not any(self is one for one in stored):
            stored.append(self)
        if len(self) > 1:
            assert sum(bounded._columns(k, v) for k, v in self.items()) <= 1_000

    monkeypatch.setattr(Bounded, "__setitem__", watched)
    schemas = [table(120, f"p{n}_") for n in range(20)]
    settings = read_settings(envelope, write_settings(envelope))
    decoder = envelope.decoder(settings, rules_for(envelope, schemas[:1]))
    for n, schema in enumerate(schemas):
        try:
            read(decoder, PairJoiner(), messages_of(envelope, schema, 10 * n))
        except Refusal as refusal:
            assert refusal.kind in ("schema", "shape", "value")  # noqa: PT017 - the others count
    assert any(len(kept) and kept._columns for kept in stored)


def test_columns_are_counted_down_when_something_is_replaced(monkeypatch) -> None:
    monkeypatch.setattr(bounded, "MOST_COLUMNS", 100)
    kept: Bounded[str, Any] = Bounded()
    for _ in range(50):
        kept["a"] = tuple(range(40))
    kept["b"] = tuple(range(40))
    assert list(kept) == ["a", "b"]
    assert not kept.roomy
    assert kept.starts_over_with("c", tuple(range(40)))
    kept["c"] = tuple(range(40))
    assert list(kept) == ["c"]
    assert kept.roomy


def test_two_structs_of_the_same_names_are_one(monkeypatch) -> None:
    """However many others come between: images of two would never be equal."""
    monkeypatch.setattr(bounded, "MOST_COLUMNS", 10)
    names = ("a", "b", "c")
    held = image_struct(names)
    for n in range(50):
        image_struct(tuple(f"x{n}_{i}" for i in range(9)))
    assert image_struct(names) is held


CODE = {
    **dict.fromkeys(("oms-default", "oms-extended"), 150),
    "debezium-json": 80,
    **dict.fromkeys(("databus-binary", "databus-json", "ibmcdc-avro"), 350),
    "debezium-avro": 450,
}
"""Characters of code for a column of a form that came once; the other envelopes compile none."""


class _Work:
    """Counts what is compiled and the fields of structs that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled = self.fields = 0
        code, defstruct = generated._code, msgspec.defstruct

        def counted_code(source: str) -> Any:
            self.compiled += len(source)
            return code(source)

        def counted_struct(name: str, fields: Any, **options: Any) -> Any:
            fields = list(fields)
            self.fields += len(fields)
            return defstruct(name, fields, **options)

        monkeypatch.setattr(generated, "_code", counted_code)
        monkeypatch.setattr(msgspec, "defstruct", counted_struct)


@envelopes
def test_reading_columns_that_do_not_repeat_costs_in_proportion_to_them(
    envelope, monkeypatch
) -> None:
    """Every message has a table of its own width and of other names than all before it."""
    schemas = [table(120 + n, f"p{n}_") for n in range(20)]
    columns = sum(len(schema.columns) for schema in schemas)
    messages = [messages_of(envelope, schema, 10 * n) for n, schema in enumerate(schemas)]
    settings = read_settings(envelope, write_settings(envelope))
    decoder = envelope.decoder(settings, rules_for(envelope, schemas[:1]))
    work = _Work(monkeypatch)
    for some in messages:
        assert read(decoder, PairJoiner(), some)
    assert work.compiled <= CODE.get(envelope.name, 0) * columns + 10_000
    # Images of a table whose rows may lack columns have those of the messages before it too.
    known = sum(columns * (n + 1) / len(schemas) for n in range(len(schemas)))
    assert work.fields <= 4 * columns + known + 100 * len(schemas)
