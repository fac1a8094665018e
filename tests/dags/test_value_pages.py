"""The pages that show values, over a lake of PyIceberg's and with Airflow's audit log."""

from __future__ import annotations

import json
from types import SimpleNamespace
from urllib.parse import urlencode

import msgspec
import pytest
from airflow.api_fastapi.core_api import security
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from tests.dags.asking import NoToken, read
from tests.dags.showcase import HOSTILE, Showcase
from tests.dags.values_lake import refuse_and_change
from waybill.errors import UnavailableError
from waybill.spec.migration import Migration
from waybill.values.values import json_refusal
from waybill_airflow.web import app, lake_reading, quarantine_view, rights
from waybill_airflow.web.airflow_runs import DagFacts
from waybill_airflow.web.quarantine_view import fault_of, hex_lines

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    showcase = Showcase(tmp_path_factory.mktemp("quarantine"))
    refuse_and_change(showcase)
    return showcase


class Manager:
    """Lets everybody see runs, and those who may read logs read them."""

    logs = True

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        wanted = (security.DagAccessEntity.TASK_LOGS, security.DagAccessEntity.RUN)
        assert access_entity in wanted
        assert (user.name, details.id) == ("ann", "orders")
        return self.logs if access_entity == wanted[0] else method == "POST"


@pytest.fixture
def manager(monkeypatch):
    found = Manager()
    no_team = SimpleNamespace(get_team_name=lambda _dag_id: None)
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", lambda: found)
        monkeypatch.setattr(module, "DagModel", no_team)
    return found


@pytest.fixture
def made(shown, airflow_home, monkeypatch):
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(shown.migrations))
    return app.make_app()


@pytest.fixture
def client(made, manager):
    user = SimpleNamespace(name="ann", get_name=lambda: "ann")
    made.dependency_overrides[security.get_user] = lambda: user
    return TestClient(made)


LIST = "/quarantine/orders"


def one(offset: int) -> str:
    return f"{LIST}/message?topic=shop/eu&partition=0&offset={offset}"


ROW = "/rows/orders?table=shop.parcels&key=1"


@pytest.mark.parametrize("path", [LIST, one(0), ROW])
def test_nobody_gets_in_without_a_login(made, path, monkeypatch):
    monkeypatch.setattr(security, "get_auth_manager", lambda: NoToken)
    page = read(TestClient(made), path, 401)
    assert "unexpected end" not in page.text


@pytest.mark.parametrize("path", [LIST, one(0), ROW])
def test_who_may_not_read_logs_sees_no_reason_and_no_byte(client, manager, path):
    manager.logs = False
    page = read(client, path, 403)
    assert "to read the logs" in page.text
    assert "unexpected end" not in page.text
    assert "INSERT" not in page.text
    assert "late" not in page.text


def test_each_look_is_in_the_audit_log(client):
    read(client, f"{LIST}?kind=json")
    read(client, one(0))
    read(client, ROW)
    read(client, "/verifications/orders")
    with create_session() as session:
        logged = session.scalars(select(Log).where(Log.event.like("waybill%"))).all()
        found = {(row.event, row.dag_id, row.owner): json.loads(row.extra) for row in logged}
    assert found["waybill_quarantine", "orders", "ann"]["kind"] == "json"
    row = found["waybill_row", "orders", "ann"]
    assert (row["table"], row["key"]) == ("shop.parcels", "1")
    place = found["waybill_refused_message", "orders", "ann"]
    assert (place["topic"], place["offset"]) == ("shop/eu", "0")
    assert ("waybill_verification", "orders", "ann") in found


def test_the_list_names_each_message_once_with_its_newest_refusal(client):
    page = read(client, LIST)
    assert page.text.count("shop/eu/0/0") == 1
    assert page.attributes("href").count("/waybill/batches/orders/b-2") == 1
    assert "shop/eu/0/1" in page.text
    assert "shop/eu/0/4" in page.text
    assert "shop/eu/0/2" not in page.text, "it was tried again and taken"
    assert "waybill quarantine replay" in page.text
    assert '{"mode": "replay"}' in page.attributes("data-conf")


def test_a_replay_of_a_paused_dag_would_wait(client, monkeypatch):
    assert "paused" not in read(client, LIST).text
    facts = {"orders": DagFacts(paused=True)}
    monkeypatch.setattr(quarantine_view, "dag_facts", lambda _dag_ids: facts)
    page = read(client, LIST)
    assert "a replay that is started in Airflow waits until it is unpaused" in page.text
    assert "The DAG is paused: the run waits" in page.text, "in the form, too"


def test_the_list_can_be_of_a_batch_a_kind_or_a_table(client):
    assert "shop/eu/0/1" not in read(client, f"{LIST}?batch=b-2").text
    page = read(client, f"{LIST}?kind=shape&batch=b-1")
    assert "shop/eu/0/4" in page.text
    assert "shop/eu/0/0" not in page.text
    page = read(client, f"{LIST}?table=shop.orders")
    assert "shop/eu/0/1" in page.text
    assert "shop/eu/0/4" not in page.text
    asked = urlencode({"table": f"shop.{HOSTILE}"})
    assert "shop/eu/0/4" in read(client, f"{LIST}?{asked}").text
    assert "Nothing like this was refused" in read(client, f"{LIST}?kind=binary").text
    assert "Nothing like this was refused" in read(client, f"{LIST}?table=orders").text


def test_the_list_ends_somewhere(client, monkeypatch):
    monkeypatch.setattr(quarantine_view, "LIST", 2)
    assert "These are the first 2" in read(client, LIST).text


def test_a_message_says_what_became_of_it(client):
    assert "refused in 2 batches, and still waits" in read(client, one(0)).text
    assert "refused, and waits for another try" in read(client, one(1)).text
    page = read(client, one(2))
    assert "refused, and batch b-2 accepted it" in page.text
    assert "column id cannot hold 7" in page.text


def test_a_message_shows_its_bytes_and_where_they_go_wrong(client):
    text = client.get(one(1)).text
    assert "{&#34;id&#34;: <mark>\\xff</mark>\\xfe}" in text
    assert "<mark>ff</mark> fe 7d" in text
    torn = read(client, one(0))
    assert '"data":[{"id":"1"' in torn.text
    assert "69 bytes" in torn.text


def test_no_byte_is_shown_where_the_migration_masks_values(client, monkeypatch):
    assert "ff fe" in read(client, one(1)).text
    monkeypatch.setattr(Migration, "masks", True)
    page = read(client, one(1)).text
    assert "Its bytes are not shown, because the migration masks values" in page
    assert "ff fe" not in page


def test_a_message_says_what_every_format_says_of_it(client):
    page = read(client, one(2))
    assert "canal would read it" in page.text
    assert page.text.index("canal would read it") < page.text.index("maxwell")


def test_hostile_messages_run_nothing(client):
    tried = f"/rows/orders?{urlencode({'table': HOSTILE, 'key': HOSTILE})}"
    for path in (LIST, one(4), f"{LIST}?kind=shape", ROW, tried):
        answer = client.get(path)
        assert "<script>alert" not in answer.text
        assert "&#39;&amp;49" not in answer.text
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (one(3), 404),
        (one(99), 404),
        (f"{LIST}/message?topic=shop&partition=-1&offset=0", 422),
        (f"{LIST}/message?topic=&partition=0&offset=0", 422),
        (f"{LIST}/message?topic=shop&partition=0&offset={2**70}", 422),
        (f"{LIST}?batch=../../etc", 422),
        (f"{LIST}?kind=%3Cscript%3E", 422),
        ("/quarantine/..%2Forders", 404),
    ],
)
def test_what_is_not_there_is_a_page(client, path, status):
    assert "<h1>" in client.get(path).text
    assert client.get(path).status_code == status


def test_a_lake_that_does_not_answer_is_a_page(client, monkeypatch):
    monkeypatch.setattr(lake_reading, "LONGEST", 0.0)
    page = read(client, LIST, 503)
    assert "did not answer within 0 seconds" in page.text


def test_a_store_that_is_away_is_a_page(client, monkeypatch):
    def away(*_):
        raise UnavailableError("the store does not answer")

    monkeypatch.setattr(quarantine_view, "first_refusals", away)
    assert "the store does not answer" in read(client, LIST, 503).text


def test_a_row_shows_its_changes_in_the_order_of_the_merge(client):
    page = read(client, ROW)
    places = [page.text.index(f"message shop/eu/1/{offset}/0") for offset in (3, 1, 2)]
    assert places == sorted(places), "by sequence id, whatever came first"
    assert "shop/eu/1/4/0" not in page.text, "it is of another row"
    assert page.text.count("not merged yet") == 3
    assert "sequence id 6 · 2026-01-02T03:04:06+00:00" in page.text
    assert "--key 1" in page.text


def test_a_row_marks_what_changed(client):
    page = read(client, ROW)
    assert [tag for tag, _ in page.tags].count("mark") == 1
    assert "note a <script>alert" in page.text


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/rows/orders", "The changes of a row"),
        ("/rows/orders?table=shop.parcels&key=99", "No change has this key"),
        ("/rows/orders?key=%7Bid", "is not JSON"),
        ("/rows/orders?table=shop.parcels&key=%7B%22id%22:%22%31%22%7D", "shop/eu/1/3/0"),
        ("/rows/orders?key=2", "shop.parcels · sequence id 7"),
    ],
)
def test_a_row_is_named_by_its_key(client, path, says):
    assert says in read(client, path).text


def test_only_the_page_with_a_form_may_send_one(client):
    def policy(path):
        return client.get(path).headers["Content-Security-Policy"]

    assert "form-action 'self'" in policy("/rows/orders")
    assert "form-action 'none'" in policy(LIST)


def test_a_byte_of_an_avro_message_is_the_one_of_the_reason():
    """Bytes that are no UTF-8 are no fault there."""
    value = b"\x00\x00\x00\x00\x07\xff\xfe" + bytes(60)
    reason = "12 bytes are left behind the Avro data (byte 55)"
    assert fault_of(value, reason) == range(55, 56)
    assert fault_of(value, "the registry has no schema 7") is None


def test_a_message_that_was_cut_off_says_where_it_ends():
    """In the words of the decoder that reads it."""
    value = b'{"data": [{"id": "1"'
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(value)
    fault = fault_of(value, str(json_refusal(caught.value)))
    assert fault == range(len(value), len(value))
    assert quarantine_view._text(value, fault) == (value.decode(), quarantine_view.ENDS, "")


def test_a_field_of_the_wrong_shape_is_marked():
    value = '{"ä": 1, "data" : 5}'.encode()
    kind = msgspec.defstruct("Shape", [("data", list[str])])
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(value, type=kind)
    fault = fault_of(value, str(json_refusal(caught.value)))
    assert fault is not None
    assert value[fault.start : fault.stop] == b'"data"'


@pytest.mark.parametrize(
    ("value", "reason", "at"),
    [
        (b'{"a": nil}', "invalid literal: line 1 column 7 (char 6)", range(6, 7)),
        ('{"ä": nil}'.encode(), "invalid literal: line 1 column 7 (char 6)", range(7, 8)),
        (b"{} x", "the message is not JSON: trailing characters (byte 3)", range(3, 4)),
        (b'{"a": nil', "JSON is malformed: invalid character (byte 9)", range(8, 9)),
        ('{"a": ä}'.encode(), "the message is not JSON: invalid (byte 6)", range(6, 8)),
        (b"\xff", "the message is not UTF-8 (byte 0 of a text)", range(1)),
        (b"a\xffbc", "the event at byte 2 ends inside its header", range(2, 3)),
        (b'{"id": "7a"}', "column 'id': is no number", range(1, 5)),
        (b"{}", "column 'id': is no number", None),
        (b"{}", "column id cannot hold 7", None),
        (b"{}", "an integer has more than 64 bits (byte 99)", range(2, 2)),
    ],
)
def test_the_fault_is_some_bytes(value, reason, at):
    assert fault_of(value, reason) == at


def test_hex_is_shown_around_the_fault():
    value = bytes(range(256)) * 64
    lines = hex_lines(value, range(9000, 9002))
    marked = [
        (int(line.at, 16) + at, digits)
        for line in lines
        for at, digits in enumerate(line.digits)
        if at in line.fault
    ]
    assert marked == [(at, f"{at % 256:02x}") for at in (9000, 9001)]
    assert sum(len(line.digits) for line in lines) == quarantine_view.HEX_BYTES
