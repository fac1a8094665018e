"""Messages of TiCDC: the order of their types, their commits, and what is never written."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from msgspec import structs

from tests.contract.test_sequences import tables
from waybill.envelopes.canal.settings import CanalReadSettings
from waybill.envelopes.canal.text_rows import CanalDecoder
from waybill.envelopes.tidb.decoder import TidbDecoder
from waybill.envelopes.tidb.encoder import TidbEncoder
from waybill.envelopes.tidb.settings import TidbReadSettings, TidbWriteSettings
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.values.mysql_types import logical_type

TYPES = {"id": "bigint", "v": "varchar(9)", "n": "int"}


def message(kind: str = "INSERT", commit: Any = 7, offset: int = 0, **fields: Any) -> Message:
    document = {"id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False}
    document |= {"type": kind, "es": 1_700_000_000_000, "ts": 1_700_000_000_001, "sql": ""}
    document |= {"sqlType": {"id": -5, "v": 12, "n": 4}, "mysqlType": TYPES, "old": None}
    document |= {"data": [{"id": "1", "v": "a", "n": "5"}], "_tidb": {"commitTs": commit}}
    value = json.dumps({**document, **fields}, separators=(",", ":")).encode()
    return Message("t", 0, offset, None, None, value)


def decoder() -> TidbDecoder:
    return TidbDecoder(TidbReadSettings(), TableRules())


def test_types_in_any_order_are_of_one_table_and_read_by_it(monkeypatch):
    read = decoder()
    (first,) = read.decode(message())
    exact = read.exact
    monkeypatch.setattr(read, "_slow", lambda *_: pytest.fail("read as if nothing were known"))
    for names in itertools.permutations(TYPES):
        one = message(mysqlType={name: TYPES[name] for name in names})
        (change,) = read.decode(one)
        assert change.schema is first.schema
        assert change.schema.names == ("id", "v", "n")
    monkeypatch.undo()
    assert exact(one) == [change]


def test_another_type_is_of_another_table():
    read = decoder()
    (first,) = read.decode(message())
    (other,) = read.decode(message(mysqlType={**TYPES, "n": "bigint"}))
    assert other.schema is not first.schema
    assert read.decode(message())[0].schema is first.schema


@pytest.mark.parametrize("commit", [2**63 - 1, 2**63, 2**64 - 1])
def test_timestamps_of_64_bits(commit):
    read = decoder()
    for _ in range(2):
        (change,) = read.decode(message(commit=commit))
        assert change.sequence == (commit, 1)
        (out,) = TidbEncoder(TidbWriteSettings()).encode(change, [])
        assert json.loads(out.value or b"")["_tidb"] == {"commitTs": commit}


def test_a_delete_of_a_commit_comes_before_its_insert():
    read = decoder()
    (come,), (gone,) = read.decode(message(offset=1)), read.decode(message("DELETE", offset=2))
    (later,) = read.decode(message("DELETE", commit=8, offset=0))
    assert gone.order_key < come.order_key < later.order_key


def test_ids_from_positions_take_the_place_of_commits():
    (change,) = decoder().decode(message(offset=3))
    losses: list[str] = []
    settings = TidbWriteSettings(sequence_from="position", sequence_start=1_700_000_000)
    (out,) = TidbEncoder(settings).encode(change, losses)
    assert json.loads(out.value or b"")["_tidb"] == {"commitTs": 1_700_000_000_000_300_000}
    assert "sequence_id" in losses


def test_an_id_without_room_is_refused():
    (change,) = decoder().decode(message())
    elsewhere = structs.replace(change, sequence=(2**64,), extra=None)
    with pytest.raises(Refusal, match="no room for the sequence id 18446744073709551616"):
        TidbEncoder(TidbWriteSettings()).encode(elsewhere, [])


def test_an_update_of_the_key_is_a_delete_and_an_insert_read_by_the_known_table_too():
    read = decoder()
    moved = message("UPDATE", old=[{"id": "2", "v": "a", "n": "5"}])
    (stays,) = read.decode(message("UPDATE", old=[{"id": "1", "v": "b", "n": "5"}]))
    for gone, come in (read.decode(moved), read.exact(moved)):
        assert (stays.operation, gone.operation, come.operation) == ("update", "delete", "insert")
        assert (gone.before.f0, gone.after, come.before, come.after.f0) == ("2", None, None, "1")
        assert (gone.sequence, come.sequence) == ((7, 0), (7, 1))
        assert (gone.index, come.index) == (0, 1)
        assert gone.order_key < come.order_key


@pytest.mark.parametrize("turn", [1, -1])
def test_rows_that_pass_their_keys_on_in_one_commit_are_all_there(turn):
    """Equal but for their keys, and in whatever order the updates come, or come again."""
    moved = []
    for number, key in enumerate([1, 2, 3, 2][::turn]):
        row, was = ({"id": str(place), "v": "a", "n": "5"} for place in (key + 1, key))
        moved.append(message("UPDATE", offset=number, old=[was], data=[row]))
    read = decoder()
    live = tables([change for one in moved for change in read.decode(one)])
    assert {key: row["id"] for key, row in live.items()} == {"2": "2", "3": "3", "4": "4"}


def test_a_declared_key_decides_what_moves():
    rules = TableRules({"shop.t": TableRule(("n",), {})})
    read = TidbDecoder(TidbReadSettings(), rules)
    (change,) = read.decode(message("UPDATE", old=[{"id": "2", "v": "a", "n": "5"}]))
    assert change.operation == "update"
    assert len(read.decode(message("UPDATE", old=[{"id": "1", "v": "a", "n": "6"}]))) == 2


def test_names_without_sizes_are_not_written_for_what_other_sources_mean():
    columns = tuple(
        Column(name, logical_type(name), name) for name in ("enum", "set", "bit", "binary", "int")
    )
    schema = intern_schema("shop", None, "t", columns, ("int",), "mysql")
    row = schema.Image("a", "a,b", "true", "YQ==", "1")
    change = Change("insert", schema, Message("t", 0, 0, 5, None, None), after=row, sequence=(7,))
    losses: list[str] = []
    (out,) = TidbEncoder(TidbWriteSettings()).encode(change, losses)
    document = json.loads(out.value or b"")
    assert document["mysqlType"] == {
        "enum": "varchar", "set": "varchar", "bit": "bit(1)", "binary": "varbinary", "int": "int"
    }  # fmt: skip
    assert document["data"] == [{"enum": "a", "set": "a,b", "bit": "1", "binary": "a", "int": "1"}]
    assert "types" in losses
    (again,) = decoder().decode(structs.replace(change.message, value=out.value))
    assert structs.astuple(again.after) == structs.astuple(row)


def test_what_a_new_key_lacks_comes_from_the_row_before_and_is_counted_once():
    # TiCDC's own are two messages; Canal's are one.
    sent = message("UPDATE", old=[{"id": "2"}], data=[{"id": "1", "v": "a"}])
    (change,) = CanalDecoder(CanalReadSettings(), TableRules()).decode(sent)
    assert change.before is not None
    change = structs.replace(change, sequence=(7,))
    losses: list[str] = []
    gone, come = TidbEncoder(TidbWriteSettings()).encode(change, losses)
    sent = [json.loads(one.value or b"") for one in (gone, come)]
    assert [one["type"] for one in sent] == ["DELETE", "INSERT"]
    assert [one["data"][0]["id"] for one in sent] == ["2", "1"]
    assert (gone.key, come.key) == (b'["2"]', b'["1"]')
    assert losses.count("key_change") == 1


def test_watermarks_are_never_written():
    nothing = {"database": "", "table": "", "data": None, "sqlType": None, "mysqlType": None}
    watermark = message("TIDB_WATERMARK", pkNames=None, _tidb={"watermarkTs": 9}, **nothing)
    (change,) = decoder().decode(watermark)
    assert change.operation == "heartbeat"
    losses: list[str] = []
    assert TidbEncoder(TidbWriteSettings()).encode(change, losses) == []
    assert losses == ["heartbeat"]
