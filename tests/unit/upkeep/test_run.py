"""What the upkeep says of a merged table that has a key twice."""

from __future__ import annotations

from typing import Any

from waybill.errors import Code
from waybill.spec.migration import Migration
from waybill.upkeep import run
from waybill.validate.table_profiles import Staged


def test_the_key_that_is_there_twice_stands_in_the_log_alone(monkeypatch):
    monkeypatch.setattr(run, "example_of_table", lambda *_given: "'secret@example.org'")
    source = {"files": {"path": "in"}, "envelope": "canal"}
    fields = {"name": "m", "source": source, "lake": {"warehouse": "lake"}}
    spec = Migration.model_validate(fields)
    people: Any = Staged("shop.people", lambda: None, None)
    error = run._keys_twice(spec, people, 2)
    assert error.code is Code.KEY_TWICE
    assert "2 rows of shop.people have the key of another row (the log names one)" in error.sentence
    assert "secret" not in error.sentence
    assert "e.g. 'secret@example.org'" in str(error)
    assert "1 row of shop.people has" in run._keys_twice(spec, people, 1).sentence
