"""Settings of Spark and of the catalog, names and literals, without starting Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from waybill.errors import ConfigurationError, SourceError
from waybill.lake import names
from waybill.lake.settings import catalog_properties, jars, local_catalog_folder, spark_settings
from waybill.spec import Migration
from waybill.task_errors import unwrapped


def migration(**lake) -> Migration:
    source = {"files": {"path": "/in"}, "envelope": "canal"}
    return Migration.model_validate(
        {"name": "m", "source": source, "lake": lake, "spark": {"spark.jars": "mine"}}
    )


def test_the_embedded_catalog_lies_in_the_warehouse() -> None:
    properties = catalog_properties(migration(warehouse="/data/lake"))
    assert properties["type"] == "jdbc"
    assert properties["uri"].startswith("jdbc:sqlite:/data/lake/catalog.db?busy_timeout=")
    assert properties["jdbc.schema-version"] == "V1"
    assert properties["warehouse"] == "/data/lake"
    assert local_catalog_folder(properties) == Path("/data/lake")


def test_another_catalog_is_passed_on_as_it_is() -> None:
    given = {"type": "rest", "uri": "http://c", "header.X": True, "clients": 3}
    properties = catalog_properties(migration(warehouse="s3://b/w", catalog=given))
    assert properties == {
        "type": "rest",
        "uri": "http://c",
        "header.X": "true",
        "clients": "3",
        "warehouse": "s3://b/w",
        "cache-enabled": "false",
    }
    assert local_catalog_folder(properties) is None
    own = catalog_properties(migration(warehouse="w", catalog={"catalog-impl": "org.x.Y"}))
    assert "type" not in own
    postgres = {"type": "jdbc", "uri": "jdbc:postgresql://db/x"}
    assert catalog_properties(migration(warehouse="s3://b", catalog=postgres))["uri"] == (
        "jdbc:postgresql://db/x"
    )


def test_a_cache_cannot_be_switched_on() -> None:
    given = {"type": "rest", "uri": "u", "cache-enabled": True}
    properties = catalog_properties(migration(warehouse="w", catalog=given))
    assert properties["cache-enabled"] == "false"


def test_no_embedded_catalog_in_object_storage() -> None:
    with pytest.raises(ConfigurationError, match=r"lake\.catalog"):
        catalog_properties(migration(warehouse="s3://bucket/lake"))


def test_settings_of_the_migration_go_first(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "x.jar").touch()
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    assert spark_settings()["spark.jars"] == str(tmp_path / "x.jar")
    assert spark_settings(migration(warehouse="w"))["spark.jars"] == "mine"


def test_missing_jars_are_said(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    with pytest.raises(ConfigurationError, match="make setup"):
        jars()


def test_names_and_literals_hold_anything() -> None:
    assert names.quoted("a", "b`c", "d.e") == "`a`.`b``c`.`d.e`"
    assert names.literal("it's \\ x") == "'it\\'s \\\\ x'"
    assert names.literal(7) == "7"
    assert names.table_name("Shop.Order-Items ü") == "shop_order_items"
    assert names.table_name("`'") == "table"
    assert len(names.table_name("x" * 500)) == 120
    assert names.distinct_name("a.b") != names.distinct_name("a_b")
    one, two = names.branch_prefix("merge", "a/b"), names.branch_prefix("merge", "a-b")
    assert one != two
    assert one.startswith("merge_a-b_")


WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "x.py", line 1, in read
waybill.errors.{kind}: {message}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala)
"""


def test_an_error_of_a_task_is_raised_as_what_it_was() -> None:
    text = WORKER.format(kind="SourceError", message="file a: gone;\nput it back")
    with pytest.raises(SourceError, match=r"^file a: gone;\nput it back$"), unwrapped():
        raise RuntimeError(text)


@pytest.mark.parametrize(
    "text", ["plain", WORKER.format(kind="Nonsense", message="x"), "waybill.errors.re: x"]
)
def test_other_errors_stay_what_they_are(text: str) -> None:
    with pytest.raises(RuntimeError), unwrapped():
        raise RuntimeError(text)


def test_the_class_archive_is_used_where_there_is_one(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "x.jar").touch()
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    options = "spark.driver.extraJavaOptions"
    assert "spark.jsa" not in spark_settings()[options]
    (tmp_path / "spark.jsa").touch()
    assert "spark.jsa" not in spark_settings()[options], "Java could not make one"
    (tmp_path / "spark.jsa").write_bytes(b"classes")
    assert f'-XX:SharedArchiveFile="{tmp_path}/spark.jsa"' in spark_settings()[options]
