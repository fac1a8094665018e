"""What stages tell by OpenLineage, and what of it arrives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dags.conftest import PROJECT
from tests.dags.receivers import Lineage
from waybill.merge.origins import ColumnOrigin, TableOrigin, keep_origins
from waybill.report import STAGES, StageReport
from waybill.spec.file import load_migration
from waybill.spec.migration import Migration
from waybill.validate.result import Checked, GateResult
from waybill.validate.results import keep
from waybill_airflow.operators import StageOperator
from waybill_airflow.signals import after_stage
from waybill_airflow.signals.lineage.switch import is_on

pytestmark = pytest.mark.airflow

BATCH = "b-1"
TABLE = 'sh"op.ör ders'
"""A name with what people do not expect in one."""

SPEC_URL = "https://openlineage.io/spec/facets"
PRODUCER = "https://github.com/apache/airflow/tree/providers-openlineage/"


def rule(type_: str, **more) -> Checked:
    found = {"suite": "tables", "profile": "tables", "severity": "critical", **more}
    arguments = found.pop("arguments", {"column": "duplicate_keys", "max_value": 0.0})
    return Checked(
        type=type_,
        arguments=arguments,
        description=found.pop("description", "Every key is unique in its table."),
        look="",
        success=found.pop("success", True),
        observed=found.pop("observed", []),
        **found,
    )


BETWEEN = "expect_column_values_to_be_between"
CHECKS = [
    rule(BETWEEN),
    rule(
        BETWEEN,
        suite="changes",
        profile="changes",
        success=False,
        severity="warning",
        arguments={"column": "refused_share", "max_value": 0.05},
        observed=[{"where": "shop", "value": 0.25}],
        description="Few messages are refused.",
    ),
    rule(
        BETWEEN,
        suite="trends",
        profile="trends",
        severity="warning",
        arguments={"column": "rows_fell", "max_value": 0.3},
        description="A table does not lose rows.",
    ),
    rule(
        BETWEEN,
        suite="trends",
        profile="trends",
        severity="warning",
        arguments={"column": "age_times", "max_value": 3.0},
        description="Nobody knows how old it was.",
    ),
    rule(
        "expect_column_values_to_be_in_set",
        suite="status",
        profile="written rows of it",
        table=TABLE,
        success=False,
        arguments={"column": "token", "value_set": ["a", "ß"]},
        unexpected=3,
        observed=[{"where": '{"id":"7"}', "value": "a secret of a person"}],
        description="A status is one of two.",
    ),
    rule(
        "expect_table_row_count_to_be_between",
        suite="sent",
        profile="messages to canal",
        arguments={"min_value": 1},
        description="Something is sent.",
    ),
]
PROFILES = {
    "changes": [{"topic": "shop", "messages": 40}],
    "tables": [{"table": TABLE, "rows": 30}],
    "trends": [
        {"kind": "topic", "name": "shop", "rows_fell": None, "age_times": None},
        {"kind": "table", "name": TABLE, "rows_fell": 0.1, "age_times": None},
    ],
}
REPORTED = {
    "snapshot": {"rows_in": 40, "rows_out": 40, "details": {"bytes": 4000, "new_files": 2}},
    "convert": {
        "rows_in": 40,
        "rows_out": 39,
        "refused": {"json": 1},
        "details": {"targets": {"canal": {"messages": 38}}},
    },
    "merge": {
        "rows_in": 39,
        "rows_out": 31,
        "superseded": 8,
        "details": {TABLE: {"in": 39, "out": 31}},
        "snapshots": {"lake.small.sh_op__r_ders": 2**60},
    },
    "validate": {"rows_in": 6, "rows_out": 6, "details": {"outcome": "passed"}},
    "publish": {
        "rows_in": 38,
        "rows_out": 38,
        "details": {"canal": {"messages": 38, "parts": 1, "bytes": 380}},
    },
}
COLUMNS = (
    ColumnOrigin("id", "id", "bigint"),
    ColumnOrigin("tökén „x“", "t_k_n", "string"),
    # What Airflow takes for the name of a secret.
    ColumnOrigin("token", "token", "decimal(10,2)"),
)


def facet(name: str, version: str, /, **content) -> dict:
    """A facet without who made it."""
    return {"_schemaURL": f"{SPEC_URL}/{version}/{name}.json#/$defs/{name}", **content}


def plain(data):
    """The same without who made it, which has the provider's version in it."""
    if isinstance(data, dict):
        made = data.get("_producer")
        assert made is None or made.startswith(PRODUCER)
        return {key: plain(value) for key, value in data.items() if key != "_producer"}
    return [plain(one) for one in data] if isinstance(data, list) else data


@pytest.fixture
def folder(tmp_path, migrations):
    """A migration with names that are hostile, and what its merge and its gate have left."""
    text = (
        "name: small\n"
        f"source:\n  files: {{path: '{tmp_path}/in €/it''s \"*\".jsonl', topic: shop}}\n"
        "  envelope: oms-default\n"
        f"publish:\n  - {{envelope: canal, files: {{path: '{tmp_path}/out [1]'}}}}\n"
        f"lake: {{warehouse: '{tmp_path}/lake'}}\n"
    )
    spec = load_migration(migrations("small", text=text))
    origin = TableOrigin("small.sh_op__r_ders", ("shop",), COLUMNS)
    keep_origins(spec, BATCH, {TABLE: origin})
    time = "2026-01-02T03:04:05+00:00"
    keep(spec, GateResult("small", BATCH, time, CHECKS, PROFILES))
    return tmp_path


def run(receiver: Lineage, fake_stages, **acts) -> dict[str, dict]:
    """Runs the DAG in a process of its own; returns the events that end its tasks, by name."""
    for stage in STAGES:
        fake_stages(stage, acts.get(stage, {"tells": REPORTED[stage]}))
    conf = json.dumps({"batch": BATCH})
    ran = subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "test", "small", "--conf", conf],
        env={
            **os.environ,
            **receiver.environment(),
            "PYTHONPATH": os.pathsep.join(str(PROJECT / f) for f in ("plugins", "spark_jobs")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    events = receiver.close()
    assert {event["path"] for event in events} == {"/api/v1/lineage"}
    begun = [event["job"]["name"] for event in events if event["eventType"] == "START"]
    assert begun[:2] == ["small.snapshot", "small.convert"], ran.stdout + ran.stderr
    assert "lineage of small could not be sent" not in ran.stdout + ran.stderr
    return {event["job"]["name"]: plain(event) for event in events if event["eventType"] != "START"}


@pytest.fixture
def receiver(airflow_home):
    return Lineage()


def test_a_run_tells_what_it_read_and_wrote(folder, fake_stages, receiver):
    ended = run(receiver, fake_stages)
    assert {event["eventType"] for event in ended.values()} == {"COMPLETE"}
    assert ended.keys() == {"small", *(f"small.{stage}" for stage in STAGES)}
    source = {"namespace": "file", "name": f"{folder}/in €"}

    snapshot = ended["small.snapshot"]
    statistics = {"rowCount": 40, "size": 4000, "fileCount": 2}
    read = facet("InputStatisticsInputDatasetFacet", "1-0-0", **statistics)
    assert snapshot["inputs"] == [
        {**source, "facets": {}, "inputFacets": {"inputStatistics": read}}
    ]
    assert snapshot["run"]["facets"]["waybill_batch"] == {
        "_schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet",
        "migration": "small",
        "batch": BATCH,
        "stage": "snapshot",
        "repeated": False,
        "rows": {
            "in": 40,
            "extraIn": 0,
            "out": 40,
            "refused": 0,
            "superseded": 0,
            "skipped": 0,
            "waiting": 0,
        },
    }

    def of_lake(table: str) -> dict:
        warehouse = f"file:{folder}/lake"
        identifiers = [{"namespace": warehouse, "name": table, "type": "TABLE"}]
        return {
            "storage": facet(
                "StorageDatasetFacet", "1-0-1", storageLayer="iceberg", fileFormat="parquet"
            ),
            "symlinks": facet("SymlinksDatasetFacet", "1-0-1", identifiers=identifiers),
            "catalog": facet(
                "CatalogDatasetFacet",
                "1-1-0",
                framework="iceberg",
                type="jdbc",
                name="lake",
                warehouseUri=warehouse,
                source="spark",
                catalogProperties={},
            ),
        }

    def log(name: str) -> dict:
        place = {"namespace": "file", "name": f"{folder}/lake/small_log/{name}"}
        return {**place, "facets": of_lake(f"small_log.{name}")}

    def written(rows: int, **more) -> dict:
        found = facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=rows, **more)
        return {"outputFacets": {"outputStatistics": found}}

    def read_log(name: str, rows: int) -> dict:
        found = facet("InputStatisticsInputDatasetFacet", "1-0-0", rowCount=rows)
        return {**log(name), "inputFacets": {"inputStatistics": found}}

    assert snapshot["outputs"] == [{**log("archive"), **written(40)}]
    convert = ended["small.convert"]
    assert convert["inputs"] == [read_log("archive", 40)]
    assert convert["outputs"] == [
        {**log("changes"), **written(39)},
        {**log("outbox"), **written(38)},
    ]

    def field(name: str, number: int, **more) -> dict:
        return {"name": name, "ordinal_position": number, "fields": [], **more}

    def copied(column: str) -> dict:
        copy = {"type": "DIRECT", "subtype": "IDENTITY"}
        one = {**source, "field": f"{TABLE}.{column}", "transformations": [copy]}
        return {"inputFields": [one]}

    fields = [field(f"{TABLE}.{c.source}", n) for n, c in enumerate(COLUMNS, start=1)]
    known = facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    merge = ended["small.merge"]
    source_described = {**source, "facets": {"schema": known}, "inputFacets": {}}
    assert merge["inputs"] == [read_log("changes", 39), source_described]
    described = {
        **of_lake("small.sh_op__r_ders"),
        "documentation": facet(
            "DocumentationDatasetFacet",
            "1-1-0",
            description=f"The rows of {TABLE}, merged by the migration small.",
        ),
        "schema": facet(
            "SchemaDatasetFacet",
            "1-2-0",
            fields=[field(c.lake, n, type=c.type) for n, c in enumerate(COLUMNS, start=1)],
        ),
    }
    table = {"namespace": "file", "name": f"{folder}/lake/small/sh_op__r_ders"}
    lineage = {column.lake: copied(column.source) for column in COLUMNS}
    facets = {
        **described,
        "version": facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=str(2**60)),
        "columnLineage": facet("ColumnLineageDatasetFacet", "1-2-0", fields=lineage, dataset=[]),
    }
    assert merge["outputs"] == [{**table, "facets": facets, **written(31)}]

    validate = ended["small.validate"]
    metrics = "DataQualityMetricsInputDatasetFacet"
    asserted = "DataQualityAssertionsDatasetFacet"
    assert validate["outputs"] == []
    of_table, of_topic, of_messages = validate["inputs"]
    assert of_table == {
        **table,
        "facets": described,
        "inputFacets": {
            "dataQualityMetrics": facet(metrics, "1-0-3", columnMetrics={}, rowCount=30),
            "dataQualityAssertions": facet(
                asserted,
                "1-1-0",
                assertions=[
                    {
                        "assertion": BETWEEN,
                        "success": True,
                        "severity": "error",
                        "name": "tables: duplicate_keys",
                        "description": "Every key is unique in its table.",
                        "expected": '{"max_value": 0.0}',
                        "params": {},
                    },
                    {
                        "assertion": BETWEEN,
                        "success": True,
                        "severity": "warn",
                        "name": "trends: rows_fell",
                        "description": "A table does not lose rows.",
                        "expected": '{"max_value": 0.3}',
                        "params": {},
                    },
                    {
                        "assertion": "expect_column_values_to_be_in_set",
                        "success": False,
                        "column": "token",
                        "severity": "error",
                        "name": "status: token",
                        "description": "A status is one of two.",
                        "expected": '{"value_set": ["a", "ß"]}',
                        "actual": "3 unexpected rows",
                        "params": {},
                    },
                ],
            ),
        },
    }
    assert of_topic == {
        **source,
        "facets": {},
        "inputFacets": {
            "dataQualityMetrics": facet(metrics, "1-0-3", columnMetrics={}, rowCount=40),
            "dataQualityAssertions": facet(
                asserted,
                "1-1-0",
                assertions=[
                    {
                        "assertion": BETWEEN,
                        "success": False,
                        "severity": "warn",
                        "name": "changes: refused_share",
                        "description": "Few messages are refused.",
                        "expected": '{"max_value": 0.05}',
                        "actual": "0.25",
                        "params": {},
                    }
                ],
            ),
        },
    }
    (sent,) = of_messages["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (sent["name"], sent["success"]) == ("sent: expect_table_row_count_to_be_between", True)
    assert "a secret of a person" not in json.dumps(validate)

    publish = ended["small.publish"]
    assert publish["inputs"] == [read_log("outbox", 38), source_described]
    messages = {column.source: copied(column.source) for column in COLUMNS}
    lineage = {f"{TABLE}.{name}": came for name, came in messages.items()}
    assert publish["outputs"] == [
        {
            "namespace": "file",
            "name": f"{folder}/out [1]",
            "facets": {
                "schema": known,
                "columnLineage": facet(
                    "ColumnLineageDatasetFacet", "1-2-0", fields=lineage, dataset=[]
                ),
            },
            **written(38, size=380, fileCount=1),
        }
    ]


def test_a_held_batch_tells_what_the_gate_found(folder, fake_stages, receiver):
    held = StageReport("validate", BATCH, details={"outcome": "failed"}).to_json_safe()
    no = {"kind": "GateError", "message": "no", "transient": False, "exit_code": 3, "report": held}
    ended = run(receiver, fake_stages, validate=no)
    assert ended["small"]["eventType"] == "FAIL"
    failed = ended["small.validate"]
    assert failed["eventType"] == "FAIL"
    assertions = failed["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [one["success"] for one in assertions] == [True, True, False]
    assert "small.publish" not in ended, "it did not run"


# Whether anybody asks.


def topics(tmp_path: Path, **more) -> Migration:
    """A migration from topics to a topic, its lake in object storage where that is said."""
    return Migration.model_validate(
        {
            "name": "shop",
            "source": {
                "kafka": {"connection": "from", "topics": ["a b", "Ünï/#?"]},
                "envelope": "oms-default",
            },
            "publish": [
                {"envelope": "canal", "kafka": {"connection": "to", "topic": 'out "x"'}},
            ],
            "lake": {"warehouse": str(tmp_path / "lake")},
            **more,
        }
    )


@pytest.fixture
def asked(monkeypatch):
    """Where events go, told to this process."""
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")


def test_nobody_is_notified_without_a_place_to_send_events_to(folder):
    assert not is_on()
    spec = load_migration(folder / "migrations/small.yaml")
    assert after_stage.tell(spec, StageReport("merge", BATCH).to_json_safe(), {}) is None


def test_nobody_is_notified_without_the_provider(folder, asked, monkeypatch):
    spec = load_migration(folder / "migrations/small.yaml")
    assert after_stage.tell(spec, StageReport("merge", BATCH).to_json_safe(), {}).outputs
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert not is_on()
    assert after_stage.tell(spec, StageReport("merge", BATCH).to_json_safe(), {}) is None


def test_lineage_that_cannot_be_reported_does_not_fail_the_stage(tmp_path, asked, caplog):
    """Its connections are not there; the stage has committed."""
    spec = topics(tmp_path)
    assert after_stage.tell(spec, StageReport("merge", BATCH).to_json_safe(), {}) is None
    (line,) = [message for message in caplog.messages if "lineage" in message]
    assert "there is no connection from" in line
    assert "the batch is not concerned" in line


def test_a_task_that_did_not_come_to_a_report_tells_nothing():
    operator = StageOperator(task_id="merge", stage="merge", migration="/no/file.yaml")
    assert operator.get_openlineage_facets_on_failure(None) is None
    assert operator.get_openlineage_facets_on_complete(None) is None
