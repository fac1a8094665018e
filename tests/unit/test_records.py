"""Schemas, images and keys of the canonical change."""

from __future__ import annotations

import gc
import pickle

import msgspec
import pytest
from msgspec import UNSET

from waybill import records
from waybill.caches import Bounded
from waybill.errors import Refusal, WaybillError
from waybill.records import (
    Change,
    Column,
    Message,
    TableSchema,
    image_struct,
    intern_schema,
    key_of,
)
from waybill.types import LogicalType

MESSAGE = Message("topic", 0, 5, None, None, b"{}")


def schema(*names: str, key: tuple[str, ...] | None = ("id",)) -> TableSchema:
    columns = tuple(Column(name, LogicalType("string")) for name in names)
    return intern_schema("shop", None, "orders", columns, key)


def test_equal_schemas_are_one_object_and_read_back() -> None:
    one = schema("id", "name")
    assert schema("id", "name") is one
    assert TableSchema.from_json(one.to_json()) is one
    assert schema("name", "id") is not one
    assert schema("name", "id").id != one.id


def test_schemas_that_nobody_holds_do_not_pile_up() -> None:
    held = schema("id", "kept")
    before = len(records._SCHEMAS)
    for number in range(100):
        schema("id", f"hostile{number}")
    gc.collect()
    assert len(records._SCHEMAS) <= before
    assert schema("id", "kept") is held


def test_a_full_memory_starts_anew(monkeypatch) -> None:
    monkeypatch.setattr("waybill.caches.LIMIT", 3)
    known: Bounded[int, int] = Bounded()
    for number in range(5):
        known[number] = number
    assert known == {3: 3, 4: 4}


def test_absent_null_and_empty_stay_apart() -> None:
    orders = schema("id", "name", "note")
    text = msgspec.json.encode(orders.Image("1", None, UNSET))
    assert text == b'{"id":"1","name":null}'
    image = orders.image_decoder.decode(text)
    assert (image.f0, image.f1, image.f2) == ("1", None, UNSET)
    assert orders.image_decoder.decode(b'{"id":""}').f0 == ""


def test_a_text_image_never_holds_a_number() -> None:
    with pytest.raises(msgspec.ValidationError):
        schema("id").image_decoder.decode(b'{"id":1}')


def test_a_column_that_is_not_in_the_schema_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        schema("id").image_decoder.decode(b'{"id":"1","ghost":"2"}')


def test_key_change_is_seen_in_the_images() -> None:
    orders = schema("id", "name")
    moved = Change(
        "update", orders, MESSAGE, before=orders.Image("1", "a"), after=orders.Image("2", "a")
    )
    assert msgspec.json.encode(moved.key_image()) == b'{"id":"2"}'
    assert msgspec.json.encode(moved.old_key_image()) == b'{"id":"1"}'
    stayed = Change(
        "update", orders, MESSAGE, before=orders.Image("1", "a"), after=orders.Image("1", "b")
    )
    assert stayed.old_key_image() is None
    # A before image without its key says nothing about a change of key.
    cut = Change("update", orders, MESSAGE, before=orders.Image(UNSET, "a"), after=stayed.after)
    assert cut.old_key_image() is None


def test_a_key_that_cannot_be_determined_is_refused() -> None:
    orders = schema("id", "name")
    with pytest.raises(Refusal, match="'id' is not in the row"):
        Change("insert", orders, MESSAGE, after=orders.Image(UNSET, "a")).key_image()
    with pytest.raises(Refusal, match="'ghost' is not among"):
        _ = schema("id", key=("ghost",)).key_fields


def test_a_column_name_that_no_struct_can_have_is_refused() -> None:
    with pytest.raises(Refusal, match="column name"):
        image_struct(('quo"te',))


def test_errors_cross_process_borders() -> None:
    refusal = pickle.loads(pickle.dumps(Refusal("json", "not JSON", 3)))
    assert (refusal.kind, refusal.sentence, refusal.index) == ("json", "not JSON", 3)
    assert isinstance(refusal, WaybillError)


def test_a_key_that_names_a_column_twice_is_none() -> None:
    table = schema("id", "n", key=("id", "n", "id"))
    with pytest.raises(Refusal, match="names the column 'id' twice"):
        _ = table.key_fields
    with pytest.raises(Refusal, match="names the column 'id' twice"):
        key_of(table, table.Image("1", "x"))
