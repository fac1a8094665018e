"""What is lost between formats, as the page says it."""

from __future__ import annotations

from itertools import product

import pytest

from tests.dags.asking import (
    read,
)
from tests.dags.showcase import HOSTILE
from waybill.envelopes import registry
from waybill_airflow.web.formats_view import formats_view
from waybill_airflow.web.rendering import page

pytestmark = pytest.mark.airflow


def test_two_formats_show_what_is_lost_and_why(client):
    page = read(client, "/formats?source=debezium-json&target=canal")
    lost = registry.get("debezium-json").losses_to(registry.get("canal"), {})
    assert lost
    for name, why in lost.items():
        assert name.replace("_", " ") in page.text
        assert " ".join(why.split()) in page.text
    assert "waybill envelopes debezium-json" in page.text


@pytest.mark.parametrize("asked", ["", "?source=nothing&target=canal", f"?source={HOSTILE}"])
def test_formats_that_are_none_are_not_chosen(client, asked):
    page = read(client, f"/formats{asked}")
    assert "What a conversion loses" in page.text
    options = [attrs for tag, attrs in page.tags if tag == "option"]
    assert len(options) == 2 * len(registry.all_envelopes())


def test_every_pair_has_its_page():
    names = [envelope.name for envelope in registry.all_envelopes()]
    for source, target in product(names, names):
        text = page("formats", view=formats_view(source, target))
        assert f"<h1>From {source} to {target}</h1>" in text
