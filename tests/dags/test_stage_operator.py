"""A stage as a task: what it submits, and what it makes of the end."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from waybill.errors import ConfigurationError, DriverError
from waybill.lake import properties_file
from waybill.report import STAGES, StageReport
from waybill.spec.file import load_migration
from waybill_airflow import operators, submission
from waybill_airflow.drivers import find_driver
from waybill_airflow.operators import GateOperator, StageOperator
from waybill_airflow.outcome import StageInterrupted, keep_report

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def _outside_of_a_run(monkeypatch):
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", True)


def stage(file: Path, name: str = "merge", until: str = "publish", **more) -> StageOperator:
    kind = GateOperator if name == "validate" else StageOperator
    return kind(
        task_id=name,
        stage=name,
        migration=str(file),
        batch="b-1",
        mode="full",
        until=until,
        **{"tables": "", "keys": "", "until_time": "", "drop_held": "", **more},
    )


@pytest.mark.spark
def test_the_report_comes_back(migrations, fake_stages):
    file = migrations("shop")
    report = stage(file).execute({})
    assert (report["stage"], report["batch"], report["rows_out"]) == ("merge", "b-1", 7)
    ((name, given),) = fake_stages()
    assert name == "merge"
    result = given.pop("--result")
    assert given == {"--migration": str(file), "--batch": "b-1", "--mode": "full"}
    assert not Path(result).parent.exists(), "nothing stays behind"


def test_a_time_to_read_up_to_is_handed_on(migrations, fake_stages):
    stage(migrations("shop"), "snapshot", until_time="2026-11-20T06:00:00+00:00").execute({})
    ((_name, given),) = fake_stages()
    assert given["--until-time"] == "2026-11-20T06:00:00+00:00"


def test_the_tables_of_a_reload_are_handed_on(migrations, fake_stages):
    stage(migrations("shop"), "convert", tables="shop.a, shop.b*").execute({})
    ((_name, given),) = fake_stages()
    assert given["--tables"] == "shop.a, shop.b*"
    assert "--keys" not in given


def test_so_are_the_keys(migrations, fake_stages):
    stage(migrations("shop"), "convert", tables="shop.a", keys="differing").execute({})
    ((_name, given),) = fake_stages()
    assert given["--keys"] == "differing"


def log_lines(capsys) -> list[str]:
    """What the task's log holds, without time and place."""
    lines = capsys.readouterr().out.splitlines()
    return [
        line.split("] ", 1)[1].rsplit(" [airflow", 1)[0].strip() for line in lines if "] " in line
    ]


def test_what_is_submitted(migrations, fake_stages, capsys):
    operator = stage(migrations("shop"))
    operator.execute({})
    command = next(line for line in log_lines(capsys) if line.startswith("Spark-Submit cmd"))
    assert "--master local[2]" in command
    assert re.search(r"--py-files \S+/waybill-[0-9a-f]{16}\.zip", command)
    assert re.search(r"spark\.jars=\S*iceberg-spark-runtime\S*\.jar", command)
    assert "log4j2.properties" in command
    assert "spark.ui.enabled=false" in command
    assert "merge_tables.py --migration" in command


@pytest.mark.spark
def test_the_log_is_the_stage_s_own(migrations, fake_stages, capsys):
    stage(migrations("shop")).execute({})
    command, *after = log_lines(capsys)
    assert command.startswith("Spark-Submit cmd")
    assert after[-1] == "the merge stage goes on"
    assert len(after) <= 2, after


def test_a_later_stage_than_asked_for_is_skipped(migrations, fake_stages):
    file = migrations("shop")
    with pytest.raises(AirflowSkipException, match="asked to stop after merge"):
        stage(file, "validate", until="merge").execute({})
    assert fake_stages() == []
    assert stage(file, "merge", until="merge").execute({})["stage"] == "merge"


ERROR = {"kind": "GateError", "message": "the gate said no", "transient": False, "exit_code": 3}


def test_the_upkeep_is_submitted_whatever_was_asked_for(migrations, fake_stages):
    stage(migrations("shop"), "upkeep", until="snapshot").execute({})
    ((name, _given),) = fake_stages()
    assert name == "upkeep"


def test_a_verification_alone_is_given_the_login_of_the_database(
    migrations, fake_stages, monkeypatch
):
    login = '{"conn_type": "postgres", "host": "h", "password": "secret"}'
    monkeypatch.setenv("AIRFLOW_CONN_SOURCE", login)
    file = migrations("shop", more="verify: {database: source}\n")
    given: list[list[str]] = []

    def connections(names):
        given.append(list(names))
        return {}

    monkeypatch.setattr(submission, "connections", connections)
    stage(file).execute({})
    stage(file, "verify").execute({})
    assert ["source" in names for names in given] == [False, True]
    assert [name for name, _ in fake_stages()] == ["merge", "verify"]


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        pytest.param(
            ERROR, AirflowFailException, "GateError: the gate said no", marks=pytest.mark.spark
        ),
        (
            {**ERROR, "kind": "ConflictError", "message": "another run", "transient": True},
            StageInterrupted,
            "ConflictError: another run",
        ),
        ({**ERROR, "code": "WB-5001"}, AirflowFailException, "^WB-5001: the gate said no$"),
        pytest.param(
            "kill", StageInterrupted, "the merge stage ended with", marks=pytest.mark.spark
        ),
        ("silent", AirflowFailException, "ended without a report"),
    ],
)
def test_how_a_stage_may_fail(migrations, fake_stages, act, error, says):
    fake_stages("merge", act)
    with pytest.raises(error, match=says) as caught:
        stage(migrations("shop")).execute({})
    assert "spark-submit" not in str(caught.value).lower()


class Kept:
    """The part of a task instance that takes what a task gives to others."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def xcom_push(self, key: str, value: object) -> None:
        self.values[key] = value


def test_a_gate_that_says_no_returns_its_outcome_too():
    kept = Kept()
    report = {"stage": "validate", "details": {"outcome": "failed"}}
    keep_report({"error": ERROR, "report": report}, {"ti": kept})
    assert kept.values == {"return_value": report}
    keep_report({"error": ERROR}, {"ti": kept})
    assert kept.values == {"return_value": report}


def test_a_failed_stage_gives_its_report(migrations, monkeypatch):
    kept = Kept()
    result = {"error": ERROR, "report": {"stage": "validate"}}
    driver = SimpleNamespace(run=lambda *_given: result)
    monkeypatch.setattr(operators, "find_driver", lambda: driver)
    with pytest.raises(AirflowFailException, match="the gate said no"):
        stage(migrations("shop"), "validate").execute({"ti": kept})
    assert kept.values == {"return_value": {"stage": "validate"}}


def test_a_worker_without_java_says_so(migrations, fake_stages, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(AirflowFailException, match="there is no Java in JAVA_HOME=/nowhere"):
        stage(migrations("shop")).execute({})
    assert fake_stages() == []


def test_a_migration_that_broke_meanwhile_fails_at_once(migrations, fake_stages):
    file = migrations("shop")
    operator = stage(file)
    file.write_text("name: shop\n")
    with pytest.raises(AirflowFailException, match="source is missing"):
        operator.execute({})
    assert fake_stages() == []


@pytest.mark.parametrize("batch", ["b-1\n", "", "../b", "None "])
def test_what_is_no_batch_id_is_not_submitted(migrations, fake_stages, batch):
    operator = stage(migrations("shop"))
    operator.batch = batch
    with pytest.raises(AirflowFailException, match="is not a batch id"):
        operator.execute({})
    assert fake_stages() == []


def test_a_time_that_no_calendar_has_fails_at_once(migrations, fake_stages):
    operator = stage(migrations("shop"))
    operator.until_time = "2026-02-30T00:00"
    with pytest.raises(AirflowFailException, match="'2026-02-30T00:00', up to which"):
        operator.execute({})
    assert fake_stages() == []


def test_no_connection_is_said_and_not_taken_for_yarn(migrations, fake_stages):
    operator = stage(migrations("shop"), conn_id="nobody")
    with pytest.raises(AirflowFailException, match="there is no connection 'nobody'"):
        operator.execute({})
    assert fake_stages() == []


@pytest.mark.spark
def test_secrets_reach_spark_and_nothing_else(migrations, fake_stages, monkeypatch, capsys):
    """Spark settings of a migration may come from the environment, because they are secret."""
    monkeypatch.setenv("KEY", "hunter2 \\ = #é")
    more = 'spark: {spark.waybill.password: "${KEY}", spark.driver.memory: 512m}\n'
    kept = {}
    write = properties_file.write_properties

    def look(folder, properties):
        path = write(folder, properties)
        kept["mode"] = stat.S_IMODE(path.stat().st_mode)
        kept["text"] = path.read_text(encoding="utf-8")
        return path

    monkeypatch.setattr(properties_file, "write_properties", look)
    operator = stage(migrations("shop", more=more))
    report = operator.execute({})
    assert kept["mode"] == 0o600
    assert "spark.waybill.password=hunter2\\ \\\\\\ \\=\\ \\#é\n" in kept["text"]
    assert "hunter2" not in str(capsys.readouterr())
    assert "hunter2" not in json.dumps([report, operator.conf, operator.application_args])
    assert "spark.driver.memory" not in operator.conf, "the migration's own goes before ours"


SHIPPED = 'spark: {spark.archives: "e.tar.gz#environment", spark.pyspark.python: ./environment/p}\n'


def settings_of(file: Path, master: str) -> tuple[dict[str, str], dict[str, str]]:
    return submission.settings(load_migration(file), master)


def test_a_driver_keeps_its_python_where_executors_get_another(migrations, monkeypatch):
    """spark-submit would start the driver with the executors' one, which is not here."""
    file = migrations("shop", more=SHIPPED)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/some/python")
    ours, theirs = settings_of(file, "spark://h:7077")
    assert ours["spark.pyspark.driver.python"] == "/some/python"
    assert theirs["spark.pyspark.python"] == "./environment/p"
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/other/python")
    assert settings_of(file, "yarn")[0]["spark.pyspark.driver.python"] == "/other/python"


def test_a_local_spark_uses_the_python_that_is_here(migrations):
    ours, theirs = settings_of(migrations("shop", more=SHIPPED), "local[2]")
    assert not {"spark.archives", "spark.pyspark.python"} & (ours.keys() | theirs.keys())


def test_settings_of_the_cluster_hold_beside_those_of_the_migration(tmp_path, monkeypatch):
    """Spark would not read them: it takes one file of settings."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.executor.memory 4g\nspark.a.b 1")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    written = properties_file.write_properties(tmp_path, {"spark.a.b": "2"})
    assert written.read_text() == "spark.executor.memory 4g\nspark.a.b 1\nspark.a.b=2\n"


def links_of(operator) -> dict[str, str]:
    """Where the buttons of a task lead."""
    key = SimpleNamespace(dag_id="shop")
    return {
        link.name: link.get_link(operator, ti_key=key) for link in operator.operator_extra_links
    }


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_has_a_button_to_its_batch(migrations, fake_stages, name):
    operator = stage(migrations("shop"), name)
    assert links_of(operator)["Waybill batch"] == "", "it has not begun"
    operator.execute({})
    assert links_of(operator)["Waybill batch"] == "/waybill/batches/shop/b-1"


def test_upkeep_belongs_to_no_batch(migrations):
    assert links_of(stage(migrations("shop"), "upkeep")) == {}


def test_the_gate_has_a_button_to_its_report(migrations, fake_stages):
    operator = stage(migrations("shop"), "validate")
    assert links_of(operator)["Gate report"] == ""
    operator.execute({})
    assert links_of(operator)["Gate report"] == "/waybill/gate/shop/b-1"


def test_the_button_is_there_after_the_gate_said_no(migrations, fake_stages):
    fake_stages("validate", ERROR)
    operator = stage(migrations("shop"), "validate")
    with pytest.raises(AirflowFailException):
        operator.execute({})
    assert links_of(operator) == {
        "Waybill batch": "/waybill/batches/shop/b-1",
        "Gate report": "/waybill/gate/shop/b-1",
    }


def test_a_url_that_names_no_bucket_fails_at_once(migrations, fake_stages):
    file = migrations(
        "shop", text="name: shop\nsource: {files: {path: 's3:///in'}, envelope: canal}\n"
    )
    with pytest.raises(AirflowFailException, match=r"shop\.yaml:2: source\.files\.path - s3:///in"):
        stage(file).execute({})
    assert fake_stages() == []


def test_a_connection_that_cannot_be_looked_for_fails_at_once(migrations, fake_stages, monkeypatch):
    def wrong(_names):
        raise ConfigurationError("that is no connection")

    monkeypatch.setattr(operators.submission, "connections", wrong)
    with pytest.raises(AirflowFailException, match="that is no connection"):
        stage(migrations("shop")).execute({})
    assert fake_stages() == []


def connected(monkeypatch, **fields) -> None:
    """Give Airflow a connection to a driver."""
    usual = {"conn_type": "http", "host": "driver", "password": "s3cret-token-0123456789"}
    monkeypatch.setenv("AIRFLOW_CONN_WAYBILL_DRIVER", json.dumps({**usual, **fields}))


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://driver:8190"),
        ({"host": " driver\n", "port": 7, "schema": "https"}, "https://driver:7"),
        ({"host": "::1"}, "http://[::1]:8190"),
        ({"host": "[fe80::2]"}, "http://[fe80::2]:8190"),
        ({"password": "s3cret-token-0123456789\n"}, "http://driver:8190"),
    ],
)
def test_where_a_driver_is_and_its_token(monkeypatch, fields, url):
    connected(monkeypatch, **fields)
    assert find_driver() == (url, "s3cret-token-0123456789")


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "http://driver.example"},
        {"host": "ann:s3cret@driver"},
        {"host": ""},
        {"schema": "ftp"},
        {"password": ""},
        {"password": "s3cret\ntoken-0123456789"},
        {"password": "s3cret-tökén-0123456789"},
    ],
)
def test_a_driver_that_cannot_be_asked_fails_at_once_and_shows_no_token(
    migrations, fake_stages, monkeypatch, capsys, fields
):
    connected(monkeypatch, **fields)
    with pytest.raises(AirflowFailException) as caught:
        stage(migrations("shop")).execute({})
    assert "s3cret" not in str(caught.value) + str(capsys.readouterr())
    assert fake_stages() == []


class TestWithADriver:
    """Airflow has a connection to a driver: stages go there."""

    @pytest.fixture
    def orders(self, monkeypatch) -> list[dict]:
        monkeypatch.setenv(
            "AIRFLOW_CONN_WAYBILL_DRIVER",
            '{"conn_type": "http", "host": "driver", "port": 8191, "password": "t0ken"}',
        )
        asked = []

        def ask(url, token, order, tell):
            asked.append(order)
            assert (url, token) == ("http://driver:8191", "t0ken")
            tell("merge: said", "WARNING")
            answer = self.answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.answer = {"report": StageReport("merge", "b-1", rows_out=5).to_dict()}
        monkeypatch.setattr("waybill_airflow.drivers.ask", ask)
        return asked

    def test_the_stage_is_asked_for(self, orders, migrations, fake_stages, capsys):
        file = migrations("shop")
        assert stage(file).execute({})["rows_out"] == 5
        (order,) = orders
        expected = {"stage": "merge", "migration": str(file), "batch": "b-1", "mode": "full"}
        assert order == {**expected, "connections": {}}
        assert fake_stages() == []
        assert "merge: said" in capsys.readouterr().out

    def test_a_time_to_read_up_to_is_handed_on(self, orders, migrations, fake_stages):
        stage(migrations("shop"), until_time="2026-11-20T06:00:00Z").execute({})
        assert orders[0]["until_time"] == "2026-11-20T06:00:00Z"

    def test_what_a_gate_holds_is_dropped_on_request(self, orders, migrations, fake_stages):
        stage(migrations("shop"), drop_held="yes").execute({})
        assert orders[0]["drop_held"] is True

    def test_spark_settings_of_its_own_need_a_spark_of_its_own(
        self, orders, migrations, fake_stages
    ):
        stage(migrations("shop", more="spark: {spark.sql.shuffle.partitions: '7'}\n")).execute({})
        assert len(orders) == 1
        stage(migrations("other", more="spark: {spark.driver.memory: 4g}\n")).execute({})
        assert len(orders) == 1
        assert len(fake_stages()) == 1

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            ({"error": ERROR}, AirflowFailException),
            ({"error": {**ERROR, "transient": True}}, StageInterrupted),
            (DriverError("gone", True), StageInterrupted),
            (DriverError("wrong token", False), AirflowFailException),
            ({}, AirflowFailException),
        ],
    )
    def test_how_it_may_fail(self, orders, migrations, fake_stages, answer, error):
        self.answer = answer
        with pytest.raises(error):
            stage(migrations("shop")).execute({})
        assert fake_stages() == []


KAFKA = """\
name: topic
source: {kafka: {topics: [shop]}, envelope: oms-default}
publish: [{envelope: canal, kafka: {topic: out, connection: other}}]
lake: {warehouse: lake}
"""


def test_connections_reach_the_stage_and_no_page_of_airflow(
    migrations, fake_stages, monkeypatch, capsys
):
    file = migrations("topic", text=KAFKA)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "kafka://ann:hunter2@h:9092")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", '{"conn_type": "kafka", "extra": {"a": "hunter3"}}')
    operator = stage(file)
    operator.execute({})
    assert json.loads(os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"])["password"] == "hunter2"
    assert json.loads(os.environ["AIRFLOW_CONN_OTHER"])["conn_type"] == "kafka"
    shown = [str(getattr(operator, name)) for name in operator.template_fields]
    assert "hunter" not in str(shown) + str(capsys.readouterr())
