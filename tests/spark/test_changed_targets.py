"""Targets that the file gives another mapping while what was written for them waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.line import Killed, kill
from tests.spark.test_bootstrap import FIRST, KEY, Place, insert
from waybill.convert.encode import Encoding
from waybill.errors import Code, ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.spark


@pytest.fixture
def here(spark: Any, migration: Any, tmp_path: Path) -> Place:
    return Place(spark, migration, tmp_path, tables={"shop.*": KEY})


def item(place: int, number: int) -> bytes:
    return insert(place, number, "i").replace(b"orders", b"items")


def test_messages_are_judged_by_the_target_that_they_were_written_for(here: Place) -> None:
    here.run("b1", insert(1, 1, "a"), item(2, 1), until="merge")
    here.targets = [{**FIRST, "select": {"exclude": "shop.items"}}]
    for batch, options in (("b1", {}), ("b2", {"drop_held": True})):
        with pytest.raises(ConfigurationError, match="batch b1 for the target first") as error:
            here.run(batch, **options)
        assert error.value.code is Code.TARGET_CHANGED
    # What a target begins with changes nothing for its messages.
    here.targets = [{**FIRST, "bootstrap": "tables"}]
    here.run("b3")
    here.targets = [{**FIRST, "select": {"exclude": "shop.items"}}]
    here.run("b4", insert(5, 5, "e"), item(6, 6))
    sent = [json.loads(message.value) for message in here.sent("first")]
    assert [(m["table"], m["data"][0]["id"]) for m in sent] == [
        ("orders", "1"),
        ("items", "1"),
        ("orders", "5"),
    ]


@pytest.mark.parametrize("again", ["b2", "b3"])
def test_a_target_that_changes_before_it_has_begun_begins_as_it_is_now(
    here: Place, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    here.run("b1", insert(1, 1, "a"), item(2, 2))
    here.add({"envelope": "maxwell", "select": {"include": "shop.orders"}})
    with monkeypatch.context() as patched:
        patched.setattr(Encoding, "begin", kill)
        with pytest.raises(Killed):
            here.run("b2", insert(3, 3, "c"))
    here.targets[-1]["select"] = {"include": "shop.*"}
    here.run(again)
    sent = [json.loads(message.value) for message in here.sent("maxwell")]
    assert [(m["table"], m["data"]["id"]) for m in sent] == [
        ("items", 2),
        ("orders", 1),
        ("orders", 3),
    ]
