"""Rows that the lake has wrong: found by a verification, made anew, and found right by the next."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.verify.binlog_feed import BinlogFeed, MariaDBFeed, MySQLFeed
from tests.verify.live import run
from tests.verify.test_binlog_servers import SETTINGS
from waybill import cli
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.newest import last_results

if TYPE_CHECKING:
    from waybill.lake import Lake

TABLE = "waybill.typed"


@pytest.fixture
def feed(server, connect, tmp_path: Path, spark, monkeypatch) -> Iterator[BinlogFeed]:
    connect("mysql", server)
    # Commands end the session that they are given.
    monkeypatch.setattr(spark, "stop", lambda: None)
    kind = MySQLFeed if server.name == "MySQL" else MariaDBFeed
    made = kind(server, tmp_path / "in")
    yield made
    made.close()


def command(*words: str, code: int = 0) -> str:
    """What a command prints that ends with a code."""
    printed = io.StringIO()
    with (
        redirect_stdout(printed),
        redirect_stderr(printed),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main([*words])
    assert int(ended.value.code or 0) == code, printed.getvalue()
    return printed.getvalue()


def rows(lake: Lake) -> dict[str, dict[str, Any]]:
    """The rows that people see, without the batch that wrote them."""
    found = lake.read(lake.merged_tables()[TABLE]).drop("_waybill_batch").collect()
    return {row["_waybill_key"]: row.asDict() for row in found}


def damage(lake: Lake) -> None:
    """What another program does to the table: two rows are changed, one is gone, one is new."""
    full = lake.merged_tables()[TABLE]
    image = 'regexp_replace(_waybill_image, \'"body":"[^"]*\', \'"body":"spoilt\')'
    lake.spark.sql(
        f"UPDATE {full} SET body = 'spoilt', _waybill_image = {image} WHERE id IN (6, 8)"
    )
    lake.spark.sql(f"DELETE FROM {full} WHERE id = 7")
    lake.spark.sql(
        f'INSERT INTO {full} SELECT \'{{"id":"99"}}\' AS _waybill_key, '
        f"* EXCEPT (_waybill_key) FROM {full} WHERE id = 9"
    )
    lake.spark.sql(
        f"UPDATE {full} SET id = 99, "
        '_waybill_image = replace(_waybill_image, \'"id":"9"\', \'"id":"99"\') '
        'WHERE _waybill_key = \'{"id":"99"}\''
    )


def test_a_damaged_table_is_repaired_by_a_reload_of_its_keys(spark, migration, feed, tmp_path):
    feed.insert(*range(1, 21))
    feed.update(6, body="'told anew'")
    feed.update(8, amount="amount + 1")
    feed.delete(4)
    spec = migration("canal", **SETTINGS, verify={"lag": "0s"})
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(spec.model_dump(exclude_unset=True)), encoding="utf-8")
    lake = run(spark, spec, feed)
    right = rows(lake)
    assert len(right) == 19
    command("verify", str(file))

    damage(lake)
    assert rows(lake) != right
    # A row that differs may be on its way, so a batch has to come in between.
    assert "4 rows not decided" in command("verify", str(file))
    run(spark, spec, feed)
    told = command("verify", str(file), code=3)
    for key, what in ((6, DIFFERS), (7, MISSING_IN_LAKE), (8, DIFFERS), (99, MISSING_IN_DATABASE)):
        assert f"{TABLE} id={key}: {what}" in told

    command("run", str(file), "--reload", TABLE, "--keys", "differing", "--batch", "repair")
    done = lake.last(lake.log("changes"), "convert")
    assert done is not None
    assert done.batch == "repair"
    # The three rows that messages tell of, with two updates; nobody has told of the other one.
    assert done.report["rows_out"] == 5
    assert rows(lake) == right
    command("verify", str(file))
    (kept,) = last_results(lake)
    assert (kept["in_database"], kept["in_lake"]) == (19, 19)
    assert (kept["differing"], kept["undecided"]) == (0, 0)
    # What comes later goes on from the rows that were made anew.
    feed.update(7, body="'later'")
    feed.delete(8)
    feed.beat(30)
    run(spark, spec, feed)
    assert "19 rows in the database, 19 in the lake: none differs" in command("verify", str(file))
