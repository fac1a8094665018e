"""What mappings make of DataHub's BLOB messages: halves of updates, and TRUNCATEs with columns."""

from __future__ import annotations

import json
from itertools import permutations

import pyarrow as pa
import pytest

from tests.contract.test_bulk_avro import batch_of
from waybill.batches.change_rows import ChangeRows
from waybill.batches.decoding import ChangeBatches
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.batches.messages import decode_message
from waybill.convert.halves import settle
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.lake_columns import CHANGES
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import Added, Join, MappingRule, Rules
from waybill.records import Message, TableSchema
from waybill.tables import TableRules

BLOB = registry.get("datahub-blob")
EVENT = {"op_": "operation", "seq_": "sequence", "at_": "source_time"}
RULES = Rules(
    of_tables=(MappingRule(("*",), add={name: Added(kind) for name, kind in EVENT.items()}),)
)
OF_UPDATE = {"op_": "update", "seq_": "5", "at_": "2020-11-14T07:45:32Z"}
OLD, NEW = {"id": "1", "v": "a"}, {"id": "1", "v": "b", **OF_UPDATE}


def message(offset: int, op: str, sequence: str = "5", **images: str) -> Message:
    columns = [{"name": "id", "type": "LONG"}, {"name": "v", "type": "STRING"}]
    source = {"dbName": "db", "dbType": "MySQL", "tableName": "t"}
    payload = {
        "op": op,
        "sequenceId": sequence,
        "timestamp": {"eventTime": 1605339932000},
        **{name: {"dataColumn": {"id": "1", "v": v}} for name, v in images.items()},
    }
    schema = {"dataColumn": columns, "primaryKey": ["id"], "source": source}
    value = {"schema": schema, "payload": payload, "version": "0.0.1"}
    return Message("t", 0, offset, None, None, json.dumps(value).encode())


def before(offset: int) -> Message:
    return message(offset, "UPDATE_BEFORE", before="a")


def after(offset: int) -> Message:
    return message(offset, "UPDATE_AFTER", after="b")


class Batch:
    """Tasks that decode and map, and what settles their halves."""

    def __init__(self) -> None:
        self.schemas: dict[str, TableSchema] = {}
        self.rows: list[dict] = []

    def task(self, *messages: Message) -> None:
        decoder = BLOB.decoder(BLOB.decode_settings(), TableRules())
        work = ChangeBatches(decoder, "b", PairJoiner(), None)
        mapped = MappedDecoding(RULES, TableRules())
        batches = mapped.of(work.convert(iter([batch_of(list(messages))])))
        for row in pa.Table.from_batches(list(batches), CHANGES).to_pylist():
            if row["outcome"] == "schema":
                self.schemas[row["schema_id"]] = TableSchema.from_json(row["extra"])
            else:
                self.rows.append(row)

    def settled(self) -> list[tuple[str, str | None, dict | None, dict | None]]:
        whole = [row for row in self.rows if row["outcome"] == "ok"]
        given = sorted(self.rows, key=lambda row: row["order_key"])
        if len(whole) != len(given):
            batches = settle([pa.RecordBatch.from_pylist(given, CHANGES)], "b2", self.schemas.get)
            made = [row for batch in batches for row in batch.to_pylist()]
            whole = [row for row in [*whole, *made] if row["outcome"] not in ("schema", "spent")]
        found = [
            (row["outcome"], row["reason_kind"], *(_parsed(row[n]) for n in ("before", "after")))
            for row in whole
        ]
        return sorted(found, key=str)


def _parsed(text: str | None) -> dict | None:
    return None if text is None else json.loads(text)


UPDATE = ("ok", None, OLD, NEW)


@pytest.mark.parametrize("cut", [[before, after], [after, before]])
def test_an_update_is_the_same_wherever_tasks_cut_the_topic(cut):
    whole, apart = Batch(), Batch()
    whole.task(before(0), after(1))
    for offset, half in enumerate(cut):
        apart.task(half(offset))
    assert whole.settled() == apart.settled() == [UPDATE]


@pytest.mark.parametrize("order", list(permutations([[before, after], [before], [after]])))
def test_halves_that_arrive_twice_are_duplicates(order):
    batch, offset = Batch(), 0
    for halves in order:
        batch.task(*(half(offset + number) for number, half in enumerate(halves)))
        offset += len(halves)
    found = batch.settled()
    assert found.count(UPDATE) == 1
    assert {one[:2] for one in found} == {("ok", None), ("skipped", "duplicate half")}


def test_a_half_that_waits_has_no_columns_of_its_update_one_by_one():
    decoder = BLOB.decoder(BLOB.decode_settings(), TableRules())
    mapper = ChangeMapper(RULES)
    (old,), (new,) = (decode_message(decoder, half(0)) for half in (before, after))
    made = [mapper.map(half).change for half in (old, new)]
    rows = ChangeRows(decoder, "b").rows(made)
    images = [(_parsed(row["before"]), _parsed(row["after"])) for row in rows.to_pylist()]
    assert [one for one in images if one != (None, None)] == [(OLD, None), (None, NEW)]


def test_the_row_that_a_delete_removed_has_them():
    batch = Batch()
    batch.task(message(0, "DELETE", before="a"))
    row = {**OLD, **OF_UPDATE, "op_": "delete"}
    assert batch.settled() == [("ok", None, row, None)]


@pytest.mark.parametrize("where", [None, "v <> 'x'"])
def test_a_truncate_of_a_joined_table_deletes_its_rows_whether_or_not_rows_are_chosen(where):
    """One by one and in bulk; its message has the columns of the table."""
    join = Join("of_table", True)
    rules = Rules(of_tables=(MappingRule(("*",), {"table": "all"}, where=where, join=join),))
    decoder = BLOB.decoder(BLOB.decode_settings(), TableRules())
    (change,) = decode_message(decoder, message(0, "TRUNCATE"))
    assert change.schema.columns
    (exact,) = ChangeMapper(rules).map(change).emptied
    mapped = MappedDecoding(rules, TableRules())
    batches = list(mapped.of([ChangeRows(decoder, "b").rows([change])]))
    (row,) = (
        row for row in pa.Table.from_batches(batches).to_pylist() if row["outcome"] == "skipped"
    )
    assert mapped.emptied == 1
    (emptied,) = json.loads(row["extra"])["emptied_tables"]
    assert emptied["tables"] == list(exact.tables) == ["db.t"]
    assert row["reason_kind"] == "its rows of the joined table are deleted"
