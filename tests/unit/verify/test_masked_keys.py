"""Rows that are told by masked values: what is kept and shown of them has none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.verify.test_canonical import column
from tests.unit.verify.test_history import SPEC
from waybill.mapping.rules import Mask
from waybill.spec.verification import Verify
from waybill.verify import deciding
from waybill.verify.canonical import POSTGRESQL
from waybill.verify.comparing import LakeRow
from waybill.verify.database import DatabaseView, SourceTable
from waybill.verify.deciding import (
    MISSING_IN_DATABASE,
    MISSING_IN_LAKE,
    DecidedKeys,
    Deciding,
    LakeState,
    Pending,
)
from waybill.verify.newest import MASKED
from waybill.verify.plan import CanonicalRows, Compared
from waybill.verify.results import difference_dict

RAW = "0170-777"
HASHED = hashlib.sha256(RAW.encode()).hexdigest()
COLUMNS = tuple(column("text", POSTGRESQL)._replace(name=name) for name in ("id", "phone"))
VERIFY = SPEC.model_copy(update={"verify": Verify(database="source")})


def compared(keyed: bool) -> Compared:
    """A table whose phone is masked, and is its key; all is, where it has no key."""
    source = SourceTable(("shop", "t"), COLUMNS)
    facts = ("shop.t", "lake.shop.t", source, COLUMNS[1:] if keyed else COLUMNS, keyed, COLUMNS, ())
    return Compared(*facts, ("id", "phone"), read=COLUMNS, masks=(None, Mask("sha256")))


class Database:
    """Has one row, which was there before its phone was masked."""

    def begin(self) -> DatabaseView:
        return DatabaseView(5, None)

    def pieces(self, *_: object) -> list[None]:
        return [None]

    def rows(self, *_: object) -> list[tuple[str, str]]:
        return [("7", RAW)]


def decided(
    monkeypatch: pytest.MonkeyPatch,
    table: Compared,
    reached: int,
    before: Mapping[str, Pending],
) -> DecidedKeys:
    """What becomes of the row of the database, and of that of the lake, which is not masked."""
    state = LakeState(1, "b1", "b1", "", reached, None, 1, False)
    texts = CanonicalRows(table)
    image = json.dumps({"phone": RAW})
    ours = ("7", RAW)
    rows = {texts.key(ours): LakeRow("1", ours, key=image if table.keyed else None)}
    monkeypatch.setattr(deciding, "lake_state", lambda *_: state)
    monkeypatch.setattr(deciding, "lake_rows", lambda *_: rows)
    facts: Any = (None, VERIFY, table, Database(), 0.0, lambda *_: None)
    keys = [texts.key(ours), texts.key(("7", HASHED))]
    return Deciding(*facts).decide(keys, before)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_value_from_before_the_mask_is_not_shown_as_a_key(monkeypatch, keyed: bool):
    table = compared(keyed)
    found = decided(monkeypatch, table, 10, {}).differences
    assert [difference.what for difference in found] == [MISSING_IN_DATABASE, MISSING_IN_LAKE]
    assert found[0].key["phone"] == RAW, "by which the history of the row is found"
    for difference in found:
        told = difference_dict(difference, table.shown)
        assert told["key"] == ({} if keyed else {"id": "7"}) | {"phone": MASKED}
        kept = json.dumps([difference.at, told, difference.seen])
        assert RAW not in kept
        assert HASHED not in kept
    assert len({difference.at for difference in found}) == 2


@pytest.mark.parametrize("keyed", [True, False])
def test_what_is_not_decided_is_kept_without_it_and_decided_later(monkeypatch, keyed: bool):
    table = compared(keyed)
    left = decided(monkeypatch, table, 0, {})
    assert (len(left.pending), left.differences) == (2, [])
    assert RAW not in json.dumps(left.pending)
    # The database is looked at later than the lake reaches, and was by an earlier verification too.
    before = {place: mark._replace(clock=3) for place, mark in left.pending.items()}
    again = decided(monkeypatch, table, 4, before)
    assert (len(again.differences), again.pending) == (2, {})
    assert {difference.at for difference in again.differences} == before.keys()


def test_of_a_table_without_masks_all_is_shown():
    table = compared(keyed=True)._replace(masks=(None, None))
    assert table.shown is None
    assert table.place_of('["7"]') == '["7"]'


def test_a_name_that_a_masked_column_had_is_not_shown():
    assert compared(keyed=True).shown == {"id"}
    apart = compared(keyed=True)._replace(masks=(None, None), masked=("born",), only_in_lake=("b",))
    assert apart.shown == {"id", "phone"}
    assert apart._replace(shard=("shard", "shop.t_1")).shown == {"id", "phone", "shard"}
