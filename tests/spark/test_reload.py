"""Some tables once more, from the archive: mode `reload`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.spark.test_mapping import TABLES, message, publish, published, row, rows_of, statement
from waybill import cli
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.lake import Lake

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
pytestmark = pytest.mark.spark


@pytest.fixture
def spec(migration, tmp_path):
    def make(**fields):
        given = {"tables": TABLES, "envelope": "oms-default", "publish": publish(tmp_path)}
        return migration(**{**given, **fields})

    return make


def bring(folder, name: str, messages: list[bytes]) -> None:
    (folder / f"in/{name}.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))


def sent(folder, batch: str) -> list[tuple[str, str]]:
    return [(m["table"], m["data"][0]["id"]) for m in published(folder / "out", batch) if m["data"]]


def test_a_table_that_was_left_out_is_taken_in_from_the_archive(spark, spec, tmp_path):
    without = spec(select={"exclude": ["shop.people"]})
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(1), "orders"),
        message(3, "UPDATE", row(1), row(1, "new@b.c")),
    ]
    bring(tmp_path, "1", first)
    run_migration(without, batch="b1", spark=spark)
    bring(tmp_path, "2", [message(4, "DELETE", row(1), None), message(5, "INSERT", None, row(2))])
    run_migration(without, batch="b2", spark=spark)
    assert sent(tmp_path, "b1") == [("orders", "1")]
    whole = spec()
    bring(tmp_path, "3", [message(6, "INSERT", None, row(3))])
    waybill = run_migration(whole, batch="b3", spark=spark, mode="reload", tables=["shop.peo*"])
    assert waybill.stage("snapshot").rows_out == 0
    convert = waybill.stage("convert")
    assert (convert.rows_in, convert.rows_out) == (0, 4)
    assert convert.extra_in == {"rows of tables that are loaded again": 4}
    assert rows_of(spark, whole, "shop.people") == [row(2)]
    assert sent(tmp_path, "b3") == [("people", n) for n in ("1", "1", "1", "2")]
    # What the source had meanwhile comes with the next batch, and nothing twice.
    waybill = run_migration(whole, batch="b4", spark=spark)
    assert waybill.stage("convert").rows_out == 1
    assert rows_of(spark, whole, "shop.people") == [row(2), row(3)]
    assert len(rows_of(spark, whole, "shop.orders")) == 1


def test_loading_again_changes_no_row_and_takes_each_message_once(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(n, "INSERT", None, row(n)) for n in (1, 2, 3)])
    run_migration(whole, batch="b1", spark=spark)
    run_migration(whole, batch="b2", spark=spark, mode="full")
    bring(
        tmp_path,
        "2",
        [message(9, "DELETE", row(3), None), statement(10, "TRUNCATE TABLE audit", "audit")],
    )
    run_migration(whole, batch="b3", spark=spark)
    for batch in ("b4", "b5"):
        waybill = run_migration(whole, batch=batch, spark=spark, mode="reload", tables=["*.people"])
        assert waybill.stage("convert").rows_out == 4
        assert rows_of(spark, whole, "shop.people") == [row(1), row(2)]
    again = run_migration(whole, batch="b5", spark=spark, mode="reload", tables=["*.people"])
    assert again.stage("convert").repeated


def test_a_reload_before_anything_was_read(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1))])
    waybill = run_migration(whole, batch="b1", spark=spark, mode="reload", tables=["shop.people"])
    assert waybill.stage("convert").rows_out == 0
    assert Lake.open(spark, whole).merged_tables() == {}


def test_the_command_of_the_docs(spark, spec, tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"`waybill (run FILE --reload shop[^`]+)`", text)
    monkeypatch.setattr(spark, "stop", lambda: None)
    without, whole = spec(select={"exclude": ["shop.orders"]}), spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1), "orders")])
    run_migration(without, batch="b1", spark=spark)
    assert "shop.orders" not in Lake.open(spark, whole).merged_tables()
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(whole.model_dump(exclude_unset=True)), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main([str(file) if word == "FILE" else word for word in command.split()])
    assert not ended.value.code
    assert rows_of(spark, whole, "shop.orders") == [row(1)]


@pytest.mark.parametrize(
    ("mode", "tables", "sentence"),
    [("reload", [], "name them"), ("full", ["shop.people"], "mode full takes all")],
)
def test_tables_go_with_a_reload(spec, mode, tables, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        run_migration(spec(), mode=mode, tables=tables)
