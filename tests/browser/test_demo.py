"""What a person does with the demo in a browser, from the login to the history of a row.

One demo for all of it, that of the command's tests (`tests/e2e`) where they run before. Each test
acts on a migration that no other changes, but for the first, which looks at all of them before.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Frame, FrameLocator, Locator, Page, expect

from tests.browser.conftest import PROJECT
from tests.browser.screens import Watch, barriers, overhang, photograph, resize
from waybill_airflow.web.condition import UNREADABLE, WORST_FIRST

if TYPE_CHECKING:
    from tests.demo_process import Moved

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.timeout(1500),
]

SOON = 300_000
"""Milliseconds in which Spark has done the stages of a batch, also on a busy machine."""

expect.set_options(timeout=30_000)


class Demo:
    """The running demo: where it says that one shall look, and how to log in."""

    def __init__(self, moved: Moved) -> None:
        self.address, self.user, self.password = moved.login()
        self.url = self.address.partition("/plugin")[0]


@pytest.fixture(scope="module")
def demo(moved_demo):
    return Demo(moved_demo)


@pytest.fixture(scope="module")
def seen(demo, tab):
    """The page that a person gets who follows the demo's address and logs in."""
    page = tab(viewport={"width": 1280, "height": 900})
    page.goto(demo.address)
    expect(page.get_by_label("Username")).to_be_visible()
    photograph(page, "demo-login")
    page.get_by_label("Username").fill(demo.user)
    page.get_by_label("Password").fill(demo.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/plugin/waybill/**")
    return page


@pytest.fixture
def ours(demo, seen) -> FrameLocator:
    """Our pages in Airflow's frame, at the list of migrations."""
    resize(seen, 1280)
    seen.goto(demo.address)
    frame = seen.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Migrations")).to_be_visible()
    return frame


def row(ours: FrameLocator, name: str) -> Locator:
    return ours.get_by_role("row").filter(has=ours.get_by_role("link", name=name, exact=True))


def arrives(ours: FrameLocator, heading: str | re.Pattern[str]) -> None:
    """Wait for a page by its first heading, which the one before does not have."""
    expect(ours.get_by_role("heading", name=heading, level=1)).to_be_visible()


def follow(ours: FrameLocator, name: str) -> None:
    """From the list to the page of a migration."""
    ours.get_by_role("link", name=name, exact=True).click()
    arrives(ours, re.compile(rf"^{name} "))


def our_frame(page: Page) -> Frame:
    """The frame of our pages inside Airflow's."""
    return next(frame for frame in page.frames if "/waybill/" in frame.url and frame.parent_frame)


def reload_until(page: Page, ours: FrameLocator, wanted: str | Locator) -> None:
    """Look at our page again until it says or has something; it does not change by itself.

    Airflow's page around it stays: a browser and Airflow need seconds of a processor to load it.
    """
    found = ours.get_by_text(wanted) if isinstance(wanted, str) else wanted
    frame = our_frame(page)
    limit = time.monotonic() + SOON / 1000
    while not found.count():
        assert time.monotonic() < limit, ours.locator("body").inner_text()
        page.wait_for_timeout(2000)
        frame.goto(frame.url.partition("#")[0])
        expect(ours.locator("main")).to_be_visible()


def fine(page: Page, name: str) -> None:
    """What holds for every page of ours in Airflow's frame."""
    frame = our_frame(page)
    for width in (1280, 390):
        resize(page, width)
        assert barriers(frame) == [], width
        assert overhang(frame) <= 0, width
    photograph(page, f"demo-{name}", widths=(1280,))
    # At the other width Airflow's panels leave no room for the frame.
    alone = page.context.new_page()
    alone.goto(frame.url)
    photograph(alone, f"demo-{name}", widths=(390,))
    alone.close()


def test_the_demo_opens_on_the_migrations_in_every_state(seen, ours):
    for name, state in {
        "recorded_reviewed": "held",
        "stock_fails": "failing",
        "stock_waits": "table waits",
        "shop": "refusing",
        "shop_by_hand": "never ran",
        "recorded_canal": "fine",
    }.items():
        expect(row(ours, name).locator(".state")).to_have_text(state)
    broken = ours.locator(".broken li")
    expect(broken.locator(".state")).to_have_text("file broken")
    place = re.compile(r"stock_broken\.yaml:\d+: publish\[0\]\.envelope")
    expect(broken).to_contain_text(place)
    reload_until(seen, ours, row(ours, "shop_late").locator(".state.late"))
    words = set(ours.locator(".state").all_inner_texts())
    assert words == set(WORST_FIRST) - {UNREADABLE}, "the demo's lake can be read"
    fine(seen, "migrations")


def test_what_fails_and_what_waits_say_what_can_be_done(demo, seen, ours):
    follow(ours, "stock_fails")
    expect(ours.get_by_text("The last run failed.")).to_be_visible()
    why = ours.get_by_text("The stage merge of batch")
    expect(why).to_contain_text(": column counted of shop.stock ")
    expect(ours.get_by_text("WB-4004, “The type of a column changed”")).to_be_visible()
    expect(ours.get_by_role("link", name="The failed run")).to_be_visible()
    fine(seen, "failing")
    resize(seen, 1280)
    seen.goto(demo.address)
    follow(ours, "stock_waits")
    said = ours.get_by_text("The table shop.stock waits for a decision since batch")
    expect(said).to_contain_text("WB-4004")
    expect(said).to_contain_text("set `retype: rewrite` for shop.stock")
    expect(said).to_contain_text("All others continue.")
    fine(seen, "waits")


def test_a_run_is_started_from_a_button_and_watched(seen, ours):
    watch = Watch(seen)
    resize(seen, 390)
    follow(ours, "shop_by_hand")
    ours.get_by_role("button", name="Open the form, filled in").first.click()
    form = ours.get_by_role("dialog", name="Start a run of shop_by_hand")
    expect(form.get_by_label("Mode")).to_have_value("incremental")
    photograph(seen, "demo-form")
    form.get_by_role("button", name="Start the run").click()
    expect(form.get_by_role("status")).to_contain_text(re.compile(r"The run manual__\S+ is queued"))
    # The frame may not leave Airflow's document, whose address this changes.
    form.get_by_role("link", name="See it in Airflow").click()
    seen.wait_for_url("**/dags/shop_by_hand/runs/manual__*")
    assert watch.faults == []
    resize(seen, 1280)
    seen.get_by_role("link", name="Waybill", exact=True).click()
    # Airflow's own page has no frame of ours.
    expect(ours.locator("main")).to_be_visible()
    reload_until(seen, ours, "The gate let it pass.")
    fine(seen, "run")


def test_a_held_batch_is_published_because_a_person_says_so(demo, seen, ours):
    follow(ours, "recorded_reviewed")
    expect(ours.get_by_text("the gate expects").first).to_contain_text("never below zero")
    fine(seen, "held")
    resize(seen, 1280)
    ours.get_by_role("link", name="Gate report").first.click()
    arrives(ours, re.compile("^Gate report of "))
    expect(ours.get_by_text("The quantity is never below zero").first).to_be_visible()
    fine(seen, "gate-report")
    resize(seen, 1280)

    seen.goto(f"{demo.url}/required_actions")
    seen.get_by_role("link", name="does not pass the gate").click()
    why = seen.locator("[name=element_why]")
    expect(why).to_be_visible()
    expect(seen.get_by_text("The quantity is never below zero")).to_be_visible()
    photograph(seen, "demo-question", widths=(1280,))
    why.fill("Goods that came back")
    with seen.expect_response(lambda answer: answer.request.method == "PATCH") as answered:
        seen.get_by_role("button", name="Publish as it is").click()
    assert answered.value.ok, answered.value.text()
    expect(seen.get_by_text("Success").first).to_be_visible(timeout=SOON)

    seen.goto(demo.address)
    follow(ours, "recorded_reviewed")
    reload_until(seen, ours, "All that was archived is published")
    ours.get_by_role("link", name=re.compile("-[0-9a-f]{6}$")).last.click()
    arrives(ours, re.compile("^[0-9T.]+-[0-9a-f]{6} "))
    expect(ours.get_by_text("Goods that came back")).to_be_visible()
    fine(seen, "approved")


def test_refused_messages_are_looked_at_and_tried_again(seen, ours):
    quarantine, message = "Refused messages of shop", re.compile(r"^shop\W\d+\W\d+$")
    follow(ours, "shop")
    ours.get_by_role("link", name="Refused messages").click()
    arrives(ours, quarantine)
    expect(ours.get_by_role("row")).to_have_count(1 + 3)
    fine(seen, "quarantine")
    resize(seen, 390)
    ours.get_by_role("row").filter(has_text="shape").get_by_role("link").first.click()
    arrives(ours, message)
    expect(ours.get_by_text("It was refused, and waits for another try.")).to_be_visible()
    expect(ours.get_by_text("seventy-seven").first).to_be_visible()
    fine(seen, "message")

    resize(seen, 390)
    ours.get_by_role("link", name="Quarantine").click()
    arrives(ours, quarantine)
    ours.get_by_role("button", name="Open the form, filled in").click()
    form = ours.get_by_role("dialog", name="Start a run of shop")
    expect(form.get_by_label("Mode")).to_have_value("replay")
    form.get_by_role("button", name="Start the run").click()
    expect(form.get_by_role("status")).to_contain_text("is queued")
    form.get_by_role("button", name="Close").click()
    ours.get_by_role("row").filter(has_text="shape").get_by_role("link").first.click()
    arrives(ours, message)
    reload_until(seen, ours, "It was refused in 2 batches, and still waits.")
    fine(seen, "replayed")


def changed_order() -> str:
    """The key of an order that the recording changes, as the source says it."""
    with gzip.open(PROJECT / "samples/canal_mariadb/messages.jsonl.gz", "rt") as lines:
        for line in lines:
            message = json.loads(line)
            of_orders = (message["table"], message["type"]) == ("orders", "UPDATE")
            if of_orders and "id" not in message["old"][0]:
                return str(message["data"][0]["id"])
    raise AssertionError("the recording changes no order")


def test_a_row_tells_its_history(seen, ours):
    key = changed_order()
    resize(seen, 390)
    follow(ours, "recorded_canal")
    ours.get_by_role("link", name="The changes of a row").click()
    arrives(ours, "The changes of a row")
    ours.get_by_label("Table").fill("shop.orders")
    ours.get_by_label("Key").fill(key)
    ours.get_by_role("button", name="Show the row and its changes").click()
    arrives(ours, f"shop.orders {key}")
    expect(ours.get_by_role("heading", name=re.compile("^insert"))).to_be_visible()
    expect(ours.locator("mark").first).to_be_visible()
    fine(seen, "row")
