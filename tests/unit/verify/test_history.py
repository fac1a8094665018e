"""Which differences have their history beside them, and what is said of the others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from waybill.overview.row_changes import RowChanges
from waybill.spec.migration import Migration
from waybill.verify import history
from waybill.verify.deciding import DIFFERS, Difference, Pending
from waybill.verify.results import TableResult

SPEC = Migration.model_validate(
    {
        "name": "shop",
        "source": {"files": {"path": "in"}, "envelope": "canal"},
        "lake": {"warehouse": "lake"},
    }
)


def result(differences: int, sentence: str = "") -> TableResult:
    seen = Pending("", "", 0, 0.0)
    found = [
        Difference(f'["{n}"]', {"id": str(n)}, DIFFERS, {}, (1, 1), seen)
        for n in range(differences)
    ]
    facts = ("shop.t", "full", 0, 0, differences, 0, None, None, "", None)
    return TableResult(*facts, sentence, found, {}, None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The keys of each look at the changes; a row has one change with its key as the offset."""
    looks: list[list[dict[str, Any]]] = []

    def changes(_: object, table: str, keys: list[dict[str, Any]], *__: object) -> list[RowChanges]:
        looks.append(keys)
        rows = [{"offset": int(key["id"]), "source_time": None} for key in keys]
        return [RowChanges([row], more=False) for row in rows]

    monkeypatch.setattr(history, "changes_of_rows", changes)
    return looks


def test_every_difference_has_its_history_from_one_look(asked):
    lake: Any = SimpleNamespace()
    (document,) = history.with_history(SPEC, lake, [result(1_000)])
    assert [found["history"][0]["offset"] for found in document["differences"]] == [*range(1_000)]
    assert document["sentence"] == ""
    assert len(asked) == 1


def test_how_many_have_none_is_said_and_where_it_is(asked):
    lake: Any = SimpleNamespace()
    (document,) = history.with_history(SPEC, lake, [result(1_234, "not compared: x")])
    without = [found for found in document["differences"] if "history" not in found]
    assert len(without) == 234
    sentence = document["sentence"]
    assert sentence.startswith("not compared: x; 234 differences are without their history: ")
    assert "changes" in sentence
    assert "--table shop.t --key KEY" in sentence


def test_that_retention_has_deleted_some_is_said(monkeypatch):
    since = "2026-11-20 06:00 UTC"

    def changes(_: object, __: str, keys: list[Any], *___: object) -> list[RowChanges]:
        return [RowChanges([], more=False, since=since) for _ in keys]

    monkeypatch.setattr(history, "changes_of_rows", changes)
    lake: Any = SimpleNamespace()
    found = [result(1, "not compared: x"), result(0)]
    sentences = [one["sentence"] for one in history.with_history(SPEC, lake, found)]
    deleted = f"retention has deleted changes of batches that ended before {since}"
    assert sentences == [f"not compared: x; {deleted}", ""]


def test_masked_values_are_not_shown_and_find_the_history_all_the_same(asked, monkeypatch):
    image = '{"id": "1", "note": "n", "phone": "0170", "former": null}'
    change = {"offset": 1, "source_time": None, "before": None, "after": image}
    looks = []

    def changes(_: object, __: str, keys: list[dict[str, Any]], *___: object) -> list[RowChanges]:
        looks.append(keys)
        return [RowChanges([dict(change)], more=False) for _ in keys]

    monkeypatch.setattr(history, "changes_of_rows", changes)
    one = result(2)._replace(shown=frozenset({"note"}))
    lake: Any = SimpleNamespace()
    (document,) = history.with_history(SPEC, lake, [one])
    assert looks == [[{"id": "0"}, {"id": "1"}]]
    for found in document["differences"]:
        assert found["key"] == {"id": "(masked)"}
        (told,) = found["history"]
        assert told["before"] is None
        expected = {"id": "(masked)", "note": "n", "phone": "(masked)", "former": None}
        assert json.loads(told["after"]) == expected
