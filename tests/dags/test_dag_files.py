"""The DAG files, as Airflow's DAG processor takes them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from importlib.metadata import version
from itertools import pairwise
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from tests.dags.conftest import PROJECT
from waybill.envelopes import registry
from waybill.report import STAGES
from waybill.spec.migration import Migration
from waybill_airflow.dag_docs import dag_docs
from waybill_airflow.factory import migration_dags
from waybill_airflow.params import BATCH_PATTERN, batch_of


def load() -> DagBag:
    return DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)


EXAMPLES = [
    *("recorded_canal", "recorded_reviewed", "shop", "shop_by_hand", "shop_late"),
    *("stock_broken", "stock_fails", "stock_waits"),
]

RUN_TYPES = [
    *("asset_materialization", "asset_triggered", "manual", "operator_triggered", "scheduled")
]
"""How runs may come about: all ways but a backfill."""


def run_types(dag) -> list[str]:
    """What the scheduler reads of how a DAG may run."""
    return sorted(DagSerialization.from_dict(DagSerialization.to_dict(dag)).allowed_run_types)


@pytest.fixture(scope="module")
def bag():
    return load()


@pytest.fixture(scope="module")
def read_again():
    return load()


def test_every_example_becomes_a_dag(bag):
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert sorted(bag.dags) == EXAMPLES
    assert not bag.dag_warnings


def test_parsing_is_quick(bag):
    for stat in bag.dagbag_stats:
        assert stat.duration < timedelta(seconds=2), stat


@pytest.mark.parametrize("dag_id", EXAMPLES)
class TestDag:
    @pytest.fixture
    def dag(self, bag, dag_id):
        return bag.dags[dag_id]

    def test_five_stages_in_a_row(self, dag):
        assert [task.task_id for task in dag.topological_sort()] == list(STAGES)
        for first, second in pairwise(STAGES):
            assert dag.get_task(first).downstream_task_ids == {second}

    def test_one_run_at_a_time_and_no_past(self, dag):
        assert dag.max_active_runs == 1
        assert dag.catchup is False

    def test_it_cannot_be_backfilled(self, dag):
        """A batch takes what is new and belongs to no date."""
        assert run_types(dag) == RUN_TYPES

    def test_a_run_may_take_as_long_as_it_takes(self, dag):
        """Airflow would skip what is left of a first snapshot, which is then all in vain."""
        assert dag.dagrun_timeout is None
        assert all(task.execution_timeout is None for task in dag.tasks)

    def test_what_a_person_sees(self, dag):
        assert dag.doc_md
        assert dag.description.endswith(".")
        assert "waybill" in dag.tags
        assert dag.owner == "demo"
        assert dag.dag_display_name != dag.dag_id
        assert all(task.doc_md for task in dag.tasks)

    def test_what_passes_is_tried_again_with_a_growing_pause(self, dag):
        for task in dag.tasks:
            assert task.retries >= 2
            assert task.retry_exponential_backoff
            assert task.max_retry_delay

    def test_the_form_is_valid_and_may_be_left_as_it_is(self, dag):
        dag.params.validate()
        assert dag.params.dump() == {
            "mode": "incremental",
            "until": "publish",
            "until_time": None,
            "drop_held": False,
            "batch": None,
            "tables": None,
            "keys": "all",
        }

    def test_it_serialises_and_comes_back(self, dag):
        data = DagSerialization.to_dict(dag)
        again = DagSerialization.from_dict(data)
        assert again.dag_id == dag.dag_id
        links = [again.get_task(stage).operator_extra_links for stage in STAGES]
        assert [[link.name for link in found] for found in links] == [
            ["Waybill batch"],
            ["Waybill batch"],
            ["Waybill batch"],
            ["Waybill batch", "Gate report"],
            ["Waybill batch"],
        ]

    def test_two_readings_are_one(self, dag, read_again):
        """A DAG that looks new at every reading fills the database with versions."""
        again = read_again.dags[dag.dag_id]
        assert DagSerialization.to_dict(dag) == DagSerialization.to_dict(again)


SERIALISED = """
import json, sys
from airflow.serialization.serialized_objects import DagSerialization
from waybill_airflow.factory import migration_dags
dags = {name: DagSerialization.to_dict(dag) for name, dag in migration_dags().items()}
sys.stdout.write("dags:" + json.dumps(dags, sort_keys=True) + "\\n")
"""


def serialised() -> str:
    """The DAGs of all migrations as Airflow keeps them."""
    dags = {name: DagSerialization.to_dict(dag) for name, dag in migration_dags().items()}
    return json.dumps(dags, sort_keys=True)


def test_two_processes_serialise_the_same(tmp_path, monkeypatch):
    """Whatever order their hashes give to sets. Airflow puts the fields in order itself."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "shop.yaml").write_text(
        "name: shop\nschedule: '@hourly'\ntags: [a, b, c, d, e, f]\nupkeep: {}\n"
        "source: {files: {path: in}, envelope: canal}\n"
        "publish: [{envelope: oms-default, files: {path: out}}]\n"
    )
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(folder))
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", SERIALISED],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    (there,) = [line for line in done.stdout.splitlines() if line.startswith("dags:")]
    here = serialised()
    assert '"shop_upkeep"' in here
    assert there == f"dags:{here}"


def test_a_scheduler_has_loaded_what_its_tasks_need_before_it_forks_them(tmp_path, monkeypatch):
    """Each of them would take most of its processor time for that."""
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(tmp_path))
    (tmp_path / "shop.yaml").write_text(
        "name: shop\nsource: {files: {path: in}, envelope: canal}\n"
        "publish: [{envelope: maxwell, files: {path: out}}]\n"
    )
    command = [sys.executable, "-X", "importtime", "-m", "waybill_airflow.preloaded", "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == version("apache-airflow-core"), "it is Airflow's command"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert loaded >= {
        "waybill_airflow.operators",
        "airflow.providers.apache.spark.operators.spark_submit",
        "waybill.spec.file",
        "waybill.envelopes.canal.settings",
        "waybill.envelopes.maxwell.settings",
    }


def test_the_page_tells_what_each_target_cannot_carry(bag):
    source = registry.get("oms-default")
    text = bag.dags["shop"].doc_md
    for name in ("canal", "datahub-blob"):
        assert name in text
        for sentence in source.losses_to(registry.get(name), {}).values():
            assert sentence.replace("|", "\\|").replace("<", "&lt;") in text


def test_the_page_names_topics_of_kafka_and_decisions_too():
    spec = Migration.model_validate(
        {
            "name": "t",
            "source": {"kafka": {"topics": ["orders", "refunds"]}, "envelope": "canal"},
            "publish": [{"envelope": "maxwell", "kafka": {"topic": "orders_out"}}],
            "schema_changes": [{"tables": "shop.*", "drop": "stop"}],
            "lake": {"warehouse": "x"},
        }
    )
    text = dag_docs(spec, "t.yaml")
    decided = next(line for line in text.splitlines() if "Schema changes of `shop.*`" in line)
    assert "add `take`" in decided
    assert "drop `stop`" in decided
    assert "| Source | `canal` from topic `orders`, `refunds` |" in text
    assert "| `maxwell` | topic `orders_out` |" in text


def test_the_page_shows_what_is_chosen_and_mapped():
    everything = {
        "tables": ["shop_*.orders_*", "shop_*.bills"],
        "rename": {"database": "shop", "table": "orders"},
        "columns": {
            "keep": ["id", "a|b"],
            "drop": "receipt",
            "rename": {"no": "number"},
            "mask": {"mail": {"hmac": "masking"}, "name": {"text": "somebody"}},
            "add": {"origin": {"constant": "here"}},
        },
        "join": {"column": "shard"},
        "where": "paid = 1 AND `total` < 5",
    }
    target = {
        "envelope": "maxwell",
        "kafka": {"topic": "orders_out"},
        "select": {"exclude": "shop.audit"},
        "map": [{"tables": "shop.orders", "columns": {"drop": ["tel"]}}],
    }
    spec = Migration.model_validate(
        {
            "name": "t",
            "source": {"kafka": {"topics": ["orders"]}, "envelope": "canal"},
            "select": {"include": ["shop_*.*"], "exclude": "*.tmp"},
            "map": [everything],
            "publish": [target],
            "lake": {"warehouse": "x"},
        }
    )
    lines = dag_docs(spec, "t.yaml").splitlines()
    assert "| Takes only | `shop_*.*` |" in lines
    assert "| Leaves out | `*.tmp` |" in lines
    parts = [
        "database `shop`",
        "table `orders`",
        r"keeps `id`, `a\|b`",
        "drops `receipt`",
        "renames `no to number`",
        "masks `mail`, `name`",
        "adds `origin`",
        "joins all with their name in `shard`",
        "rows where `paid = 1 AND 'total' &lt; 5`",
    ]
    assert f"| Maps `shop_*.orders_*`, `shop_*.bills` | {'; '.join(parts)} |" in lines
    row = next(line for line in lines if line.startswith("| `maxwell` |"))
    assert row.endswith("<br>Leaves out: `shop.audit`<br>Maps `shop.orders`: drops `tel` |")
    # Neither the texts of masks nor the names of their keys are of use to a reader.
    assert not any("somebody" in line or "masking" in line for line in lines)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "everything"),
        ("until", "the end"),
        ("until", None),
        ("until_time", "yesterday"),
        ("until_time", ""),
        ("batch", "../../etc"),
        ("batch", "a b"),
        ("batch", ""),
        ("batch", 7),
    ],
)
def test_the_form_refuses(bag, field, value):
    params = bag.dags["shop"].params
    with pytest.raises(ParamValidationError):
        params.get_param(field).__copy__().resolve(value)


class TestBatchOf:
    def run(self, run_id="manual__1", moment=None, dag_id="shop"):
        moment = moment or datetime(2026, 3, 1, 12, 30, 5, 250_000, tzinfo=UTC)
        return SimpleNamespace(dag_id=dag_id, run_id=run_id, run_after=moment)

    def test_it_depends_on_the_run_alone(self):
        assert batch_of(self.run()) == batch_of(self.run()) == "20260301T123005.250-ab1d6b"

    def test_runs_of_one_moment_differ(self):
        assert batch_of(self.run("a")) != batch_of(self.run("b"))

    def test_runs_of_two_dags_on_one_schedule_differ(self):
        run_id = "scheduled__2026-03-01T12:00:00+00:00"
        assert batch_of(self.run(run_id)) != batch_of(self.run(run_id, dag_id="crm"))

    def test_it_sorts_by_time_in_any_zone(self):
        east = timezone(timedelta(hours=14))
        moments = [
            datetime(2026, 3, 1, 23, 0, tzinfo=east),
            datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
            datetime(2026, 12, 31, tzinfo=UTC),
        ]
        batches = [batch_of(self.run("x", moment)) for moment in moments]
        assert sorted(batches) == batches

    def test_the_form_would_take_it(self):
        assert re.match(BATCH_PATTERN, batch_of(self.run()))


class TestBrokenFiles:
    def test_it_does_not_hide_the_others_and_is_named(self, migrations):
        migrations("good")
        bad = migrations("bad", more="surprise: 1\n")
        bag = load()
        assert list(bag.dags) == ["good"]
        ((file, text),) = bag.import_errors.items()
        assert file.endswith("broken_migrations.py")
        assert f"{bad}:" in text
        assert "surprise" in text

    def test_aliases_without_end_hide_nothing(self, migrations):
        migrations("good")
        lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
        bad = migrations("bad", text="\n".join(lines))
        bag = load()
        assert list(bag.dags) == ["good"]
        (text,) = bag.import_errors.values()
        assert f"{bad}:" in text
        assert "aliases (*) repeat" in text

    def test_all_of_them_are_named(self, migrations):
        files = [
            migrations("first", text="name: [\n"),
            migrations("second", text="{}"),
            migrations("third", more="schedule: every other tuesday\n"),
        ]
        bag = load()
        assert not bag.dags
        (text,) = bag.import_errors.values()
        for file in files:
            assert str(file) in text
        assert f"{files[2]}:12: schedule is neither a preset" in text

    def test_a_copy_does_not_take_the_place_of_the_original(self, migrations):
        original = migrations("shop")
        copy = migrations("shop", file="a copy of shop.yaml")
        bag = load()
        assert bag.dags["shop"].get_task("merge").migration == str(original)
        (text,) = bag.import_errors.values()
        assert str(copy) in text
        assert "taken by shop.yaml" in text

    @pytest.mark.parametrize("file", ["a.yaml", "z.yaml"])
    def test_an_upkeep_does_not_take_the_place_of_a_migration(self, migrations, file):
        kept = migrations("shop", more="upkeep: {}\n", file=file)
        migrations("shop_upkeep")
        bag = load()
        assert sorted(bag.dags) == ["shop", "shop_upkeep"]
        assert bag.dags["shop_upkeep"].get_task("merge")
        (text,) = bag.import_errors.values()
        assert f"{kept}: it would make the DAG 'shop_upkeep', too" in text

    def test_a_folder_that_is_not_there_is_said(self, monkeypatch, tmp_path):
        monkeypatch.setenv("WAYBILL_MIGRATIONS", str(tmp_path / "nowhere"))
        bag = load()
        assert not bag.dags
        assert "nowhere" in "".join(bag.import_errors.values())

    def test_no_migration_is_no_error(self, migrations):
        bag = load()
        assert bag.dags == bag.import_errors == {}

    def test_drafts_and_other_files_are_left_alone(self, migrations):
        migrations("_draft", text="not: yet")
        migrations("hidden", text="not: yet", file=".hidden.yaml")
        migrations("readme", text="not: yet", file="README.md")
        assert load().import_errors == {}


def test_names_out_of_a_file_do_not_break_the_page(migrations):
    migrations(
        "odd",
        more="",
        text=(
            "name: odd\ndescription: 'a | b <script>alert(1)</script>'\n"
            "source: {files: {path: 'in|`x`<b>'}, envelope: canal}\nlake: {warehouse: lake}\n"
        ),
    )
    dag = load().dags["odd"]
    table = [line for line in dag.doc_md.splitlines() if line.startswith("| Source")]
    assert len(table) == 1
    assert "<b>" not in table[0]
    assert table[0].replace("\\|", "").count("|") == 3


def test_verification_is_a_dag_of_its_own_where_the_file_asks(migrations):
    migrations("plain")
    migrations("seen", more='verify: {database: source, schedule: "@daily"}\n')
    migrations("by_hand", more="verify: {database: source}\n")
    bag = load()
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["by_hand", "by_hand_verify", "plain", "seen", "seen_verify"]
    dag = bag.dags["seen_verify"]
    assert [task.task_id for task in dag.tasks] == ["verify"]
    assert run_types(dag) == RUN_TYPES
    assert (dag.schedule, bag.dags["by_hand_verify"].schedule) == ("@daily", None)
    assert {"waybill", "verify"} <= set(dag.tags)


def test_upkeep_is_a_dag_of_its_own_where_the_file_asks(migrations):
    migrations("plain")
    migrations("kept", more='upkeep: {schedule: "@weekly"}\n')
    bag = load()
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["kept", "kept_upkeep", "plain"]
    dag = bag.dags["kept_upkeep"]
    assert [task.task_id for task in dag.tasks] == ["upkeep"]
    assert run_types(dag) == RUN_TYPES
    assert dag.schedule == "@weekly"
    assert dag.dagrun_timeout is None
    assert {"waybill", "upkeep"} <= set(dag.tags)
