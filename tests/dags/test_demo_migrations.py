"""Which migrations the demo runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from waybill.errors import ConfigurationError
from waybill_airflow.demo import _migrations

pytestmark = pytest.mark.airflow

GOOD = "name: shop\ntags: [demo]\nsource: {files: {path: in}, envelope: canal}\n"


def test_a_broken_file_does_not_stop_the_demo(tmp_path, monkeypatch):
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(tmp_path))
    (tmp_path / "broken.yaml").write_text("name: [\n")
    said: list[str] = []
    view = SimpleNamespace(says=said.append)
    with pytest.raises(ConfigurationError, match="has the tag demo"):
        _migrations(view)
    (tmp_path / "shop.yaml").write_text(GOOD)
    said.clear()
    by_hand = GOOD.replace("shop", "stock").replace("[demo]", "[demo-by-hand]")
    (tmp_path / "stock.yaml").write_text(by_hand)
    run, left = _migrations(view)
    assert ([spec.name for _, spec in run], left) == (["shop"], ["stock"])
    (sentence,) = said
    assert sentence.startswith(f"left out: {tmp_path / 'broken.yaml'}:")
