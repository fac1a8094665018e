"""Mapped migrations, from messages to published messages, over real batches in a real lake."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.spark.merge.test_full_loads import oms
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.spec.file import load_migration

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark

KEY = {"key": ["id"], "columns": {"id": "bigint", "email": "string", "phone": "string"}}
TABLES = {"shop.people": KEY, "shop.orders": KEY, "shop.audit": KEY}
MAP = [
    {
        "tables": "shop.people",
        "rename": {"database": "crm", "table": "{table}_masked"},
        "columns": {"mask": {"email": "sha256", "phone": "last4"}, "rename": {"phone": "tel"}},
    }
]


def row(number: int, email: str | None = "a@b.c", phone: str = "0123456789") -> dict[str, Any]:
    return {"id": number, "email": email, "phone": phone}


def message(place: int, kind: str, before: Any, after: Any, table: str = "people") -> bytes:
    return oms(place, kind, before, after).replace(b"orders", table.encode())


def statement(place: int, sql: str, table: str = "people") -> bytes:
    return statement_of(message(place, "INSERT", None, {}, table), sql)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def run(spark, migration, tmp_path):
    return batches(spark, migration, tmp_path, TABLES, MAP)


def batches(spark: Any, migration: Any, folder: Path, tables: Any, mapping: Any) -> Any:
    """Runs batches with the given messages through all stages; gives a migration and its waybill.

    Args:
        spark: the session.
        migration: makes migrations.
        folder: where its messages go, under `in`.
        tables: what it declares.
        mapping: what it maps.
    """
    numbers = count(1)

    def run(messages: list[bytes], **fields: Any):
        number = next(numbers)
        spec = migration(**{"tables": tables, "envelope": "oms-default", "map": mapping, **fields})
        (folder / f"in/{number}.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))
        return spec, run_migration(spec, batch=f"b{number}", spark=spark)

    return run


def statement_of(message: bytes, sql: str) -> bytes:
    """A message that tells a statement instead of a row."""
    data = json.loads(message)
    data.update(recordType="DDL", prevStruct=None, postStruct={"ddl": sql})
    return json.dumps(data).encode()


def publish(folder: Any, **mapping: Any) -> list[dict[str, Any]]:
    return [{"envelope": "canal", "files": {"path": str(folder / "out")}, **mapping}]


def published(folder: Any, batch: str) -> list[dict[str, Any]]:
    files = sorted((folder / batch).glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def rows_of(spark: Any, spec: Any, table: str) -> list[dict[str, Any]]:
    lake = Lake.open(spark, spec)
    found = lake.read(lake.merged_tables()[table]).orderBy("id")
    return [
        {k: v for k, v in r.asDict().items() if not k.startswith("_waybill")}
        for r in found.collect()
    ]


def test_the_lake_and_all_targets_have_the_new_names_and_no_masked_value(spark, run, tmp_path):
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2, None)),
        message(3, "INSERT", None, row(3), "audit"),
        message(4, "INSERT", None, row(4), "orders"),
        message(5, "UPDATE", row(1), row(1, "new@b.c")),
    ]
    choice = {"select": {"exclude": ["shop.audit"]}, "publish": publish(tmp_path)}
    spec, waybill = run(first, **choice)
    assert waybill.stage("convert").skipped == {"not selected": 1}
    assert set(Lake.open(spark, spec).merged_tables()) == {"crm.people_masked", "shop.orders"}
    assert rows_of(spark, spec, "crm.people_masked") == [
        {"id": 1, "email": hashed("new@b.c"), "tel": "****6789"},
        {"id": 2, "email": None, "tel": "****6789"},
    ]
    messages = published(tmp_path / "out", "b1")
    names = [(m["database"], m["table"]) for m in messages]
    assert names == [("crm", "people_masked")] * 2 + [("shop", "orders"), ("crm", "people_masked")]
    assert messages[-1]["old"] == [{"email": hashed("a@b.c")}]
    lake = Lake.open(spark, spec)
    for name in ("changes", "outbox"):
        for found in lake.read(lake.log(name)).where("`table` = 'people_masked'").collect():
            assert "@b.c" not in str(found.asDict())
    # Statements find the table by its new name, and leave those of other tables alone.
    second = [
        statement(6, "ALTER TABLE people ADD COLUMN city VARCHAR(20) DEFAULT 'Bonn'"),
        statement(7, "TRUNCATE TABLE audit", "audit"),
        message(8, "INSERT", None, {**row(5), "city": "Ulm"}),
    ]
    spec, waybill = run(second, **choice)
    assert [r.get("city") for r in rows_of(spark, spec, "crm.people_masked")] == [
        "Bonn",
        "Bonn",
        "Ulm",
    ]
    ddl = published(tmp_path / "out", "b2")[0]
    assert (ddl["isDdl"], ddl["table"]) == (True, "people_masked")
    assert ddl["sql"] == "ALTER TABLE people_masked ADD COLUMN city VARCHAR(20) DEFAULT 'Bonn'"
    spec, _ = run([statement(9, "TRUNCATE TABLE people")], **choice)
    assert rows_of(spark, spec, "crm.people_masked") == []
    assert len(rows_of(spark, spec, "shop.orders")) == 1


def test_a_target_maps_what_the_lake_keeps_as_it_is(spark, run, tmp_path):
    mapping = {
        "select": {"include": ["shop.people"]},
        "map": [
            {
                "tables": "shop.*",
                "rename": {"table": "{table}_v2"},
                "columns": {
                    "drop": ["phone"],
                    "mask": {"email": {"text": "hidden"}},
                    "add": {"origin": {"constant": "eu"}, "how": "operation"},
                },
            }
        ],
    }
    messages = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2), "orders"),
        message(3, "DELETE", row(1), None),
        message(4, "INSERT", None, row(3)),
        statement(5, "ALTER TABLE people DROP COLUMN phone"),
    ]
    spec, waybill = run(messages, map=[], publish=publish(tmp_path, **mapping))
    assert rows_of(spark, spec, "shop.people") == [row(3)]
    found = published(tmp_path / "out", "b1")
    assert [(m["type"], m["table"], m["data"]) for m in found] == [
        (kind, "people_v2", [{"id": n, "email": "hidden", "origin": "eu", "how": how}])
        for kind, n, how in (
            ("INSERT", "1", "insert"),
            ("DELETE", "1", "delete"),
            ("INSERT", "3", "insert"),
        )
    ]
    account = waybill.stage("convert").details["targets"]["canal"]
    assert account["skipped"] == {"not selected": 1, "statement of a mapped table": 1}


def test_tables_that_would_be_called_the_same_stop_the_batch(run):
    mapping = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    messages = [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(2), "orders")]
    with pytest.raises(ConfigurationError, match=r"WB-1106.*shop\.people.*one name, shop\.orders"):
        run(messages, map=mapping)


def test_tables_of_different_batches_are_not_called_the_same(run):
    mapping = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    run([message(1, "INSERT", None, row(1))], map=mapping)
    with pytest.raises(ConfigurationError, match=r"one name, shop\.orders"):
        run([message(2, "INSERT", None, row(2), "orders")], map=mapping)


def test_a_table_that_came_before_the_map_keeps_its_name_to_itself(spark, run):
    """The batch with the map has no message of it, and would overwrite its rows."""
    people = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    both = [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(1), "orders")]
    spec, _ = run(both, map=[])
    with pytest.raises(ConfigurationError, match=r"shop\.orders and shop\.people one name"):
        run([message(3, "INSERT", None, row(1, "other"))], map=people)
    assert rows_of(spark, spec, "shop.orders") == [row(1)]


def test_a_name_stays_taken_over_a_batch_that_renames_nothing(run, tmp_path):
    """In the lake and at a target, whether its own table comes later or another one gets it."""
    mapping = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    audit = [{"tables": "shop.audit", "rename": {"table": "orders"}}]
    for fields in (
        lambda rules: {"name": "lakes", "map": rules},
        lambda rules: {"name": "sent", "map": [], "publish": publish(tmp_path, map=rules)},
    ):
        run([message(1, "INSERT", None, row(1))], **fields(mapping))
        run([message(2, "INSERT", None, row(2))], **fields([]))
        with pytest.raises(ConfigurationError, match=r"shop\.people and shop\.audit one name"):
            run([message(3, "INSERT", None, row(3), "audit")], **fields(audit))


def test_what_a_target_got_before_its_map_keeps_its_name_there(run, tmp_path):
    mapping = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    both = [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(1), "orders")]
    run(both, map=[], publish=publish(tmp_path))
    with pytest.raises(ConfigurationError, match=r"shop\.orders and shop\.people one name"):
        run(
            [message(3, "INSERT", None, row(1, "other"))],
            map=[],
            publish=publish(tmp_path, map=mapping),
        )


def test_tables_of_different_batches_are_not_called_the_same_at_a_target(run, tmp_path):
    mapping = [{"tables": "shop.people", "rename": {"table": "orders"}}]
    fields = {"map": [], "publish": publish(tmp_path, map=mapping)}
    run([message(1, "INSERT", None, row(1))], **fields)
    # A batch in between that brings nothing of them keeps what is known.
    run([message(2, "INSERT", None, row(2), "audit")], **fields)
    with pytest.raises(ConfigurationError, match=r"shop\.people and shop\.orders one name"):
        run([message(3, "INSERT", None, row(3), "orders")], **fields)


def test_what_is_refused_shows_no_value_where_values_are_masked(spark, run):
    bad = message(2, "INSERT", None, {"id": "no number", "email": "z@b.c", "phone": "1"})
    spec, _ = run([message(1, "INSERT", None, row(1)), bad], quality={"max_refused_share": 0.9})
    lake = Lake.open(spark, spec)
    (found,) = lake.read(lake.log("changes")).where("outcome = 'refused'").collect()
    assert (found.raw, found.raw_key, found.before, found.after) == (None,) * 4
    assert found.reason == "the sentence is left out, as it may show what the migration masks"
    assert found.offset == 1


def test_rows_of_a_condition_in_the_lake_and_at_a_target(spark, run, tmp_path):
    """The lake has people with a mail address, the target those of them whose phone ends in 9."""
    fields = {
        "map": [{"tables": "shop.people", "where": "email IS NOT NULL"}],
        "publish": publish(tmp_path, map=[{"tables": "shop.people", "where": "phone LIKE '%9'"}]),
    }
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2, None)),
        message(3, "INSERT", None, row(3, phone="0")),
        message(4, "INSERT", None, row(4, None)),
    ]
    spec, waybill = run(first, **fields)
    assert [r["id"] for r in rows_of(spark, spec, "shop.people")] == [1, 3]
    assert waybill.stage("convert").skipped == {}
    # A row that is new may be one that readers have as it was.
    assert [(m["type"], m["data"][0]["id"]) for m in published(tmp_path / "out", "b1")] == [
        ("INSERT", "1"),
        ("DELETE", "2"),
        ("DELETE", "3"),
        ("DELETE", "4"),
    ]
    second = [
        message(5, "UPDATE", row(1), row(1, None)),
        message(6, "UPDATE", row(2, None), row(2)),
        message(7, "UPDATE", row(3, phone="0"), row(3, phone="9")),
        message(8, "DELETE", row(4, None), None),
    ]
    spec, waybill = run(second, **fields)
    assert [r["id"] for r in rows_of(spark, spec, "shop.people")] == [2, 3]
    assert [(m["type"], m["data"][0]["id"]) for m in published(tmp_path / "out", "b2")] == [
        ("DELETE", "1"),
        ("INSERT", "2"),
        ("INSERT", "3"),
    ]
    assert waybill.stage("convert").skipped == {"where is not met": 1}


def test_a_condition_on_a_column_that_came_later(spark, run):
    """Statements stand behind the rows that need them, in the same batch or an earlier one."""
    asked = {"columns": {**KEY["columns"], "city": "string"}, "key": ["id"]}
    fields = {
        "tables": {"shop.people": asked},
        "map": [{"tables": "shop.people", "where": "city = 'Ulm' OR phone LIKE '%9'"}],
    }
    nowhere = {**row(2, phone="0"), "city": None}
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2, phone="0")),
        statement(5, "ALTER TABLE people ADD COLUMN city VARCHAR(20)"),
        message(6, "UPDATE", nowhere, {**nowhere, "city": "Ulm"}),
    ]
    spec, waybill = run(first, **fields)
    assert [(r["id"], r["city"]) for r in rows_of(spark, spec, "shop.people")] == [
        (1, None),
        (2, "Ulm"),
    ]
    waybill.stage("convert").reconcile()
    # What the first batch has found is known to the next one.
    spec, waybill = run([message(3, "INSERT", None, row(3, phone="0"))], **fields)
    assert [r["id"] for r in rows_of(spark, spec, "shop.people")] == [1, 2]
    assert waybill.stage("convert").details["tables"] == {"shop.people": {"delete": 1}}
    with pytest.raises(ConfigurationError, match=r"WB-1106.*there is no column city"):
        run([message(9, "INSERT", None, row(4))], **fields)


def test_replayed_rows_from_before_a_column_came(spark, migration, tmp_path):
    """Nothing else of the batch lacks it, so nobody has looked for statements before."""
    asked = {"columns": {**KEY["columns"], "city": "string"}, "key": ["id"]}
    fields = {
        "tables": {"shop.people": asked},
        "map": [{"tables": "shop.people", "where": "city IS NULL"}],
        "quality": {"max_refused_share": 1},
    }
    messages = [
        message(1, "INSERT", None, row(1)),
        statement(5, "ALTER TABLE people ADD COLUMN city VARCHAR(20)"),
    ]
    wrong, spec = migration(**fields), migration(**fields, envelope="oms-default")
    (tmp_path / "in/1.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))
    first = run_migration(wrong, batch="b1", until="convert", spark=spark).stage("convert")
    assert (first.rows_in, sum(first.refused.values())) == (2, 2)
    waybill = run_migration(spec, batch="b2", mode="replay", spark=spark)
    assert [r["id"] for r in rows_of(spark, spec, "shop.people")] == [1]
    waybill.stage("convert").reconcile()
    assert not waybill.stage("convert").refused


def test_the_example_of_the_docs(spark, tmp_path):
    page = (PROJECT / "docs/mapping.md").read_text(encoding="utf-8")
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "migrations").mkdir()
    file = tmp_path / "migrations/partners.yaml"
    file.write_text(text.replace("../samples", str(PROJECT / "samples")), encoding="utf-8")
    spec = load_migration(file)
    waybill = run_migration(spec, batch="b1", spark=spark)
    truth = json.loads((PROJECT / "samples/shop/final.json").read_text(encoding="utf-8"))
    customers = truth["shop.customers"]["rows"]
    lake = Lake.open(spark, spec)
    assert set(lake.merged_tables()) == {"partners.customers", "partners.orders"}
    found = lake.read(lake.merged_tables()["partners.customers"])
    assert {(r.region, str(r.no), r.name) for r in found.collect()} == {
        (c["region"], c["no"], None if c["name"] is None else hashed(c["name"])) for c in customers
    }
    assert "receipt" not in lake.read(lake.merged_tables()["partners.orders"]).columns
    account = waybill.stage("publish")
    assert account.rows_out
    messages = [m for m in published(tmp_path / "out/canal", "b1") if not m["isDdl"]]
    assert {(m["database"], m["table"]) for m in messages} == {("partners", "orders")}
    names = {name for m in messages for name in m["data"][0]}
    assert {"customer_no", "origin", "changed_at"} < names
    assert not names & {"no", "receipt"}
    assert {m["data"][0]["origin"] for m in messages} == {"shop"}


def test_shadow_tables_of_online_schema_changes_are_left_out(run) -> None:
    own = [message(1, "INSERT", None, row(1), "orders")]
    copies = [message(n, "INSERT", None, row(n), "_orders_gho") for n in (2, 3)]
    altering = statement(4, "ALTER TABLE _orders_gho ADD COLUMN x INT DEFAULT 7", "_orders_gho")
    tables = {**TABLES, "shop._orders_gho": KEY}
    waybill = run([*own, *copies, altering], map=[], tables=tables)[1]
    converted = waybill.stages[1]
    assert converted.skipped == {"shadow table of an online schema change": 3}
    assert any("3 changes of shadow tables of gh-ost" in text for text in converted.warnings)
    assert set(converted.details["tables"]) == {"shop.orders"}
    late = [message(5, "INSERT", None, row(5), "_orders_gho")]
    taken = run(late, map=[], tables=tables, shadow_tables="take")[1]
    assert taken.stages[1].skipped == {}
