"""What pages leave loaded is not walked through by Python's collector again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def frozen() -> Iterator[None]:
    """Nothing is permanent before, nor after."""
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_the_first_answer_of_a_route_leaves_nothing_for_the_collector(client, frozen):
    assert client.get("/formats").status_code == 200
    first = gc.get_freeze_count()
    assert first > 0
    assert client.get("/formats").status_code == 200
    assert gc.get_freeze_count() <= first, "only the first answer"
    assert client.get("/migrations").status_code == 200
    assert gc.get_freeze_count() > first, "this one has loaded more"


def test_an_address_without_a_route_leaves_all_as_it_is(client, frozen):
    assert client.get("/nowhere").status_code == 404
    assert gc.get_freeze_count() == 0
