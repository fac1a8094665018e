"""LOB columns of OMS that an update did not touch, where messages cannot tell it of all."""

from __future__ import annotations

import pytest

from tests.histories import by_name, image
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

COLUMNS = {"id": "bigint", "n": "int", "note": "text", "doc": "json"}
TABLE = intern_schema(
    "shop",
    None,
    "orders",
    tuple(Column(name, parse_type(kind, "mysql"), kind) for name, kind in COLUMNS.items()),
    ("id",),
    "mysql",
)
RULES = TableRules({"shop.orders": TableRule(("id",), {c.name: c.type for c in TABLE.columns})})


def written(method: str, before: dict, after: dict) -> tuple[list[str], Change]:
    """What is counted when an update is written, and the change that is read again."""
    envelope = registry.get(method)
    message = Message("t", 0, 4, 5, None, None)
    rows = {"before": image(TABLE, **before), "after": image(TABLE, **after)}
    change = Change("update", TABLE, message, **rows, sequence=(1,))
    losses: list[str] = []
    encoder = envelope.encoder(envelope.encode_settings(lobs="unchanged"))
    (encoded,) = encoder.encode(change, losses)
    decoder = envelope.decoder(envelope.decode_settings(), RULES)
    (read,) = decoder.decode(Message("t", 0, 4, 5, None, encoded.value))
    return losses, read


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("oms-default", False),
        ("oms-extended", True),
        ("oms-canal", True),
        ("oms-dataworks", True),
        ("oms-shareplex", False),
    ],
)
def test_a_text_that_is_read_as_null_is_counted(method, told):
    """Without names of types nobody can tell a TEXT from a VARCHAR."""
    before, after = {"id": "1", "n": "1", "doc": None}, {"id": "1", "n": "2", "doc": "{}"}
    losses, read = written(method, before, after)
    assert ("unchanged_columns" in losses) is not told
    assert by_name(read.schema, read.after) == (after if told else {**after, "note": None})


@pytest.mark.parametrize("before", [{"id": "1"}, {"id": "1", "n": "1", "note": "x"}])
def test_a_change_to_null_is_not_written_as_a_column_that_was_not_touched(before):
    """OMS Canal tells the row before by changed columns: one that is not told looks alike."""
    after = {"id": "1", "n": "2", "note": "x", "doc": None}
    losses, read = written("oms-canal", before, after)
    assert by_name(read.schema, read.after) == after
    assert read.before is None
    assert losses.count("before_image") == 1
    with pytest.raises(Refusal, match="is null after a change of the key"):
        written("oms-canal", {**before, "id": "3"}, after)
