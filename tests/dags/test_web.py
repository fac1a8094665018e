"""The plugin's pages on a real web server of Airflow: nothing without a login."""

from __future__ import annotations

import json
import sys
import threading
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
from airflow import plugins_manager

from tests.dags.web_server import ask, token_of, web_server
from waybill.spec.file import load_migration
from waybill.validate.results import PAGE as PAGE_FILE
from waybill.validate.results import reports_folder
from waybill_airflow.free_ports import free_port
from waybill_airflow.web.app import HEADERS, REPORT_HEADERS, make_app

pytestmark = pytest.mark.airflow

MIGRATION = """\
name: shop
source: {files: {path: in}, envelope: canal}
lake: {warehouse: lake}
"""
CLOUD = """\
name: {name}
source: {{files: {{path: in}}, envelope: canal}}
lake: {{warehouse: "s3://{connection}@bucket/lake"}}
"""
PAGE = "<!doctype html><title>gate</title><p>All is well: &lt;b&gt;</p>"
SECRET = "hunter2"


def connection(endpoint: str) -> dict:
    """A connection to an object store, as Airflow's secrets backends keep it."""
    retries = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
    extra = {"endpoint_url": endpoint, "region_name": "here", **retries}
    return {"conn_type": "aws", "login": "key", "password": SECRET, "extra": json.dumps(extra)}


@pytest.fixture(scope="module")
def store():
    """A server of object storage that has the page of one batch; gives its address."""

    class Objects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there = self.path.startswith("/bucket/lake/") and "/reports/b-1/" in self.path
            body = PAGE if there else "<Error><Code>NoSuchKey</Code></Error>"
            self.send_response(200 if there else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Objects) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A migration, and the gate's page of one of its batches in the lake."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "migrations").mkdir()
    file = folder / "migrations" / "shop.yaml"
    file.write_text(MIGRATION)
    (folder / "migrations" / "secret.txt").write_text("not for anybody")
    for name in ("kept", "shown", "away", "nowhere"):
        text = CLOUD.format(name=name, connection=f"store_{name}")
        (folder / "migrations" / f"{name}.yaml").write_text(text)
    unset = CLOUD.format(name="unset", connection="${NOBODY_SETS_THIS}")
    (folder / "migrations" / "another.yaml").write_text(unset)
    (folder / "migrations" / "torn.yaml").write_text("name: [")
    keep_page(file, "b-1", PAGE)
    return folder


def keep_page(file, batch, page):
    """Put a page where the validate stage puts it."""
    folder = Path(reports_folder(load_migration(file), batch))
    folder.mkdir(parents=True)
    (folder / PAGE_FILE).write_text(page)


@pytest.fixture(scope="module")
def server(airflow_home, place, store):
    """A started web server and a client that is logged in.

    One connection is in Airflow's database, two in a file that a secrets backend reads.
    """
    connections = place / "connections.json"
    away = connection(f"http://127.0.0.1:{free_port()}")
    connections.write_text(json.dumps({"store_kept": connection(store), "store_away": away}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    environment = {
        "WAYBILL_MIGRATIONS": str(place / "migrations"),
        "AIRFLOW__SECRETS__BACKEND": backend,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(connections)}),
    }
    with web_server(airflow_home, environment) as client:
        body = {"connection_id": "store_shown", **connection(store)}
        client.post("connections", body=body)
        yield client


def test_the_plugin_loads_without_an_error():
    plugins_manager._get_plugins.cache_clear()
    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    assert "waybill" in [plugin.name for plugin in plugins]
    assert "operators" not in sys.modules, "a module of the package was executed on its own"


def routes():
    return [route.path for route in make_app().routes]


def test_nothing_describes_the_application():
    assert routes() == [
        "/migrations",
        "/dags/{dag_id}",
        "/runs/{dag_id}/{run_id}",
        "/batches/{dag_id}/{batch}",
        "/formats",
        "/static/{name}",
        "/quarantine/{dag_id}",
        "/quarantine/{dag_id}/message",
        "/rows/{dag_id}",
        "/verifications/{dag_id}",
        "/gate/{dag_id}/{batch}",
    ]


def test_no_page_keeps_the_server_s_event_loop_waiting():
    """What is no coroutine runs in a thread of its own."""
    for route in make_app().routes:
        assert not iscoroutinefunction(route.endpoint), route.path


def test_the_page_that_asks_for_the_login_is_dressed(server):
    status, _, text = ask(server, "/waybill/migrations")
    assert (status, "/waybill/static/waybill.css" in text) == (401, True)
    status, headers, text = ask(server, "/waybill/static/waybill.css")
    assert (status, "color-scheme" in text) == (200, True)
    assert headers["Content-Type"].startswith("text/css")
    assert ask(server, "/waybill/static/waybill.css", method="POST")[0] == 405


@pytest.mark.parametrize("route", [route for route in routes() if not route.startswith("/static")])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_nobody_gets_in_without_a_login(server, route, method):
    names = {"dag_id": "shop", "batch": "b-1", "run_id": "r-1", "name": "waybill.css"}
    path = "/waybill" + route.format(**names)
    status, headers, text = ask(server, path, method=method)
    assert status == (401 if method == "GET" else 405)
    assert "All is well" not in text
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert ask(server, path, token="made up")[0] in (401, 403)


@pytest.mark.parametrize("path", ["/waybill/openapi.json", "/waybill/docs", "/waybill/"])
def test_there_is_nothing_else(server, path):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize(("user", "password"), [("admin", "open"), ("viewer", "look")])
def test_who_may_see_the_runs_may_see_the_report(server, user, password):
    token = token_of(server, user, password)
    for given in ({"token": token}, {"cookie": token}):
        status, headers, text = ask(server, "/waybill/gate/shop/b-1", **given)
        assert (status, text) == (200, PAGE)
        assert headers["Content-Type"].startswith("text/html")
        for name, value in {**HEADERS, **REPORT_HEADERS}.items():
            assert headers[name] == value
    assert "script-src" not in REPORT_HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/gate/shop/b-2",
        "/gate/nobody/b-1",
        "/gate/~/b-1",
        "/gate/shop/..",
        "/gate/shop/%2e%2e",
        "/gate/shop/..%2f..%2f..%2fmigrations%2fsecret.txt",
        "/gate/..%2f..%2fetc/passwd",
        "/gate/shop/b-1%00",
        "/gate/shop/b-1%0a",
        "/gate/shop/" + "b" * 100,
        "/gate/Shop/b-1",
        "/../waybill/gate/shop/b-2",
    ],
)
def test_no_name_leads_out_of_the_lake(server, path):
    token = token_of(server, "admin", "open")
    status, _, text = ask(server, "/waybill" + path, token=token)
    assert status in (404, 422)
    assert "All is well" not in text
    assert "not for anybody" not in text


def test_a_missing_report_is_said_in_words(server):
    token = token_of(server, "admin", "open")
    _, headers, text = ask(server, "/waybill/gate/shop/b-2", token=token)
    assert "no gate report" in text.lower()
    assert headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["kept", "shown"])
def test_the_report_of_a_lake_in_object_storage_is_read_with_its_connection(server, name):
    token = token_of(server, "viewer", "look")
    for batch, status in (("b-1", 200), ("b-2", 404), ("b-1", 200)):
        found, _, text = ask(server, f"/waybill/gate/{name}/{batch}", token=token)
        assert found == status
        assert (text == PAGE) == (status == 200)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("away", "cannot be reached (no server answers there)"),
        ("nowhere", "there is no connection store_nowhere"),
        ("unset", "another.yaml:3: lake.warehouse needs ${NOBODY_SETS_THIS}, which is not set"),
        ("torn", "torn.yaml:1: is not YAML"),
    ],
)
def test_a_report_that_cannot_be_read_is_said_with_the_reason(server, name, says):
    token = token_of(server, "viewer", "look")
    status, headers, text = ask(server, f"/waybill/gate/{name}/b-1", token=token)
    assert status == 503
    assert says in unescape(text)
    assert SECRET not in text
    assert headers["Content-Security-Policy"]


def test_airflow_shows_the_plugin(server):
    plugins = server.get("plugins")["plugins"]
    (waybill,) = [plugin for plugin in plugins if plugin["name"] == "waybill"]
    assert [app["url_prefix"] for app in waybill["fastapi_apps"]] == ["/waybill"]
    places = {view["destination"]: view["href"] for view in waybill["external_views"]}
    assert places == {
        "nav": "/waybill/migrations",
        "dag": "/waybill/dags/{DAG_ID}",
        "dag_run": "/waybill/runs/{DAG_ID}/{RUN_ID}",
    }
    assert server.get("plugins", "importErrors")["import_errors"] == []


@pytest.mark.parametrize(("user", "password"), [("admin", "open"), ("viewer", "look")])
@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("migrations", 200, "torn.yaml:1: is not YAML"),
        ("dags/shop", 200, "There are no figures of this migration yet"),
        ("dags/example", 200, "is not a migration of Waybill"),
        ("dags/torn", 503, "torn.yaml:1: is not YAML"),
        ("runs/shop/manual__2026-11-26T16:00:00+00:00", 404, "Airflow knows no run"),
        ("batches/shop/b-1", 404, "There is no account of batch b-1"),
        ("static/waybill.css", 200, "color-scheme"),
    ],
)
def test_airflow_serves_the_pages(server, path, status, says, user, password):
    token = token_of(server, user, password)
    found, headers, text = ask(server, f"/waybill/{path}", cookie=token)
    assert (found, says in unescape(text)) == (status, True), text
    for name, value in HEADERS.items():
        assert headers[name] == value
    assert SECRET not in text
