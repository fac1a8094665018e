"""The pages in every state that they know, in a browser: everybody can use them, at any width."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from playwright.sync_api import expect

from tests.airflow_home import PROJECT
from tests.browser.screens import (
    IN_A_FRAME,
    SCHEMES,
    SCREENSHOTS,
    WIDTHS,
    Watch,
    barriers,
    cut,
    file_name,
    overhang,
    photograph,
    resize,
    tabbed,
)
from tests.dags.showcase import HELD, HOSTILE, Showcase
from tests.dags.values_lake import refuse_and_change
from tests.dags.web_server import PASSWORDS, token_of, web_server
from waybill.validate.results import DATA, reports_folder

pytestmark = [pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(400)]

STATIC = PROJECT / "plugins/waybill_airflow/web/static"

ROW = urlencode({"table": "shop.parcels", "key": "1"})


def message(offset: int) -> str:
    return f"quarantine/orders/message?topic=shop/eu&partition=0&offset={offset}"


PAGES = {
    "migrations": 200,
    "dags/orders_held": 200,
    "dags/customers_refusing": 200,
    "dags/goods_waiting": 200,
    "dags/returns_late": 200,
    "dags/parcels_failing": 200,
    "dags/prices_new": 200,
    "dags/stock_fine": 200,
    "dags/names_hostile": 200,
    "dags/cloud_unreachable": 200,
    "dags/torn": 503,
    "dags/somebody_elses": 200,
    f"batches/orders_held/{HELD}": 200,
    "batches/invoices_taken/20261126T210000.000-killed": 200,
    f"batches/names_hostile/{HELD}": 200,
    f"gate/orders_held/{HELD}": 200,
    "gate/orders_held/20261126T000000.000-000000": 200,
    "gate/orders_held/nothing": 404,
    "gate/cloud_unreachable/nothing": 503,
    "batches/orders_held/nothing": 404,
    "runs/orders_held/nothing": 404,
    "quarantine/orders": 200,
    "quarantine/orders?kind=binary": 200,
    message(0): 200,
    message(1): 200,
    message(4): 200,
    message(5): 200,
    message(99): 404,
    "rows/orders": 200,
    f"rows/orders?{ROW}": 200,
    "rows/orders?key=%7B": 200,
    "verifications/orders": 200,
    "verifications/orders_held": 200,
    "formats": 200,
    "formats?source=canal&target=maxwell": 200,
    "nothing": 404,
}
REPORTS = {
    "gate/stock_fine/20261126T000000.000-000000": 200,
}
"""Pages in a sandbox, where not even a test can run anything: those kept without their figures."""


@pytest.fixture(scope="module")
def showcase(tmp_path_factory):
    """Migrations in every state."""
    return Showcase(tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def server(airflow_home, showcase):
    """A web server of Airflow over them."""
    showcase.all_states()
    refuse_and_change(showcase)
    figures = reports_folder(showcase.file("stock_fine"), "20261126T000000.000-000000")
    Path(figures, DATA).unlink()
    environment = {"WAYBILL_MIGRATIONS": str(showcase.migrations)}
    subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "reserialize"],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )
    _failed_run("parcels_failing")
    with web_server(airflow_home, environment) as client:
        for dag in client.get("dags", limit="100")["dags"]:
            client.patch("dags", dag["dag_id"], body={"is_paused": False})
        yield client


def _failed_run(dag_id: str) -> None:
    now = datetime.now(UTC)
    with create_session() as session:
        session.add(
            DagRun(
                dag_id=dag_id,
                run_id="manual__1",
                run_type=DagRunType.MANUAL,
                state=DagRunState.FAILED,
                run_after=now,
                triggered_by=DagRunTriggeredByType.TEST,
            )
        )


@pytest.fixture(scope="module")
def admin(server, tab):
    """A page of somebody who may do everything."""
    page = tab()
    token = token_of(server, "admin", PASSWORDS["admin"])
    page.context.add_cookies([{"name": "_token", "value": token, "url": server.base_url}])
    # A list that shows what is old would be read again while it is looked at.
    page.route("**/static/again.js", lambda route: route.fulfill(content_type="text/javascript"))
    return page


@pytest.fixture
def visit(server, admin):
    """Goes to one of our pages and says what it did on the way."""

    def go(path: str) -> Watch:
        watch = Watch(admin)
        answer = admin.goto(f"{server.base_url}/waybill/{path}")
        assert answer.status == {**PAGES, **REPORTS}.get(path, 200)
        return watch

    return go


def test_the_list_has_every_state(visit, admin):
    visit("migrations")
    found = admin.locator(".state").all_inner_texts()
    assert sorted(set(found)) == sorted(
        {
            *("file broken", "not readable", "held", "failing", "table waits"),
            *("late", "refusing", "never ran", "fine"),
        }
    )


@pytest.mark.parametrize("script", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_no_script_looks_at_the_width_or_the_colours(script):
    """Only the style sheet does, so that a page need not be loaded anew for each of them."""
    text = script.read_text(encoding="utf-8")
    assert not re.search(r"matchMedia|[wW]idth|resize|[sS]creen\b|getComputedStyle", text)


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_it_at_any_width(visit, admin, server, path):
    resize(admin, IN_A_FRAME)
    watch = visit(path)
    for width in (*WIDTHS, IN_A_FRAME):
        resize(admin, width)
        for scheme in SCHEMES:
            admin.emulate_media(color_scheme=scheme)
            assert barriers(admin) == [], (width, scheme)
            assert overhang(admin) <= 0, f"the page scrolls sideways at {width}"
    assert watch.faults == []
    assert watch.hosts == {server.base_url.removeprefix("http://")}
    photograph(admin, f"page-{file_name(path)}", full=True)


PICTURES = {
    "migrations": ("migrations", 860),
    "migration": ("dags/orders_held", 1000),
    "batch": (f"batches/orders_held/{HELD}", 960),
}
"""What the docs show: the address, and how many pixels of its height."""

ELSEWHERE = """([folder, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(folder, shown);
  }
}"""
"""Shows a folder as another one: that of a test says nothing to readers of the docs."""


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_for_the_docs_show_whole_tables(visit, admin, showcase, name):
    """`make pictures` takes them along."""
    path, height = PICTURES[name]
    admin.emulate_media(color_scheme="light")
    admin.set_viewport_size({"width": 1280, "height": height})
    visit(path)
    admin.evaluate(ELSEWHERE, [str(showcase.folder), "/srv/waybill"])
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    admin.screenshot(path=SCREENSHOTS / f"docs-{name}.png", animations="disabled")
    assert cut(admin) == []


def test_the_list_is_whole_beside_airflow_s_menu(visit, admin):
    admin.set_viewport_size({"width": 1200, "height": 900})
    visit("migrations")
    assert cut(admin) == []


def test_the_page_that_asks_for_the_login_has_the_style_sheet(server, tab):
    page = tab()
    for width in WIDTHS:
        resize(page, width)
        answer = page.goto(f"{server.base_url}/waybill/migrations")
        assert answer.status == 401
        assert page.evaluate("() => document.styleSheets[0].cssRules.length") > 0
        assert barriers(page) == []
        assert overhang(page) <= 0
    photograph(page, "page-login")


@pytest.mark.parametrize("path", REPORTS)
def test_everybody_can_use_a_report_too(visit, admin, tab, path):
    watch = visit(path)
    photograph(admin, f"page-{file_name(path)}", full=True)
    assert watch.faults == []
    content = admin.request.get(admin.url).text()
    for width in WIDTHS:
        for scheme in SCHEMES:
            copy = tab(color_scheme=scheme)
            resize(copy, width)
            copy.set_content(content)
            assert barriers(copy) == [], (width, scheme)
            assert overhang(copy) <= 0, f"the page scrolls sideways at {width}"
            copy.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "path",
    [
        "migrations",
        "dags/orders_held",
        f"batches/orders_held/{HELD}",
        f"gate/orders_held/{HELD}",
        "quarantine/orders",
        message(0),
        f"rows/orders?{ROW}",
        "formats?source=canal&target=maxwell",
    ],
)
def test_the_keyboard_comes_to_every_control_and_shows_where_it_is(visit, admin, path, width):
    resize(admin, width)
    visit(path)
    controls, reached, blind = tabbed(admin)
    assert reached == controls, "in the order of the page"
    assert blind == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_form_can_be_used_by_keyboard(visit, admin, width):
    resize(admin, width)
    visit("dags/orders_held")
    button = admin.get_by_role("button", name="Open the form, filled in").first
    button.focus()
    admin.keyboard.press("Enter")
    dialog = admin.get_by_role("dialog", name="Start a run of orders_held")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_label("Drop the held batch")).to_be_checked()
    assert barriers(admin) == []
    assert overhang(admin) <= 0
    photograph(admin, "form")
    admin.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()


@pytest.mark.parametrize(
    "path",
    [
        "dags/names_hostile",
        f"batches/names_hostile/{HELD}",
        f"gate/names_hostile/{HELD}",
        "quarantine/orders",
        message(4),
        f"rows/orders?{ROW}",
        f"rows/orders?{urlencode({'table': HOSTILE, 'key': HOSTILE})}",
        "verifications/orders",
    ],
)
def test_hostile_names_and_values_are_text(visit, admin, path):
    watch = visit(path)
    expect(admin.get_by_text("<script>alert").first).to_be_visible()
    assert watch.faults == []
    assert admin.locator("[href^='javascript' i], [src^='javascript' i]").count() == 0


def test_names_that_look_like_addresses_or_turn_text_around_are_text(visit, admin):
    watch = visit("quarantine/orders?kind=shape&batch=b-1")
    row = admin.get_by_role("row").filter(has_text="javascript:")
    link = row.get_by_role("link").filter(has_text="javascript:")
    assert "unicode-bidi: isolate" in link.evaluate(
        "(one) => `unicode-bidi: ${getComputedStyle(one).unicodeBidi}`"
    ), "marks in a name turn nothing around that stands beside it"
    link.click()
    # The page before has the same heading.
    expect(admin.get_by_text("of table")).to_be_visible()
    expect(admin.get_by_role("row")).to_have_count(2)
    visit(message(5))
    # In a message such marks are shown as what they are.
    expect(admin.get_by_text("\\u202e\\u2066gnp.exe").first).to_be_visible()
    assert watch.faults == []
