"""Settings of Spark and of the catalog, names and literals, without starting Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from waybill.errors import Code, ConfigurationError, SourceError
from waybill.lake import names
from waybill.lake.catalog_properties import catalog_properties, local_catalog_folder
from waybill.lake.session import _choose_address, _new_session
from waybill.lake.settings import FIXED, jars, session_settings, spark_settings
from waybill.spark_tasks.errors import unwrapped
from waybill.spec.migration import Migration


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
    properties = catalog_properties(migration(warehouse="/w", catalog=given))
    assert properties == {
        "type": "rest",
        "uri": "http://c",
        "header.X": "true",
        "clients": "3",
        "warehouse": "/w",
        "cache-enabled": "false",
    }
    assert local_catalog_folder(properties) is None
    own = catalog_properties(migration(warehouse="w", catalog={"catalog-impl": "org.x.Y"}))
    assert "type" not in own


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch):
    """Sets connections; none are there before."""
    for name in list(os.environ):
        if name.startswith(("AIRFLOW_CONN_", "AWS_")):
            monkeypatch.delenv(name)

    def connect(name: str, **fields) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))

    return connect


POSTGRES = {"type": "jdbc", "uri": "jdbc:postgresql://db/x", "connection": "pg"}


def test_the_login_of_a_catalog_is_in_its_connection(connections) -> None:
    connections("pg", login="me", password="p")
    properties = catalog_properties(migration(warehouse="/w", catalog=POSTGRES))
    assert properties["uri"] == "jdbc:postgresql://db/x"
    assert (properties["jdbc.user"], properties["jdbc.password"]) == ("me", "p")
    assert properties["jdbc.socketTimeout"] == "60"
    assert "connection" not in properties
    patient = {**POSTGRES, "jdbc.socketTimeout": 5}
    properties = catalog_properties(migration(warehouse="/w", catalog=patient))
    assert properties["jdbc.socketTimeout"] == "5"
    rest = {"type": "rest", "uri": "u", "connection": "pg"}
    assert catalog_properties(migration(warehouse="w", catalog=rest))["credential"] == "me:p"
    connections("pg", password="p")
    assert catalog_properties(migration(warehouse="w", catalog=rest))["token"] == "p"
    with pytest.raises(ConfigurationError, match="glue takes no connection"):
        catalog_properties(migration(warehouse="w", catalog={"type": "glue", "connection": "pg"}))
    with pytest.raises(ConfigurationError, match="no connection other"):
        catalog_properties(migration(warehouse="w", catalog={**POSTGRES, "connection": "other"}))


def test_a_warehouse_in_object_storage_brings_its_key(connections) -> None:
    connections("pg", login="me", password="p")
    style = {"s3": {"addressing_style": "path"}}
    extra = {"endpoint_url": "http://h:1/", "config_kwargs": style, "aws_session_token": "t"}
    connections("store", login="k", password="s", extra=extra)
    spec = migration(warehouse="s3://store@bucket/lake/", catalog=POSTGRES)
    properties = catalog_properties(spec)
    assert properties["warehouse"] == "s3://bucket/lake"
    assert properties["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    settings = {
        name: value for name, value in properties.items() if name.startswith(("s3.", "client"))
    }
    assert settings == {
        "client.region": "us-east-1",
        "s3.endpoint": "http://h:1",
        "s3.path-style-access": "true",
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.session-token": "t",
        "s3.retry.num-retries": "8",
        "s3.retry.min-wait-ms": "200",
        "s3.retry.max-wait-ms": "5000",
    }
    assert spec.connections == ["pg", "store"]
    more = migration(warehouse="s3://store@b/l", catalog={**POSTGRES, "s3.retry.num-retries": 1})
    assert catalog_properties(more)["s3.retry.num-retries"] == "1"


def test_without_a_connection_awss_own_variables_count(connections) -> None:
    connections("pg", login="me", password="p")
    properties = catalog_properties(migration(warehouse="s3://bucket/lake", catalog=POSTGRES))
    names = [name for name in properties if name.startswith(("s3.", "client"))]
    assert all(name.startswith("s3.retry") for name in names)
    connections("aws_default", conn_type="aws")
    assert catalog_properties(migration(warehouse="s3://bucket/lake", catalog=POSTGRES)) == (
        properties
    )


def test_oss_is_reached_by_the_buckets_host_name(connections) -> None:
    connections("pg", login="me", password="p")
    spec = migration(warehouse="oss://bucket/lake", catalog=POSTGRES)
    with pytest.raises(ConfigurationError, match="needs the connection oss_default"):
        catalog_properties(spec)
    connections("oss_default", login="k", password="s")
    with pytest.raises(ConfigurationError, match="names no endpoint_url"):
        catalog_properties(spec)
    connections("oss_default", login="k", password="s", extra={"endpoint_url": "https://oss.x"})
    properties = catalog_properties(spec)
    assert properties["warehouse"] == "s3://bucket/lake"
    assert "s3.path-style-access" not in properties
    assert properties["s3.chunked-encoding-enabled"] == "false"


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


def test_what_decides_the_meaning_of_values_stays(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "x.jar").touch()
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    other = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "false",
    }
    spec = migration(warehouse="w").model_copy(update={"spark": {**other, "spark.x": "y"}})
    found = spark_settings(spec)
    assert found["spark.x"] == "y"
    assert {name: found[name] for name in other} == FIXED


def test_missing_jars_are_said(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    with pytest.raises(ConfigurationError, match="make setup"):
        jars()


def test_object_storage_needs_one_more_jar(connections, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "x.jar").touch()
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    local, remote = migration(warehouse="/w"), migration(warehouse="s3://bucket/lake")
    assert jars(local) == jars(None) == [str(tmp_path / "x.jar")]
    with pytest.raises(ConfigurationError, match="`make setup-s3`"):
        jars(remote)
    (tmp_path / "s3").mkdir()
    more = tmp_path / "s3" / "iceberg-aws-bundle-1.jar"
    more.touch()
    assert jars(local) == [str(tmp_path / "x.jar")]
    assert jars(remote) == jars(None) == [str(tmp_path / "x.jar"), str(more)]
    assert jars(migration(warehouse="/w", catalog={"type": "glue"})) == jars(remote)
    own = migration(warehouse="oss://b/l", catalog={"io-impl": "org.x.OssFiles"})
    assert jars(own) == jars(local)
    more.rename(tmp_path / more.name)
    assert str(tmp_path / more.name) in jars(remote)


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


def test_a_local_session_runs_tasks_with_the_python_that_is_here(tmp_path, monkeypatch) -> None:
    (tmp_path / "x.jar").touch()
    monkeypatch.setenv("WAYBILL_JARS", str(tmp_path))
    shipped = {"spark.archives": "e.tar.gz#environment", "spark.pyspark.python": "./environment/p"}
    there = session_settings(None, {**shipped, "spark.master": "spark://h:7077"})
    assert shipped.items() <= there.items()
    here = session_settings(None, {**shipped, "spark.driver.memory": "5g"})
    assert not shipped.keys() & here.keys()
    assert (here["spark.master"], here["spark.driver.memory"]) == ("local[*]", "5g")
    assert here["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in there


def test_only_a_local_session_hides_its_address(monkeypatch) -> None:
    variables: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", variables)
    _choose_address("spark://h:7077")
    assert variables == {}
    _choose_address("local[2]")
    assert variables == {"SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_warehouse_that_cannot_be_made_is_said_before_anything_is_run() -> None:
    said = "the folder /proc/lake of the lake cannot be made .* under lake.warehouse"
    with pytest.raises(ConfigurationError, match=said) as caught:
        _new_session(None, catalog_properties(migration(warehouse="/proc/lake")), {})
    assert (caught.value.code, caught.value.transient) == (Code.PLACE_NOT_WRITABLE, False)
