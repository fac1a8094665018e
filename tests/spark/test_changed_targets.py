"""Targets that the file gives another mapping while what was written for them waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.line import Killed, kill
from tests.spark.test_bootstrap import FIRST, KEY, Place, canal, insert
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


@pytest.mark.parametrize("begins", ["tables", "archive"])
def test_a_target_that_starts_over_gets_nothing_of_what_it_refused_before(
    spark: Any, migration: Any, tmp_path: Path, begins: str
) -> None:
    def change(number: int, kind: str, f: str, old: dict[str, str] | None = None) -> bytes:
        types = {"mysqlType": {"id": "bigint", "f": "double"}, "sqlType": {"id": -5, "f": 8}}
        return json.dumps(
            {**json.loads(canal(number, kind, {"id": "1", "f": f}, old)), **types}
        ).encode()

    fields = {"order": {"ambiguous": "partition"}, "quality": {"max_refused_share": 1}}
    here = Place(spark, migration, tmp_path, envelope="canal", tables={}, **fields)
    out = {"envelope": "oms-default", "name": "out"}
    here.targets = [FIRST, out]
    waybill = here.run("b1", change(1, "INSERT", "NaN"))
    assert waybill.stage("convert").details["targets"]["out"]["refused"] == {"encoding": 1}
    here.targets = [FIRST]
    here.run("b2", change(2, "UPDATE", "1.5", {"f": "NaN"}))
    here.targets = [FIRST, {"envelope": "debezium-json", "name": "out", "bootstrap": begins}]
    here.run("b3")
    begun = [json.loads(message.value)["after"]["f"] for message in here.sent("out")]
    here.run("b4", mode="replay")
    assert [json.loads(m.value)["after"]["f"] for m in here.sent("out")] == begun
    assert begun[-1] == 1.5


def test_ids_of_what_a_target_begins_with_are_judged_as_they_were_written(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.fields |= {"envelope": "canal", "tables": {}}
    here.run("b1", canal(1, "INSERT", {"id": "1", "v": "a"}))
    here.add({"envelope": "oms-default", "settings": {"sequence_start": 1_500_000_000}})
    with monkeypatch.context() as patched:
        patched.setattr("waybill.convert.stage._encode", kill)
        with pytest.raises(Killed):
            here.run("b2")
    here.targets[-1]["settings"] = {"sequence_start": 1_600_000_000}
    here.run("b3")
    assert len(here.sent("oms-default")) == 1
