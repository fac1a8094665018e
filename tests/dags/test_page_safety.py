"""Nothing on the pages runs, and nothing is loaded from anywhere else."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest

from tests.dags.asking import (
    HELD,
    PAGES,
    Read,
    held,
    read,
)
from tests.dags.showcase import HOSTILE, Showcase, tampered
from waybill.spec.file import load_migration

pytestmark = pytest.mark.airflow


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
    showcase.with_lake("orders", held, batches=1)
    spec = load_migration(showcase.migrations / "orders.yaml")
    tampered(spec, held_rules=[{"rule": HOSTILE, "waivable": True}], decided=HOSTILE)
    (showcase.migrations / "bad.yaml").write_text(f"name: {json.dumps(HOSTILE)}\n")
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    for path in ("/migrations", "/dags/orders"):
        page = read(client, path)
        assert HOSTILE in " ".join(page.words) or path == "/migrations"
        _is_tame(page)


OURS = ("frame.js", "trigger.js", "again.js")


def _is_tame(page: Read) -> None:
    """Nothing on the page runs, but for our scripts."""
    scripts = [attrs["src"] for tag, attrs in page.tags if tag == "script"]
    first, *others = OURS
    assert scripts.pop(0) == f"/waybill/static/{first}"
    assert scripts in ([], *([f"/waybill/static/{name}"] for name in others))
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
    assert policy["style-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_the_style_sheet_and_the_script_load_nothing(client):
    for name in ("waybill.css", *OURS):
        text = client.get(f"/static/{name}").text
        assert "url(" not in text
        assert "@import" not in text
        assert "http" not in text
