"""Every example of a migration on the pages of the envelopes is one that Waybill takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from waybill.envelopes import registry
from waybill.spec.file import SpecificationError, load_migration

PAGES = sorted((Path(__file__).resolve().parents[3] / "docs" / "envelopes").glob("*.md"))
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENVELOPE = re.compile(r"`([a-z0-9-]+)`")
REST = {
    "name": "shop",
    "source": {"files": {"path": "/data/in", "layout": "lines"}, "envelope": "canal"},
    "publish": [{"envelope": "canal", "files": {"path": "/data/out", "layout": "lines"}}],
}
"""What an example leaves to the rest of the migration."""

EXAMPLES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]


def loaded(folder: Path, text: str) -> None:
    file = folder / "migration.yaml"
    file.write_text(yaml.safe_dump({**REST, **yaml.safe_load(text)}), encoding="utf-8")
    load_migration(file)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_a_migration(tmp_path, text):
    loaded(tmp_path, text)


def test_a_stale_example_is_found(tmp_path):
    text = "source: {files: {path: /x, layout: lines}, envelope: canal, settings: {time_zone: UTC}}"
    with pytest.raises(SpecificationError, match="time_zone"):
        loaded(tmp_path, text)


def test_each_page_has_an_example_and_each_envelope_a_page():
    assert len(EXAMPLES) >= len(PAGES)
    titles = [page.read_text(encoding="utf-8").partition("\n")[0] for page in PAGES]
    named = {name for title in titles for name in ENVELOPE.findall(title)}
    assert named == set(registry.names())
