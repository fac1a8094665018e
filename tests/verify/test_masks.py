"""Masked columns and keys: compared as they are masked."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify.live import run
from tests.verify.postgres_feed import PostgresFeed
from waybill.errors import ConfigurationError
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.newest import MASKED, SKIPPED, VERIFIED
from waybill.verify.outcomes import check_equal
from waybill.verify.run import VerifyRequest, run_verify

KEY = {"tables": {"*": {"key": ["id"]}}}
PEPPER = "a pepper that nobody knows"


@pytest.fixture
def feed(postgres, connect, tmp_path: Path, monkeypatch) -> Iterator[PostgresFeed]:
    connect("postgres", postgres)
    pepper = {"conn_type": "generic", "password": PEPPER}
    monkeypatch.setenv("AIRFLOW_CONN_PEPPER", json.dumps(pepper))
    made = PostgresFeed(postgres, tmp_path / "in")
    yield made
    made.close()


def masked(**masks: Any) -> dict[str, Any]:
    return {"map": [{"tables": ["waybill.*typed"], "columns": {"mask": masks}}], **KEY}


def test_every_mask_is_compared(spark, migration, feed):
    masks = {
        "title": {"hmac": "pepper"},
        "name": "sha256",
        "uid": "last4",
        "amount": {"text": "***"},
        "moment": None,
    }
    spec = migration("debezium-json", **masked(**masks), verify={"lag": "0s"})
    feed.insert(*range(1, 31))
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.differing, result.undecided) == (30, 0, 0), result
    assert result.sentence == ""
    feed.update(1, silent=True, title="'other'", name="'other'", uid="md5('other')::uuid")
    # Nobody can see these two: the masks make the same of every value but of none.
    feed.update(2, silent=True, amount="0", moment="now()")
    feed.update(3, silent=True, amount="NULL")
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    found = {d.key["id"]: d.columns for d in result.differences}
    both = (MASKED, MASKED)
    assert found == {
        "1": {"title": both, "name": both, "uid": both},
        "3": {"amount": (None, MASKED)},
    }
    assert PEPPER not in json.dumps(result.to_dict())


def test_what_the_lake_has_from_before_it_was_masked_is_found_and_not_shown(spark, migration, feed):
    feed.insert(1, 2)
    lake = run(spark, migration("debezium-json", **KEY), feed)
    spec = migration("debezium-json", **masked(title="sha256"), verify={"lag": "0s"})
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert [d.columns for d in result.differences] == [{"title": (MASKED, MASKED)}] * 2
    assert "Zeile" not in json.dumps(result.to_dict())


@pytest.mark.parametrize("mask", ["sha256", {"hmac": "pepper"}])
def test_a_masked_key(spark, migration, feed, mask):
    def hidden(number: int) -> str:
        text = str(number).encode()
        if mask == "sha256":
            return hashlib.sha256(text).hexdigest()
        return hmac.digest(PEPPER.encode(), text, "sha256").hex()

    spec = migration("debezium-json", **masked(id=mask), verify={"lag": "0s", "method": "changed"})
    feed.insert(*range(1, 21))
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.in_database, result.in_lake) == (20, 20)
    assert (result.differing, result.undecided) == (0, 0), result
    feed.update(3, silent=True, amount="amount + 1")
    feed.delete(4, silent=True)
    feed.insert(40, silent=True)
    feed.update(5, title="'told'")
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert (result.method, result.undecided) == ("full", 0), "masked keys cannot be looked up"
    assert {(d.key["id"], d.what) for d in result.differences} == {
        (hidden(3), DIFFERS),
        (hidden(4), MISSING_IN_DATABASE),
        (hidden(40), MISSING_IN_LAKE),
    }


def test_a_masked_key_whose_values_have_several_texts_is_skipped(spark, migration, feed):
    masks = masked(wall="sha256") | {"tables": {"*": {"key": ["wall"]}}}
    spec = migration("debezium-json", **masks)
    feed.insert(1, 2)
    lake = run(spark, spec, feed)
    result, counted = run_verify(spec, lake)
    assert (result.outcome, result.undecided) == (SKIPPED, 2)
    assert "map masks its key" in result.sentence
    assert (counted.method, counted.in_database, counted.differing) == ("counts", 2, 0)
    check_equal(spec, [result, counted])
    (counted,) = run_verify(spec, lake, VerifyRequest(method="counts"))
    assert (counted.outcome, counted.in_lake) == (VERIFIED, 2)


def test_the_key_of_a_mask_has_to_be_there(spark, migration, feed, monkeypatch):
    spec = migration("debezium-json", **masked(title={"hmac": "pepper"}))
    feed.insert(1)
    lake = run(spark, spec, feed)
    monkeypatch.delenv("AIRFLOW_CONN_PEPPER")
    with pytest.raises(ConfigurationError, match="pepper"):
        run_verify(spec, lake)


def test_a_condition_is_asked_with_the_declared_type(spark, migration, feed):
    rule = {"tables": ["waybill.*typed"], "where": "small >= '-1'"}
    declared = {"*": {"key": ["id"], "columns": {"small": "string"}}}
    spec = migration("debezium-json", tables=declared, map=[rule])
    feed.insert(1, 2)
    lake = run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    # As texts, -14999 comes behind -1.
    assert (result.in_database, result.in_lake) == (2, 2), result
    assert (result.differing, result.undecided) == (0, 0), result
