"""What the pages about migrations and batches say."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.dags.asking import (
    FAILED,
    HELD,
    RUN,
    Read,
    figures_of,
    held,
    read,
)
from tests.dags.showcase import HOSTILE, Showcase, tampered
from waybill.errors import Code, ConfigurationError
from waybill.overview.files import read_index
from waybill.overview.keeping import failures_kept, keep_overview
from waybill.spec.file import load_migration
from waybill.storage.file_store import LocalStore
from waybill_airflow.web import condition, migration_view
from waybill_airflow.web.airflow_runs import DagFacts, RunFacts

pytestmark = pytest.mark.airflow


def test_the_worst_comes_first(client):
    page = read(client, "/migrations")
    words = [word.strip() for word in page.words]
    order = [w for w in words if w in condition.WORST_FIRST]
    assert order == [
        "file broken",
        "not readable",
        *("held", "held"),
        "failing",
        "table waits",
        "late",
        "refusing",
        "never ran",
        *("fine", "fine"),
    ]
    assert "torn.yaml:2: is not YAML" in page.text
    assert dict(zip(*figures_of(page), strict=True))["of 11 need attention"] == "8"


def test_a_row_of_the_list_has_all_its_figures(client, runs, shown):
    soon = datetime.now(UTC) + timedelta(hours=2, minutes=1)
    runs.dags["orders_held"] = DagFacts(next_run=soon)
    text = client.get("/migrations").text
    rows = [Read(part) for part in text.split('<tr role="row">')]
    (row,) = [row for row in rows if "/waybill/dags/orders_held" in row.attributes("href")]
    index = read_index(load_migration(shown.migrations / "orders_held.yaml"))
    assert (len(index.batches), index.batches[1].batch, index.lag) == (22, HELD, 100_310)
    # The batch behind the one that the gate holds is the last.
    assert re.fullmatch(
        r"orders_held oms-default → canal, datahub-blob held \S+ \w+ ago under way 48,000 0 "
        rf"100,310 \S+ \w+ – 0 {index.refused_waiting:,} (passed ){{12}}failed not judged in 2 h",
        row.text,
    ), row.text
    kinds = [attrs["class"] for tag, attrs in row.tags if tag == "li"]
    assert kinds == ["passed"] * 12 + ["failed", "none"]
    ((_, line),) = [one for one in row.tags if one[0] == "polyline"]
    assert len(line["points"].split()) == 22


def test_the_list_says_how_a_migration_starts_that_is_not_planned(
    client, manager, runs, tmp_path, monkeypatch
):
    showcase, manager.known = Showcase(tmp_path), {"by_asset", "by_hand", "by_time", "paused"}
    showcase.file("by_hand")
    showcase.file("by_asset", "after_assets: [stock/targets/canal]")
    for name in ("by_time", "paused"):
        showcase.file(name, 'schedule: "@hourly"')
    runs.dags["paused"] = DagFacts(paused=True)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    cells = re.findall('data-label="Next run">(.*?)</td>', client.get("/migrations").text)
    assert cells == ["after assets", "by hand", "–", "paused"], "in the order of their names"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("orders_held", f"Batch {HELD} is held: the gate expects"),
        ("parcels_failing", "The last run failed."),
        ("returns_late", "at least 2 more should have ended since"),
        ("customers_refusing", "The last batch refused 12 rows of 41,007 messages."),
        (
            "goods_waiting",
            "The table shop.orders waits for a decision since batch 20261126T190000.000-000013, "
            "with 1,200 changes: column price of shop.orders was decimal(10,2) and is varchar(20). "
            "1 more table waits, too. All others continue.",
        ),
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


@pytest.fixture
def stopped(shown):
    """Keeps why a stage of a batch of the migration that fails has stopped."""

    def keep(batch):
        spec = load_migration(shown.migrations / "parcels_failing.yaml")
        error = ConfigurationError(f"column {HOSTILE} was renamed", code=Code.COLUMN_RENAMED)
        with pytest.raises(ConfigurationError), failures_kept(spec, "merge", batch):
            raise error
        return spec

    return keep


def test_a_failed_run_says_why_on_the_page_of_its_migration(client, stopped):
    spec = stopped(FAILED.batch)
    page = read(client, "/dags/parcels_failing")
    assert f"The stage merge of batch {FAILED.batch} stopped at " in page.text
    assert f": column {HOSTILE} was renamed" in page.text
    assert "WB-4005, “A column was renamed”, has a section in the runbook." in page.text
    for_others = migration_view.migration_view(spec, may_trigger=True, sees_values=False).failure
    assert (for_others.code, for_others.sentence) == ("WB-4005", "")


def test_a_batch_whose_run_failed_says_in_which_stage(client, manager, runs, tmp_path, monkeypatch):
    showcase, manager.known = Showcase(tmp_path), {"orders"}

    def stopped(lake):
        lake.snapshot("b-9", 41_000)
        lake.convert("b-9")

    showcase.with_lake("orders", stopped, batches=1)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))

    def words():
        found = read(client, "/migrations").text, read(client, "/dags/orders").text
        return [re.search(about, text)[1] for about, text in zip(abouts, found, strict=True)]

    state = r"(under way|failed(?: in \w+)?)"
    abouts = [rf"datahub-blob .*? ago {state} 41,000", rf"b-9 {state} – \S+ \S+ UTC 41,000"]
    assert words() == ["under way"] * 2, "Airflow has forgotten its run"
    mine, next_one = (RunFacts(f"r{n}", "failed", f"b-{n}", "merge") for n in (9, 10))
    runs.dags["orders"] = DagFacts(last=mine)
    assert words() == ["failed in merge"] * 2
    # Another run came since, and had nothing of its own to archive.
    runs.dags["orders"], runs.runs["orders", "r9"] = DagFacts(last=next_one), mine
    assert words() == ["failed in merge"] * 2
    page = read(client, "/batches/orders/b-9").text
    assert "b-9 failed in merge" in page
    assert "Its run failed in merge; the next run continues from there." in page
    assert re.search(r"convert 41,000", page)
    assert "merge failed It has not reached this batch yet" in page
    assert "validate waiting" in page
    runs.dags["orders"] = DagFacts(last=mine._replace(stage=""))
    assert words() == ["failed"] * 2
    runs.dags["orders"] = DagFacts(last=mine._replace(state="running"))
    assert words() == ["under way"] * 2


def test_a_run_of_the_command_line_that_failed_is_seen_too(
    client, manager, runs, tmp_path, monkeypatch
):
    showcase, manager.known = Showcase(tmp_path), {"orders", "parcels"}

    def archived(lake):
        lake.snapshot("b-9", 41_000)
        lake.convert("b-9")

    lake = showcase.with_lake("orders", archived, batches=1)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    spec, new = (load_migration(showcase.migrations / "orders.yaml"), showcase.file("parcels"))
    for one, batch, stage in ((spec, "b-9", "merge"), (new, "b-1", "")):
        with pytest.raises(ConfigurationError), failures_kept(one, stage, batch):
            raise ConfigurationError(f"no {HOSTILE}", code=Code.COLUMN_RENAMED)
    pages = ("/migrations", "/dags/orders", "/batches/orders/b-9")
    for path in pages:
        assert "failed in merge" in read(client, path).text
    page = read(client, "/migrations")
    words = [word.strip() for word in page.words if word.strip() in condition.WORST_FIRST]
    assert words == ["failing", "failing"]
    page = read(client, "/dags/orders").text
    assert "The stage merge of batch b-9 failed, and no stage has succeeded since." in page
    assert "The stage merge of batch b-9 stopped at " in page
    assert f": no {HOSTILE}" in page
    assert "WB-4005" in page
    assert "The failed run" not in page
    assert "The run of batch b-1 stopped at " in read(client, "/dags/parcels").text
    page = read(client, "/batches/orders/b-9").text
    assert "Its run failed in merge; the next run continues from there." in page
    assert "merge failed It has not reached this batch yet" in page
    # Airflow tries it again.
    runs.dags["orders"] = DagFacts(last=RunFacts("r9", "running", "b-9"))
    runs.runs["orders", "r9"] = runs.dags["orders"].last
    for path in pages:
        assert "failed in" not in read(client, path).text
        assert "under way" in read(client, path).text
    # Its run in Airflow was to end before the merge, and did.
    runs.runs["orders", "r9"] = RunFacts("r9", "success", "b-9")
    runs.dags["orders"] = DagFacts(last=runs.runs["orders", "r9"])
    for path in pages:
        assert "failed in merge" in read(client, path).text
    lake.merge("b-9")
    keep_overview(spec, lake, "b-9")
    for path in pages:
        assert "failed in" not in read(client, path).text


def test_a_batch_that_was_published_stays_so_whatever_its_run_says(client, runs):
    batch = FAILED.batch
    for name in ("/migrations", "/dags/parcels_failing", f"/batches/parcels_failing/{batch}"):
        assert "failed in" not in read(client, name).text


def test_why_another_batch_failed_is_not_why_this_one_did(client, stopped):
    stopped("another")
    assert "was renamed" not in read(client, "/dags/parcels_failing").text


def test_every_table_that_waits_is_shown_with_its_reason(client):
    page = read(client, "/dags/goods_waiting")
    since = "20261126T190000.000-000013"
    why = "column price of shop.orders was decimal(10,2) and is varchar(20)"
    assert f"shop.orders {since} 1,200 {why}" in page.text
    assert f"shop.people {since} 7 shop.people has a new column <b>mail</b>" in page.text
    assert f"/waybill/batches/goods_waiting/{since}" in page.attributes("href")
    assert "Tables that wait" not in read(client, "/dags/stock_fine").text


def test_a_held_migration_names_what_waits_and_what_helps(client):
    page = read(client, "/dags/orders_held")
    assert "“Drop the held batch”" in page.text
    assert "gate approve" in page.text
    assert "merge 1 48,000" in page.text
    assert f"/waybill/gate/orders_held/{HELD}" in page.attributes("href")
    assert "/dags/orders_held" in page.attributes("href")


def test_tables_that_wait_are_named_whatever_else_is_wrong(client, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", held, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    waits = [
        {"table": f"{HOSTILE}{n}", "since": "b-1", "why": HOSTILE, "changes": 7} for n in range(103)
    ]
    tampered(spec, tables_waiting=waits)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    page = read(client, "/dags/orders")
    assert f"Batch {HELD} is held" in page.text
    assert page.text.count(" b-1 7 ") == 100
    assert "and 3 more: waybill status" in page.text


def test_a_rule_that_nobody_may_waive_offers_no_approval(client, shown, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.with_lake("orders", held, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    tampered(spec, held_rules=[{"rule": "Counts reconcile.", "waivable": False}])
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    page = read(client, "/dags/orders")
    assert "Counts reconcile" in page.text
    assert "gate approve" not in page.text


def test_a_batch_shows_its_sum_stage_by_stage(client):
    page = read(client, f"/batches/orders_held/{HELD}")
    assert "convert 52,310 0 44,409 7,901 7,901 json 0 0 0 2.0" in page.text
    assert "The gate holds the batch, so its rows are not visible" in page.text
    assert re.search(r"validate \w* ?\d+ rules, [1-9] critical not met", page.text), page.text
    assert "none is published as this batch" in page.text
    assert re.search(r"What it could not carry: [\d,]+ \w+", page.text), page.text


def test_a_batch_that_passed_met_all_rules(client, shown):
    spec = load_migration(shown.migrations / "stock_fine.yaml")
    batch = next(b.batch for b in read_index(spec).batches if b.state == "published")
    page = read(client, f"/batches/stock_fine/{batch}")
    assert re.search(r"validate \d+ rules?, all met", page.text), page.text
    assert f"/waybill/gate/stock_fine/{batch}" in page.attributes("href")


def test_a_batch_whose_run_was_killed_says_who_took_over(client):
    page = read(client, "/batches/invoices_taken/20261126T210000.000-killed")
    assert page.text.count("The run of this batch ended before this stage") >= 2
    later = "/waybill/batches/invoices_taken/20261126T220000.000-after0"
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
    assert "is not a migration of Waybill" in read(client, path).text


def test_the_upkeep_of_a_migration_leads_to_it(client, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)
    showcase.file("orders", "upkeep: {}")
    showcase.file("parcels")
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    page = read(client, "/dags/orders_upkeep")
    assert "belongs to the migration orders" in page.text
    assert "/waybill/dags/orders" in page.attributes("href")
    assert "is not a migration" in read(client, "/dags/parcels_upkeep").text


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
    showcase.with_lake("orders", held, "quality: {on_failure: ask}", batches=1)
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
