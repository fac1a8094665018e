"""`waybill suite init`: a suite that the rows of a table meet, to be edited."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from tests.unit.inprocess.test_converter import canal
from waybill.cli import suite
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.validate.row_suites import run_row_suite
from waybill.validate.seen_rows import live_rows, seen_columns
from waybill.validate.suites import load_suite

pytestmark = pytest.mark.spark


@pytest.fixture
def drafted(spark, migration, tmp_path, monkeypatch):
    """A migration with a table to learn from, and `waybill suite init` on it."""
    rows = [
        canal(
            i,
            data=[
                {
                    "id": str(i),
                    "mail": f"user{i}@example.org",
                    "status": ["open", "paid", "sent"][i % 3],
                    "total": f"{i * 7 % 210}.50",
                    "api_token": "t0k3n",
                    "seen": "2024-02-03 04:05:06" if i % 20 else None,
                    "rest": None,
                }
            ],
            mysqlType={
                **dict.fromkeys(("mail", "status", "api_token"), "varchar(99)"),
                "id": "bigint",
                "total": "decimal(9,2)",
                "seen": "datetime",
                "rest": "int",
            },
        )
        for i in range(60)
    ]
    spec = migration()
    (tmp_path / "in/0.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
    run_migration(spec, until="validate", batch="b1", spark=spark)
    file = tmp_path / "shop.yaml"
    file.write_text(spec.model_dump_json(exclude_defaults=True))

    @contextmanager
    def opened(spec):
        yield Lake.open(spark, spec)

    monkeypatch.setattr(suite, "open_lake", opened)
    return spec, file


def test_a_drafted_suite_is_met_by_the_table_it_was_made_from(spark, drafted, capsys, monkeypatch):
    spec, file = drafted
    suite.init_command(file, "shop.orders", None, whole=True, force=False)
    written = file.parent / "shop.orders.suite.json"
    assert "all of them warnings" in capsys.readouterr().err
    rules = {
        (rule["type"].removeprefix("expect_"), rule["kwargs"].get("column")): rule["kwargs"]
        for rule in json.loads(written.read_text())["expectations"]
    }
    assert rules["column_values_to_match_regex", "mail"]["regex"].startswith("^[^@")
    assert rules["column_values_to_be_unique", "mail"]
    assert rules["column_values_to_be_in_set", "status"]["value_set"] == ["open", "paid", "sent"]
    total = rules["column_values_to_be_between", "total"]
    assert (total["min_value"], total["max_value"]) == (0, 1000)
    assert rules["column_values_to_be_between", "seen"]["min_value"] == "2024-01-01"
    assert rules["column_values_to_not_be_null", "seen"]["mostly"] == 0.95
    assert rules["column_value_lengths_to_be_between", "api_token"]["max_value"] == 5
    assert "t0k3n" not in written.read_text()
    assert not [column for _, column in rules if column == "rest"]
    assert ("column_values_to_be_unique", "id") not in rules

    lake = Lake.open(spark, spec)
    rows = seen_columns(live_rows(lake.read(lake.merged_tables()["shop.orders"])))
    judged = run_row_suite(load_suite(str(written)), rows, kept=False)
    assert [check for check in judged.checks if not check.success] == []

    with pytest.raises(ConfigurationError, match="is there already: name another output"):
        suite.init_command(file, "shop.orders", None, whole=False, force=False)
    suite.init_command(file, "shop.orders", None, whole=False, force=True)
    assert load_suite(str(written)).over.of == "batch"
    with pytest.raises(ConfigurationError, match=r"no merged table 'shop\.ordres'; did you mean"):
        suite.init_command(file, "shop.ordres", None, whole=False, force=True)
    monkeypatch.setattr("waybill.validate.seen_rows.live_rows", lambda rows: rows.limit(0))
    with pytest.raises(
        ConfigurationError, match=r"shop\.orders has no rows to learn from: run the"
    ):
        suite.init_command(file, "shop.orders", None, whole=False, force=True)
