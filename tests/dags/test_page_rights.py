"""Who may see what on the pages."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.core_api import security
from fastapi.testclient import TestClient

from tests.dags.asking import (
    ABOUT_ONE,
    HELD,
    PAGES,
    RUN,
    NoToken,
    figures_of,
    read,
)
from waybill_airflow.web import app, rights

pytestmark = pytest.mark.airflow


ROUTES = [route.path for route in app.make_app().routes]

OF_NO_DAG = {
    "/migrations": "it lists what the user may see, see below",
    "/formats": "it is about the product alone",
    "/static/{name}": "files of the product",
}
"""Routes that are about no DAG, and why who is logged in may ask for them."""

OPEN = ("/static/{name}",)
"""Routes without a login: the page that asks for one has the style sheet, too."""

SHOWS_VALUES = ("/quarantine", "/rows", "/verifications")

ASKED = {"dag_id": "orders_held", "batch": HELD, "run_id": RUN, "name": "waybill.css"}
QUERY = "?topic=shop&partition=0&offset=0"


def address_of(route: str) -> str:
    """A route that asks for something which is there; a parameter that nobody knows here fails."""
    return route.format(**ASKED) + (QUERY if route.endswith("/message") else "")


class Nobody:
    """An auth manager that lets people log in, and do nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple] = []

    def get_authorized_dag_ids(self, *, user, method):
        return set()

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        self.asked.append((method, details.id, access_entity))
        return False

    def is_authorized_view(self, *, access_view, user):
        return False


@pytest.fixture
def nobody(monkeypatch, manager):
    found = Nobody()
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", lambda: found)
    return found


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in OPEN])
def test_no_route_lets_anybody_in_without_a_login(made, shown, route, monkeypatch):
    monkeypatch.setattr(security, "get_auth_manager", lambda: NoToken)
    page = read(TestClient(made), address_of(route), 401)
    assert "You are not logged in" in page.text
    assert "orders_held" not in page.text


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_about_a_dag_answers_who_has_no_right_to_it(client, nobody, route):
    if route in OF_NO_DAG:
        answer = client.get(address_of(route))
        assert answer.status_code == 200
        assert "orders_held" not in answer.text
        assert nobody.asked == []
        return
    assert "{dag_id}" in route, "it is about no DAG: say in OF_NO_DAG who may ask for it, and why"
    page = read(client, address_of(route), 403)
    assert "No permission" in page.text
    assert HELD not in page.text
    ((method, dag_id, entity),) = nobody.asked
    assert (method, dag_id) == ("GET", "orders_held")
    assert entity is not None, "to read a DAG says nothing about its runs"
    if route.startswith(SHOWS_VALUES):
        assert entity == security.DagAccessEntity.TASK_LOGS


@pytest.mark.parametrize("path", [*PAGES, "/formats"])
@pytest.mark.parametrize("token", [None, "made up"])
def test_nobody_gets_in_without_a_login(made, shown, path, token, monkeypatch):
    monkeypatch.setattr(security, "get_auth_manager", lambda: NoToken)
    headers = {} if token is None else {"Cookie": f"_token={token}"}
    answer = TestClient(made).get(path, headers=headers)
    assert answer.status_code in (401, 403)
    assert "orders_held" not in answer.text
    assert "The share is low" not in answer.text
    assert answer.headers["content-type"].startswith("text/html"), "a person reads it"
    assert "<h1>" in answer.text


@pytest.mark.parametrize("path", ABOUT_ONE)
def test_who_may_not_see_the_runs_sees_none_of_the_figures(client, manager, path):
    manager.runs = {"stock_fine"}
    page = read(client, path, 403)
    assert "No permission" in page.text
    assert HELD not in page.text
    assert "The share is low" not in page.text


def test_the_list_has_what_one_may_read(client, manager):
    manager.reads, manager.files = {"stock_fine", "prices_new"}, False
    page = read(client, "/migrations")
    assert "stock_fine" in page.text
    assert "orders_held" not in page.text
    assert "torn.yaml" not in page.text


def test_the_list_has_figures_only_where_one_may_see_runs(client, manager):
    manager.runs = {"stock_fine"}
    page = read(client, "/migrations")
    assert "orders_held" in page.text
    assert page.text.count("You may see this DAG, but not its runs.") == len(manager.known) - 2
    places = page.attributes("href")
    assert any(place.endswith("/dags/stock_fine") for place in places)
    assert not any("orders_held" in place for place in places)
    figures = dict(zip(*figures_of(page), strict=True))
    assert figures["held by the gate"] == "0", "sums tell nothing of what one may not see"
