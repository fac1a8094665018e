"""The pages about migrations and batches, asked as Airflow's web server asks them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from airflow.api_fastapi.core_api import security
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse
from fastapi.testclient import TestClient

from tests.dags.showcase import HOSTILE, Showcase, tampered
from waybill.envelopes import registry
from waybill.spec.file import load_migration
from waybill.storage.file_store import LocalStore
from waybill_airflow import plugin
from waybill_airflow.params import trigger_form
from waybill_airflow.web import (
    airflow_runs,
    app,
    batch_view,
    condition,
    migration_view,
    migrations_view,
    rights,
)
from waybill_airflow.web.airflow_runs import DagFacts, RunFacts
from waybill_airflow.web.formats_view import formats_view
from waybill_airflow.web.rendering import page

pytestmark = pytest.mark.airflow

HELD = "20261126T300000.000-held00"
RUN = "manual__2026-11-26T16:00:00+00:00"
FAILED = RunFacts(RUN, "failed", "20261126T080000.000-000008")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Migrations in every state."""
    showcase = Showcase(tmp_path_factory.mktemp("pages"))
    showcase.all_states()
    return showcase


class Manager:
    """An auth manager that lets through what it is told to.

    Attributes:
        reads: DAGs that may be read; all where it is None.
        runs: DAGs whose runs may be seen; all where it is None.
        files: whether broken files may be seen.
        triggers: whether runs may be started.
    """

    def __init__(self) -> None:
        self.reads: set[str] | None = None
        self.runs: set[str] | None = None
        self.files = True
        self.triggers = True
        self.known: set[str] = set()

    def get_authorized_dag_ids(self, *, user, method):
        assert (user.name, method) == ("ann", "GET")
        return self.known if self.reads is None else self.reads

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        entities = (security.DagAccessEntity.RUN, security.DagAccessEntity.CODE)
        assert user.name == "ann"
        assert access_entity in entities
        if method == "POST":
            return self.triggers
        assert method == "GET"
        return self.runs is None or details.id in self.runs

    def is_authorized_view(self, *, access_view, user):
        return self.files


@pytest.fixture
def manager(shown, monkeypatch):
    """Who may see what."""
    found = Manager()
    found.known = {path.stem for path in shown.migrations.iterdir()}
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", lambda: found)
    no_team = SimpleNamespace(
        get_team_name=lambda _dag_id: None,
        get_dag_id_to_team_name_mapping=lambda _dag_ids: {},
    )
    for module in (security, rights):
        monkeypatch.setattr(module, "DagModel", no_team)
    return found


@pytest.fixture
def runs(monkeypatch):
    """What Airflow knows: DAGs by their id, and runs by theirs."""
    told = SimpleNamespace(dags={"parcels_failing": DagFacts(last=FAILED)}, runs={}, tasks={})

    def facts(dag_ids):
        return {dag_id: told.dags.get(dag_id, DagFacts()) for dag_id in dag_ids}

    for module in (migrations_view, migration_view):
        monkeypatch.setattr(module, "dag_facts", facts)
    monkeypatch.setattr(app, "run_of", lambda dag_id, run_id: told.runs.get((dag_id, run_id)))
    of_batches = {run.batch: run for run in told.runs.values()}
    monkeypatch.setattr(batch_view, "runs_by_batch", lambda _dag_id, _limit: of_batches)
    monkeypatch.setattr(batch_view, "task_states", lambda _dag_id, _run_id: told.tasks)
    return told


@pytest.fixture
def made(shown, monkeypatch):
    """The application over the migrations."""
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(shown.migrations))
    return app.make_app()


@pytest.fixture
def client(made, manager, runs):
    """Somebody who is logged in."""
    made.dependency_overrides[security.get_user] = lambda: SimpleNamespace(name="ann")
    return TestClient(made)


PAGES = (
    "/migrations",
    "/dags/orders_held",
    f"/batches/orders_held/{HELD}",
    f"/runs/orders_held/{RUN}",
    "/gate/orders_held/20261126T000000.000-000000",
)
ABOUT_ONE = PAGES[1:]


class Read(HTMLParser):
    """What a browser would find on a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.tags if attrs.get(name)]


def read(client, path, status=200) -> Read:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    return Read(answer.text)


# Who may see what.


def test_every_route_is_tested_here(made):
    routes = {route.path.split("/")[1] for route in made.routes}
    # Those that show values are in test_value_pages.
    here = {path.split("/")[1] for path in (*PAGES, "/formats", "/static/waybill.css")}
    assert routes - here == {"quarantine", "rows"}


@pytest.mark.parametrize("path", [*PAGES, "/formats", "/static/waybill.css", "/static/frame.js"])
@pytest.mark.parametrize("token", [None, "made up"])
def test_nobody_gets_in_without_a_login(made, shown, path, token, monkeypatch):
    monkeypatch.setattr(security, "get_auth_manager", lambda: NoToken)
    headers = {} if token is None else {"Cookie": f"_token={token}"}
    answer = TestClient(made).get(path, headers=headers)
    assert answer.status_code in (401, 403)
    assert "orders_held" not in answer.text
    assert "All is well" not in answer.text
    assert answer.headers["content-type"].startswith("text/html"), "a person reads it"
    assert "<h1>" in answer.text


class NoToken:
    """An auth manager that knows no token."""

    @staticmethod
    async def get_user_from_token(_token):
        raise security.InvalidTokenError


@pytest.mark.parametrize("path", ABOUT_ONE)
def test_who_may_not_see_the_runs_sees_none_of_the_figures(client, manager, path):
    manager.runs = {"stock_fine"}
    page = read(client, path, 403)
    assert "Not for you to see" in page.text
    assert HELD not in page.text
    assert "All is well" not in page.text


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
    assert page.text.count("You may see this DAG, and not its runs.") == len(manager.known) - 2
    places = page.attributes("href")
    assert any(place.endswith("/dags/stock_fine") for place in places)
    assert not any("orders_held" in place for place in places)
    figures = dict(zip(*_figures(page), strict=True))
    assert figures["held by the gate"] == "0", "sums tell nothing of what one may not see"


def _figures(page: Read) -> tuple[list[str], list[str]]:
    words = [word.strip() for word in page.words if word.strip()]
    start = words.index("Migrations", 1) + 1
    start = next(i for i in range(start, len(words)) if words[i].startswith("of "))
    return words[start : start + 8 : 2], words[start + 1 : start + 9 : 2]


# What they say.


def test_the_worst_comes_first(client):
    page = read(client, "/migrations")
    words = [word.strip() for word in page.words]
    order = [w for w in words if w in condition.WORST_FIRST]
    assert order == [
        "file broken",
        "not readable",
        *("held", "held"),
        "failing",
        "late",
        "refusing",
        "never ran",
        *("fine", "fine"),
    ]
    assert "torn.yaml:2: is not YAML" in page.text
    assert dict(zip(*_figures(page), strict=True))["of 10 need a look"] == "7"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("orders_held", f"Batch {HELD} is held: the gate expects"),
        ("parcels_failing", "The last run failed."),
        ("returns_late", "at least 2 more should have come since"),
        ("customers_refusing", "The last batch refused 12 rows of 41,007 messages."),
        ("stock_fine", "All that was archived is published."),
        ("prices_new", "It has not run yet."),
        ("cloud_unreachable", "there is no connection nobody_has_this"),
    ],
)
def test_a_migration_says_its_state_and_what_to_do(client, shown, name, says):
    page = read(client, f"/dags/{name}")
    assert says in page.text
    if name != "stock_fine":
        assert "waybill " in page.text
        assert str(shown.migrations / f"{name}.yaml") in page.text


def test_a_held_migration_names_what_waits_and_what_helps(client):
    page = read(client, "/dags/orders_held")
    assert "“Drop the held batch”" in page.text
    assert "gate approve" in page.text
    assert "merge 1 48,000" in page.text
    assert f"/waybill/gate/orders_held/{HELD}" in page.attributes("href")
    assert "/dags/orders_held" in page.attributes("href")


def test_a_rule_that_nobody_may_waive_offers_no_approval(client, shown, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", _held, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    tampered(spec, held_rules=[{"rule": "Counts reconcile.", "waivable": False}])
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    page = read(client, "/dags/orders")
    assert "Counts reconcile" in page.text
    assert "gate approve" not in page.text


def _held(lake) -> None:
    lake.snapshot(HELD, 10)
    lake.convert(HELD)
    lake.validate(HELD, lake.merge(HELD), passes=False)


def test_a_batch_shows_its_sum_stage_by_stage(client):
    page = read(client, f"/batches/orders_held/{HELD}")
    assert "convert 52,310 0 44,409 7,901 7,901 json 0 0 0 2.0" in page.text
    assert "The gate holds what it wrote" in page.text
    assert "none is published as this batch" in page.text
    assert "cannot carry" in page.text or "sequence" in page.text


def test_a_batch_whose_run_was_killed_says_who_took_over(client):
    page = read(client, "/batches/invoices_taken/20261126T300000.000-killed")
    assert page.text.count("The run of this batch did not get here") >= 2
    later = "/waybill/batches/invoices_taken/20261126T310000.000-after0"
    assert later in page.attributes("href")


def test_a_run_leads_to_its_batch(client, runs):
    runs.runs["orders_held", RUN] = RunFacts(RUN, "failed", HELD)
    runs.tasks = {"validate": "failed", "publish": "upstream_failed"}
    page = read(client, f"/runs/orders_held/{RUN}")
    assert HELD in page.text
    assert "its task: upstream failed" in page.text
    assert "/dags/orders_held/runs/manual__2026-11-26T16%3A00%3A00%2B00%3A00" in page.attributes(
        "href"
    )


def test_a_run_that_has_committed_nothing_is_said_so(client, runs):
    runs.runs["orders_held", "r1"] = RunFacts("r1", "running", "no-such-batch")
    page = read(client, "/runs/orders_held/r1")
    assert "There is no account of batch no-such-batch" in page.text
    assert "Airflow says of its run: running." in page.text


@pytest.mark.parametrize("path", ["/dags/somebody_elses", "/runs/Some.Body-s/r1"])
def test_dags_that_are_no_migrations_get_a_polite_word(client, path):
    assert "is no migration of Waybill" in read(client, path).text


def test_the_upkeep_of_a_migration_leads_to_it(client, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.file("orders", "upkeep: {}")
    showcase.file("parcels")
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    page = read(client, "/dags/orders_upkeep")
    assert "belongs to the migration orders" in page.text
    assert "/waybill/dags/orders" in page.attributes("href")
    assert "is no migration" in read(client, "/dags/parcels_upkeep").text


def test_a_lake_that_is_closed_hides_no_other(client, shown, monkeypatch):
    original = LocalStore.read

    def closed(self, name):
        if "/orders_held/" in self.root:
            raise PermissionError(13, "Permission denied", self.root)
        return original(self, name)

    monkeypatch.setattr(LocalStore, "read", closed)
    page = read(client, "/migrations")
    assert "stock_fine" in page.text
    page = read(client, "/dags/orders_held")
    assert "cannot be read by Airflow (Permission denied)" in page.text
    assert "not readable" in page.text
    assert "Permission denied" in read(client, f"/batches/orders_held/{HELD}", 503).text


def test_a_held_batch_that_people_are_asked_about(client, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", _held, "quality: {on_failure: ask}", batches=1)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    assert "“Required actions” of its run" in read(client, "/dags/orders").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/batches/orders_held/none", 404),
        ("/batches/nobody/b-1", 404),
        (f"/runs/orders_held/{RUN}x", 404),
        ("/batches/orders_held/..", 404),
        ("/batches/orders_held/%2e%2e", 422),
        ("/batches/orders_held/..%2f..%2f..%2fmigrations%2ftorn.yaml", 404),
        ("/batches/Orders/b-1", 422),
        ("/batches/orders_held/b%00", 422),
        ("/batches/orders_held/" + "b" * 99, 422),
        ("/batches/orders_held/_index.json", 422),
        ("/static/..%2fapp.py", 404),
        ("/static/app.py", 404),
        ("/dags/" + "d" * 251, 422),
        ("/dags/~", 422),
        ("/", 404),
    ],
)
def test_no_name_leads_anywhere_else(client, path, status):
    page = read(client, path, status)
    assert "name: [" not in page.text
    assert "import " not in page.text


def test_a_file_of_another_version_is_as_none(client, shown, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", lambda _lake: None, batches=1)
    tampered(load_migration(showcase.migrations / "orders.yaml"), version=99)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    assert "There are no figures of this migration yet" in read(client, "/dags/orders").text


# Buttons that open the trigger form filled in.


def buttons(page: Read) -> list[dict]:
    return [json.loads(text) for text in page.attributes("data-conf")]


@pytest.mark.parametrize(
    ("name", "confs"),
    [
        ("orders_held", [{"drop_held": True}, {"mode": "replay"}]),
        ("customers_refusing", [{"mode": "replay"}, {}, {"mode": "full"}, {"mode": "replay"}]),
        ("stock_fine", [{}, {"mode": "full"}, {"mode": "replay"}]),
        ("prices_new", [{}]),
    ],
)
def test_buttons_fill_in_what_airflow_takes(client, name, confs):
    found = buttons(read(client, f"/dags/{name}"))
    assert found == confs
    form = trigger_form()
    for conf in found:
        for field, value in conf.items():
            assert form[field].resolve(value) == value


def test_the_form_has_the_fields_of_the_dag(client):
    page = read(client, "/dags/orders_held")
    inputs = {a["name"]: (tag, a) for tag, a in page.tags if tag in ("select", "input")}
    form = trigger_form()
    assert list(inputs) == list(form)
    for name, (tag, attrs) in inputs.items():
        wanted = "select" if "enum" in form[name].schema else "input"
        assert tag == wanted
        assert attrs["aria-describedby"] == f"help-{name}"
        assert attrs.get("data-default", "") == (form[name].value or "")
    modes = [a["value"] for tag, a in page.tags if tag == "option"]
    assert modes == [*form["mode"].schema["enum"], *form["until"].schema["enum"]]
    (api,) = page.attributes("data-api")
    assert api == "/api/v2/dags/orders_held/dagRuns"


def test_who_may_not_start_runs_gets_no_button(client, manager):
    manager.triggers = False
    page = read(client, "/dags/orders_held")
    assert buttons(page) == []
    assert page.attributes("data-api") == []
    assert "trigger.js" not in str(page.tags)
    assert "waybill run" in page.text


def test_a_run_that_is_under_way_is_said_so(client, runs):
    runs.dags["stock_fine"] = DagFacts(last=RunFacts("r1", "running", "b-1"))
    page = read(client, "/dags/stock_fine")
    assert "A run is running" in page.text
    assert "/dags/stock_fine/runs/r1" in page.attributes("href")
    runs.dags["stock_fine"] = DagFacts(last=RunFacts("r1", "success", "b-1"))
    assert "A run is" not in read(client, "/dags/stock_fine").text


def test_a_batch_that_the_gate_looks_at_now_is_not_held(client, runs, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)

    def merged(lake):
        lake.snapshot(HELD, 10)
        lake.convert(HELD)
        lake.merge(HELD)

    showcase.with_lake("orders", merged, batches=1)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    runs.dags["orders"] = DagFacts(last=RunFacts("r1", "running", HELD))
    page = read(client, "/dags/orders")
    assert "10 messages of the archive will be published next" in page.text
    assert "held" not in [attrs.get("class") for tag, attrs in page.tags if tag == "section"]
    runs.dags["orders"] = DagFacts(last=RunFacts("r1", "success", HELD))
    assert "was merged and not judged" in read(client, "/dags/orders").text


def test_a_paused_dag_is_said_so(client, runs):
    runs.dags["orders_held"] = DagFacts(paused=True)
    assert "The DAG is paused" in read(client, "/dags/orders_held").text


# Nothing in them runs, and nothing is loaded from anywhere else.


@pytest.mark.parametrize(
    "path", ["/migrations", "/dags/names_hostile", f"/batches/names_hostile/{HELD}"]
)
def test_hostile_names_are_text(client, path):
    page = read(client, path)
    if path != "/migrations":
        assert HOSTILE in " ".join(page.words)
    assert "49" not in page.text.replace("49,", "").split(), "it was evaluated"
    _is_tame(page)


def test_a_hostile_rule_and_a_hostile_sentence_of_a_file_are_text(
    client, shown, tmp_path, monkeypatch
):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", _held, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    tampered(spec, held_rules=[{"rule": HOSTILE, "waivable": True}], decided=HOSTILE)
    (showcase.migrations / "bad.yaml").write_text(f"name: {json.dumps(HOSTILE)}\n")
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    for path in ("/migrations", "/dags/orders"):
        page = read(client, path)
        assert HOSTILE in " ".join(page.words) or path == "/migrations"
        _is_tame(page)


OURS = ("frame.js", "trigger.js")


def _is_tame(page: Read) -> None:
    """Nothing on the page runs, but for our scripts."""
    scripts = [attrs["src"] for tag, attrs in page.tags if tag == "script"]
    assert scripts in ([f"/waybill/static/{name}" for name in OURS[:n]] for n in (1, 2))
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"style", "iframe", "object", "embed", "img", "base"}
    for _, attrs in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs)
    for place in (*page.attributes("href"), *page.attributes("src")):
        parts = urlsplit(place)
        assert (parts.scheme, parts.netloc) == ("", "")


@pytest.mark.parametrize("path", [*PAGES, "/static/waybill.css", "/nowhere", "/batches/X/y"])
def test_every_answer_has_a_strict_policy(client, path):
    headers = client.get(path).headers
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    assert policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy.get("script-src", "'self'") == "'self'"
    assert "unsafe-inline" not in policy.get("script-src", "")
    if path.startswith("/gate"):
        assert "sandbox" in policy
    else:
        assert policy["style-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_the_style_sheet_and_the_script_load_nothing(client):
    for name in ("waybill.css", *OURS):
        text = client.get(f"/static/{name}").text
        assert "url(" not in text
        assert "@import" not in text
        assert "http" not in text


# For keyboards, screen readers and narrow windows.


@pytest.mark.parametrize(
    "path", ["/migrations", "/dags/orders_held", f"/batches/orders_held/{HELD}", "/dags/nobodys"]
)
def test_pages_have_what_screen_readers_go_by(client, path):
    page = read(client, path)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == 1
    assert "title" in tags[: tags.index("body")]
    assert dict(page.tags)["html"]["lang"] == "en"
    headings = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(headings))
    for tag, attrs in page.tags:
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")
        if tag == "svg":
            assert (attrs["role"], bool(attrs["aria-label"])) == ("img", True)
    named = page.attributes("id")
    assert len(named) == len(set(named))
    assert set(page.attributes("aria-labelledby")) <= set(named)


# Below another path, in Airflow's menu, and how much is read.


def test_everything_is_below_the_path_of_airflow(client, monkeypatch):
    from waybill_airflow.web import rendering

    monkeypatch.setattr(rendering, "base_path", lambda: "/data/airflow")
    for path in ("/migrations", "/dags/orders_held", f"/batches/orders_held/{HELD}"):
        page = read(client, path)
        addresses = ("href", "src", "data-api", "data-runs")
        for place in (place for name in addresses for place in page.attributes(name)):
            assert place.startswith(("/data/airflow/", "#")), place


def test_the_views_are_what_airflow_takes(monkeypatch):
    monkeypatch.setattr(plugin, "base_path", lambda: "/data")
    found = plugin.views()
    assert [view["destination"] for view in found] == ["nav", "dag", "dag_run"]
    assert len({view["url_route"] for view in found}) == len(found)
    for view in found:
        assert ExternalViewResponse.model_validate(view).href.startswith("/data/waybill/")
    monkeypatch.setenv("WAYBILL_TABS", "off")
    assert [view["destination"] for view in plugin.views()] == ["nav"]
    monkeypatch.setenv("WAYBILL_TABS", "maybe")
    with pytest.raises(Exception, match="WAYBILL_TABS is 'maybe': set it to on or off"):
        plugin.views()


@pytest.fixture
def reads(monkeypatch):
    """The files of lakes that are read."""
    found: list[str] = []
    original = LocalStore.read

    def noted(self, name):
        found.append(str(Path(self.root, name)))
        return original(self, name)

    monkeypatch.setattr(LocalStore, "read", noted)
    return found


def test_a_page_reads_a_handful_of_files(client, manager, reads):
    client.get("/migrations")
    local = len(manager.known) - 2
    assert len(reads) == 2 * local, "two for each migration whose lake is here"
    assert {Path(place).name for place in reads} == {"_index.json", "_source.json"}
    for path, names in (
        ("/dags/orders_held", ["_index.json", "_source.json"]),
        (f"/batches/orders_held/{HELD}", ["waybill.json"]),
    ):
        reads.clear()
        client.get(path)
        assert [Path(place).name for place in reads] == names


def test_files_of_migrations_are_read_once_while_they_stay(client, shown, monkeypatch):
    from waybill_airflow.web import known_migrations

    client.get("/migrations")
    loaded = []
    monkeypatch.setattr(known_migrations, "load_migration", loaded.append)
    client.get("/migrations")
    assert loaded == []


# What Airflow's database says.


def test_runs_are_found_in_airflows_database(airflow_home):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    moment = datetime(2026, 11, 26, 16, tzinfo=UTC)
    with create_session() as session:
        for number, (state, conf) in enumerate([("success", {}), ("failed", {"batch": "b-9"})]):
            run = DagRun(
                dag_id="pages",
                run_id=f"r{number}",
                run_after=moment + timedelta(hours=number),
                run_type=DagRunType.MANUAL,
                state=state,
                conf=conf,
            )
            session.add(run)
    try:
        assert airflow_runs.run_of("pages", "r1") == RunFacts("r1", "failed", "b-9")
        assert airflow_runs.run_of("pages", "r7") is None
        found = airflow_runs.runs_by_batch("pages", 10)
        assert found["b-9"].run_id == "r1"
        assert [run.run_id for run in found.values() if run.batch.startswith("20261126T16")] == [
            "r0"
        ]
        assert airflow_runs.task_states("pages", "r1") == {}
        assert airflow_runs.dag_facts(["pages"]) == {}, "Airflow does not know the DAG itself"
    finally:
        with create_session() as session:
            session.query(DagRun).filter(DagRun.dag_id == "pages").delete()


# What is lost between formats.


def test_two_formats_show_what_is_lost_and_why(client):
    page = read(client, "/formats?source=debezium-json&target=canal")
    lost = registry.get("debezium-json").losses_to(registry.get("canal"), {})
    assert lost
    for name, why in lost.items():
        assert name.replace("_", " ") in page.text
        assert " ".join(why.split()) in page.text
    assert "waybill formats debezium-json" in page.text


@pytest.mark.parametrize("asked", ["", "?source=nothing&target=canal", f"?source={HOSTILE}"])
def test_formats_that_are_none_are_not_chosen(client, asked):
    page = read(client, f"/formats{asked}")
    assert "What is lost between two formats" in page.text
    options = [attrs for tag, attrs in page.tags if tag == "option"]
    assert len(options) == 2 * len(registry.all_envelopes())


def test_every_pair_has_its_page():
    names = [envelope.name for envelope in registry.all_envelopes()]
    for source, target in product(names, names):
        text = page("formats", view=formats_view(source, target))
        assert f"<h1>From {source} to {target}</h1>" in text
