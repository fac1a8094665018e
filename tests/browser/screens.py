"""What a page looks like and says in a browser: pictures of it, what it runs, who can use it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.sync_api import TimeoutError

from tests.browser.conftest import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Frame, Page, Request

SCREENSHOTS = PROJECT / ".waybill" / "screenshots"
"""For people to look at; made anew by each run of the tests."""

WIDTHS = {1280: 900, 390: 844}
"""Widths of the screens, a desk's and a telephone's, and their heights."""

IN_A_FRAME = 318
"""What Airflow's frame leaves of the second of them."""

SCHEMES = ("light", "dark")

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")

WORST = ("serious", "critical")


def resize(page: Page, width: int) -> None:
    """Make the window as wide, in pixels."""
    page.set_viewport_size({"width": width, "height": WIDTHS.get(width, WIDTHS[390])})


def photograph(
    page: Page, name: str, full: bool = False, widths: Collection[int] = tuple(WIDTHS)
) -> None:
    """Keep pictures of what is shown, light and dark.

    Args:
        page: the page; it is left as wide as it was.
        name: of the pictures.
        full: whether all of the page, not only what fits on the screen.
        widths: of the window, one after the other.
    """
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    for width in widths:
        resize(page, width)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            place = SCREENSHOTS / f"{name}-{width}-{scheme}.png"
            page.screenshot(path=place, full_page=full, animations="disabled")
    page.emulate_media(color_scheme="light")
    if before is not None:
        page.set_viewport_size(before)


class Watch:
    """Notes what a page does that ours must not do.

    Attributes:
        faults: errors on the console, those about the policy among them, that scripts have thrown,
            and dialogs that they have opened.
        hosts: where the page has loaded from.
    """

    def __init__(self, page: Page) -> None:
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"thrown: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        # That an answer was an error is what some pages are about.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        self.hosts.add(urlsplit(request.url).netloc)


def barriers(page: Page | Frame) -> list[str]:
    """What keeps some people from using a page, a line for each serious fault that axe-core finds.

    It is evaluated by the driver: the pages' own policy lets no script of others in.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['impact']} {rule['id']}: {node['html']} ({node['failureSummary']})"
        for rule in found["violations"]
        if rule["impact"] in WORST
        for node in rule["nodes"]
    ]


WIDER = """Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)
  - document.documentElement.clientWidth"""


def overhang(page: Page | Frame) -> int:
    """By how many pixels a page is wider than its window, so that it would scroll sideways."""
    # The page around a frame takes its time to give it another width.
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(f"() => {WIDER} <= 0", timeout=5000)
    width: int = page.evaluate(f"() => {WIDER}")
    return width


SIDEWAYS = """() => [...document.querySelectorAll('.wide:not(figure .wide)')]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute('aria-label'))"""


def cut(page: Page) -> list[str]:
    """Tables, but for those of charts, whose last columns are only seen after scrolling."""
    found: list[str] = page.evaluate(SIDEWAYS)
    return found


CONTROLS = """() => {
  const wanted = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  const all = [...document.querySelectorAll(wanted)];
  const shown = all.filter((one) => !one.disabled && one.checkVisibility());
  shown.forEach((one, at) => { one.dataset.control = at; });
  return shown.map((one) => one.outerHTML.slice(0, 120));
}"""

FOCUSED = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  return {
    at: one.dataset.control ?? null,
    html: one.outerHTML.slice(0, 120),
    outside: one === document.body || one === document.documentElement,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
  };
}"""


def tabbed(page: Page) -> tuple[list[str], list[str], list[str]]:
    """Go through a page with the tab key.

    Returns:
        The controls that are shown, those that the key came to, and those of them that did not show
        that they had the focus.
    """
    controls = page.evaluate(CONTROLS)
    reached, blind = [], []
    page.evaluate("() => document.activeElement.blur()")
    # Regions that scroll take the focus too, and may be as many as there are controls.
    for _ in range(2 * len(controls) + 2):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused["outside"] or (reached and focused["at"] == "0"):
            break  # behind the last one, or at the first one again
        if focused["at"] is not None:
            reached.append(controls[int(focused["at"])])
        if not focused["ring"]:
            blind.append(focused["html"])
    return controls, reached, blind


def file_name(path: str) -> str:
    """An address as the name of a picture."""
    return re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[:80]
