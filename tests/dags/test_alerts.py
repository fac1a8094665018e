"""Alerts by mail, to a real mail server on the loopback address, and by any other notifier."""

from __future__ import annotations

import email
import email.policy
import json
import os
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from aiosmtpd.controller import Controller
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.bases.operator import ExecutorSafeguard

from tests.dags.conftest import PROJECT
from tests.dags.receivers import Kept
from tests.dags.showcase import HOUR, Showcase
from tests.dags.test_approval import RULE, no
from waybill.errors import ConfigurationError
from waybill.overview.schema import BatchAccount, GateVerdict
from waybill.report import StageReport
from waybill.sources.kafka import retention
from waybill.sources.kafka.retention import Endangered
from waybill.spec.alerts import CONNECTIONS
from waybill.spec.file import load_migration
from waybill_airflow.factory import check_migrations, migration_dags
from waybill_airflow.free_ports import free_port
from waybill_airflow.signals import after_stage, alerts, notifiers, watching

pytestmark = pytest.mark.airflow

ALERTS = """\
alerts:
  to: [{arguments: {to: on-call@example.org, from_email: waybill@example.org}}]
  on: [failed, held, refused, schema_change]
"""


class Letters:
    """Keeps what the mail server takes."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []

    async def handle_DATA(self, _server, _session, envelope) -> str:
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        assert envelope.rcpt_tos == ["on-call@example.org"]
        self.taken.append(message)
        return "250 OK"

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Subjects and texts."""
        found = []
        for message in self.taken:
            body = message.get_body(("html",))
            assert body is not None
            found.append((message["subject"], body.get_content()))
        return found


@pytest.fixture
def mail(monkeypatch) -> Iterator[Letters]:
    letters = Letters()
    port = free_port()
    server = Controller(letters, hostname="127.0.0.1", port=port)
    server.start()
    extra = {"disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    yield letters
    server.stop()


@pytest.fixture
def run(airflow_home, migrations, fake_stages):
    def start(more: str = ALERTS) -> dict[str, str]:
        migrations("small", more)
        bag = DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)
        ended = bag.dags["small"].test(run_conf={"batch": "b-1"})
        return {ti.task_id: str(ti.state) for ti in ended.get_task_instances()}

    return start


def failure(code: str, message: str) -> dict:
    error = {"kind": "Error", "code": code, "message": message, "transient": False}
    return {**error, "exit_code": 2}


def test_a_stage_that_fails_is_reported_with_its_sentence_and_its_run(run, fake_stages, mail):
    fake_stages("merge", failure("WB-4001", "table shop.<b> has no key & cannot be merged"))
    assert run()["merge"] == "failed"
    ((subject, text),) = mail.texts
    assert subject == "small: merge failed"
    assert "WB-4001: table shop.&lt;b&gt; has no key &amp; cannot be merged" in text


def test_a_batch_that_the_gate_holds_is_reported_as_held(run, fake_stages, mail):
    fake_stages("validate", no("b-1", RULE))
    assert run()["validate"] == "failed"
    ((subject, text),) = mail.texts
    assert subject == "small: the gate holds a batch"
    assert "WB-5001" in text


def test_later_runs_that_wait_behind_it_are_reported_as_held_too(run, fake_stages, mail):
    fake_stages("merge", failure("WB-5002", "batch b-0 is held"))
    run()
    assert [subject for subject, _ in mail.texts] == ["small: the gate holds a batch"]


def test_only_what_was_asked_for_is_reported(run, fake_stages, mail):
    fake_stages("merge", failure("WB-4001", "no"))
    run(ALERTS.replace("[failed, held, refused, schema_change]", "[held]"))
    assert mail.texts == []
    assert "on_failure_callback" not in str(run(""))
    assert mail.texts == []


def test_a_mail_server_that_is_not_there_leaves_the_stage_as_it_is(run, fake_stages, monkeypatch):
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": 9}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    fake_stages("merge", failure("WB-4001", "no"))
    assert run()["merge"] == "failed"


def published(tmp_path: Path, fill, more: str = ALERTS) -> None:
    """Tell of a batch that was published after something happened to it."""
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", fill, more, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    context = {"dag_run": SimpleNamespace(dag_id="orders", run_id="manual__2026-11-26T16:00:00+00")}
    after_stage.tell(spec, StageReport("publish", "last").to_json_safe(), context)
    after_stage.tell(spec, StageReport("publish", "last", repeated=True).to_json_safe(), context)


def test_refused_messages_are_reported_once_the_rest_is_published(tmp_path, mail, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/base/")
    published(tmp_path, lambda lake: lake.run("last", 1000, 12))
    ((subject, text),) = mail.texts
    assert subject == "orders: 12 rows refused"
    assert "Batch last of orders is published.<br>convert refused 12: json" in text
    assert "The gate allows 5% of the messages of a topic (quality.max_refused_share)." in text
    assert "waybill quarantine list" in text
    link = "https://airflow.example.org/base/dags/orders/runs/manual__2026-11-26T16%3A00%3A00%2B00"
    assert f'href="{link}"' in text


def test_changed_columns_are_reported(tmp_path, mail):
    def change(lake) -> None:
        lake.columns = ["price added (decimal(10,2))"]
        lake.run("last", 10)

    published(tmp_path, change)
    ((subject, text),) = mail.texts
    assert subject == "orders: columns changed in 1 table"
    assert "shop.orders: price added (decimal(10,2))" in text
    assert "waybill status" in text


def test_the_limit_of_what_is_refused_is_that_of_the_rule(tmp_path):
    spec = Showcase(tmp_path).file("orders", "quality: {suites: [tables]}")
    account = BatchAccount(1, "orders", "b-1", "published", [], [], [])
    assert alerts._limit(spec, account) == [], "no suite has one"
    verdict = GateVerdict("passed", limits={"refused_share": [0.012, 0.3]})
    (told,) = alerts._limit(spec, msgspec.structs.replace(account, verdict=verdict))
    assert "1.2% of the messages" in told
    assert "The gate allows 30%" in told


def test_a_batch_that_is_as_others_tells_nobody(tmp_path, mail):
    published(tmp_path, lambda lake: lake.run("last", 1000))
    assert mail.texts == []


@pytest.fixture
def watch(monkeypatch):
    """Has the DAG beside a migration look, and tell."""
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", True)
    monkeypatch.setattr(watching, "ask_source", lambda _spec: None)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/base/")

    def look(file: Path) -> None:
        operator = watching.WatchOperator(task_id="watch", migration=str(file))
        run = SimpleNamespace(dag_id="orders_watch", run_id="scheduled__1")
        ti = SimpleNamespace(xcom_pull=lambda **_more: None)
        operator.execute({"ti": ti, "dag_run": run})

    return look


def told_about(mail: Letters, subject: str, *parts: str) -> None:
    """Exactly one letter, with a link to the page of the migration."""
    ((found, text),) = mail.texts
    assert found == subject
    page = "https://airflow.example.org/base/waybill/dags/orders"
    for part in (*parts, f'href="{page}"'):
        assert part in text


def looks_for(event: str, more: str = "") -> str:
    to = "[{arguments: {to: on-call@example.org, from_email: waybill@example.org}}]"
    return f"alerts: {{to: {to}, on: [{event}]{more}}}\n"


def test_a_late_migration_is_told_by_mail(tmp_path, mail, watch):
    showcase = Showcase(tmp_path)
    more = looks_for("late", ", late_after: 29h")
    showcase.with_lake("orders", lambda _lake: None, more, batches=2, ago=30 * HOUR)
    watch(showcase.migrations / "orders.yaml")
    told_about(mail, "orders is late", "late_after is 29h", "waybill status")


def test_a_batch_that_stands_is_told_by_mail(tmp_path, mail, watch):
    def left(lake) -> None:
        lake.snapshot("left", 100)

    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", left, looks_for("stalled"), batches=2, ago=30 * HOUR)
    watch(showcase.migrations / "orders.yaml")
    parts = ("stalled_after is 2h", "waybill run", "--batch left")
    told_about(mail, "orders: batch left is stalled", *parts)


def test_messages_that_expire_unread_are_told_by_mail(tmp_path, mail, watch, monkeypatch):
    found = [Endangered("shop.eu", 1, 7, 1200, 36_000.0)]
    monkeypatch.setattr(retention, "endangered", lambda *_asked: found)
    file = tmp_path / "orders.yaml"
    source = "source: {kafka: {connection: kafka_orders, topics: [shop.eu]}, envelope: canal}"
    lake = f"lake: {{warehouse: {tmp_path}/lake}}"
    file.write_text(f"name: orders\n{source}\n{lake}\n{looks_for('retention')}")
    watch(file)
    parts = ("More than 50%", "shop.eu/1: 1,200 offsets", "waybill run")
    told_about(mail, "orders: messages expire unread", *parts)


@pytest.mark.parametrize(
    ("to", "extra"),
    [
        ("mail_ops", {"to": ["on-call@example.org"]}),
        ("[mail_ops]", {"to": "on-call@example.org"}),
        ("[{connection: mail_ops, arguments: {to: on-call@example.org}}]", {}),
    ],
)
def test_a_connection_alone_sends_mail(tmp_path, mail, monkeypatch, to, extra):
    known = json.loads(os.environ["AIRFLOW_CONN_SMTP_DEFAULT"])
    known["extra"] |= {"from_email": "waybill@example.org", **extra}
    monkeypatch.setenv("AIRFLOW_CONN_MAIL_OPS", json.dumps(known))
    monkeypatch.delenv("AIRFLOW_CONN_SMTP_DEFAULT")
    more = f"alerts: {{to: {to}, on: [refused]}}\n"
    published(tmp_path, lambda lake: lake.run("last", 1000, 12), more)
    ((subject, text),) = mail.texts
    assert subject == "orders: 12 rows refused"
    assert "waybill quarantine list" in text


@pytest.mark.parametrize(
    ("to", "connection", "says"),
    [
        (
            "ops",
            {"conn_type": "aws"},
            "the connection ops is of type aws, and messages are sent by connections of type smtp "
            "or slackwebhook",
        ),
        ("[ops]", {"conn_type": "smtp"}, "nothing says whom the connection ops writes to"),
        ("[ops]", {"conn_type": "slackwebhook"}, "there is no notifier airflow.providers.slack"),
        ("[{connection: ops, notifier: a.B}]", {"conn_type": "smtp"}, "not both"),
    ],
)
def test_a_connection_that_cannot_send_is_a_sentence_about_the_file(
    migrations, monkeypatch, to, connection, says
):
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
    file = migrations("shop", f"alerts: {{to: {to}}}\n")
    with pytest.raises(ConfigurationError) as error:
        check_migrations()
    assert says in str(error.value)
    assert str(file) in str(error.value)


def test_a_connection_that_is_not_here_is_left_to_who_sends(migrations, caplog):
    migrations("shop", "alerts: {to: nobody_has_this}\n")
    check_migrations()
    assert "the connection nobody_has_this cannot be looked at here" in caplog.text


def test_the_library_knows_which_connections_send():
    assert tuple(notifiers.KINDS) == CONNECTIONS


def test_any_notifier_gets_what_its_arguments_ask_for(tmp_path):
    Kept.messages.clear()
    more = (
        "alerts:\n"
        "  to:\n"
        "  - notifier: tests.dags.receivers.Kept\n"
        "    arguments: {message: '{{ alert.title }}!'}\n"
        "  on: [refused]\n"
    )
    published(tmp_path, lambda lake: lake.run("last", 1000, 12), more)
    assert Kept.messages == ["orders: 12 rows refused!"]


@pytest.mark.parametrize(
    ("receiver", "says"),
    [
        (
            "{notifier: nothing.Here}",
            "there is no notifier nothing.Here (No module named 'nothing'",
        ),
        ("{notifier: Here}", "there is no notifier Here"),
        ("{notifier: pathlib.Path}", "pathlib.Path is not an Airflow notifier"),
        ("{arguments: {from: me}}", "cannot be made with these arguments"),
    ],
)
def test_a_notifier_that_cannot_be_made_is_a_sentence_about_the_file(migrations, receiver, says):
    file = migrations("shop", f"alerts: {{to: [{receiver}]}}\n")
    with pytest.raises(ConfigurationError) as error:
        check_migrations()
    assert says in str(error.value)
    assert str(file) in str(error.value)


def test_a_notifier_is_made_once_for_all_dags_of_a_migration(migrations, monkeypatch):
    more = (
        "alerts:\n"
        "  to: [{notifier: tests.dags.receivers.Kept, arguments: {message: m}}]\n"
        "  on: [failed, late, stalled]\n"
        "upkeep: {}\n"
    )
    migrations("small", more)
    made = []
    monkeypatch.setattr(Kept, "__init__", lambda self, message: made.append(message))
    dags = migration_dags()
    assert sorted(dags) == ["small", "small_upkeep", "small_watch"]
    assert made == ["m"]
    for dag in dags.values():
        assert all(task.has_on_failure_callback for task in dag.tasks)


def test_texts_do_not_run_in_a_mail():
    alert = alerts.Alert("failed", "t", "<script>alert(1)</script>\n{{7*7}}", 'https://x/"><b>')
    assert "<script>" not in alert.html
    assert '"><b>' not in alert.html
    assert os.linesep not in alert.html
