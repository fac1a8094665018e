"""A real web server of Airflow that is served under a path: every address of ours is below it."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.dags.asking import HELD, Read
from tests.dags.showcase import Showcase
from tests.dags.values_lake import refuse_and_change
from tests.dags.web_server import PASSWORDS, ask, token_of, web_server
from waybill_airflow.web.app import FILES, make_app

pytestmark = pytest.mark.airflow

PATH = "/data/airflow"

ASKED = {
    "/migrations": "/migrations",
    "/dags/{dag_id}": "/dags/orders_held",
    "/runs/{dag_id}/{run_id}": "/runs/orders_held/nothing",
    "/batches/{dag_id}/{batch}": f"/batches/orders_held/{HELD}",
    "/formats": "/formats?source=canal&target=maxwell",
    "/static/{name}": "/static/waybill.css",
    "/quarantine/{dag_id}": "/quarantine/orders",
    "/quarantine/{dag_id}/message": "/quarantine/orders/message?topic=shop/eu&partition=0&offset=0",
    "/rows/{dag_id}": f"/rows/orders?{urlencode({'table': 'shop.parcels', 'key': '1'})}",
    "/verifications/{dag_id}": "/verifications/orders",
    "/gate/{dag_id}/{batch}": f"/gate/orders_held/{HELD}",
}
"""Every route, and an address of it where there is something."""

ADDRESSES = ("href", "src", "action", "data-api", "data-runs")


@pytest.fixture(scope="module")
def server(airflow_home, tmp_path_factory):
    """It, with an admin who is logged in."""
    showcase = Showcase(tmp_path_factory.mktemp("below"))
    showcase.all_states()
    refuse_and_change(showcase)
    environment = {"WAYBILL_MIGRATIONS": str(showcase.migrations)}
    with web_server(airflow_home, environment, PATH) as client:
        yield client


@pytest.fixture(scope="module")
def token(server):
    return token_of(server, "admin", PASSWORDS["admin"])


@pytest.mark.parametrize("route", [route.path for route in make_app().routes])
def test_every_address_on_every_page_is_below_the_path(server, token, route):
    status, _, text = ask(server, f"/waybill{ASKED[route]}", cookie=token)
    assert status == (404 if route.startswith("/runs") else 200), text
    if route.startswith("/static"):
        return
    page = Read(text)
    places = [place for name in ADDRESSES for place in page.attributes(name)]
    assert f"{PATH}/waybill/static/waybill.css" in places
    assert f"{PATH}/waybill/migrations" in places or route == "/migrations"
    for place in places:
        assert place.startswith((f"{PATH}/", "#")), place


def test_what_pages_load_and_ask_for_is_there(server, token):
    for name in FILES:
        assert ask(server, f"/waybill/static/{name}", cookie=token)[0] == 200
    _, _, text = ask(server, "/waybill/dags/orders_held", cookie=token)
    page = Read(text)
    assert {*page.attributes("data-api")} == {f"{PATH}/api/v2/dags/orders_held/dagRuns"}
    assert {*page.attributes("data-runs")} == {f"{PATH}/dags/orders_held/runs/"}
    status, headers, text = ask(server, "/api/v2/dags/orders_held/dagRuns", token=token)
    assert headers["Content-Type"] == "application/json", "Airflow's API is there"
    assert status == 200 or "orders_held" in text


def test_a_page_without_a_login_leads_to_the_login_below_the_path(server):
    status, _, text = ask(server, "/waybill/migrations")
    assert status == 401
    assert f"{PATH}/" in Read(text).attributes("href")


def test_airflow_s_menu_leads_below_the_path(server):
    (ours,) = [one for one in server.get("plugins")["plugins"] if one["name"] == "waybill"]
    assert ours["external_views"]
    for view in ours["external_views"]:
        assert view["href"].startswith(f"{PATH}/waybill/")
        assert view["icon"].startswith(f"{PATH}/waybill/static/")
