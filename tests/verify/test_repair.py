"""What differs is repaired by a reload of the rows that do, and of no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify.live import run
from tests.verify.postgres_feed import PostgresFeed
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.merge.columns import BATCH
from waybill.merge.columns import KEY as LAKE_KEY
from waybill.verify import results
from waybill.verify.run import Asked, run_verify

KEY = {"tables": {"*": {"key": ["id"]}}}
MASK = [{"tables": ["waybill.*typed"], "columns": {"mask": {"title": "sha256"}}}]
TABLE = "waybill.public.typed"


@pytest.fixture
def feed(postgres, connect, tmp_path: Path) -> Iterator[PostgresFeed]:
    connect("postgres", postgres)
    made = PostgresFeed(postgres, tmp_path / "in")
    yield made
    made.close()


@pytest.fixture
def unmasked(spark, migration, feed, tmp_path) -> tuple[Any, Any]:
    """A lake that has three rows from before a column was masked, one of them with two changes."""
    publish = [{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}]
    before = migration("debezium-json", **KEY, publish=publish)
    feed.insert(1, 2, 3)
    feed.update(2, small="7")
    run(spark, before, feed)
    spec = migration("debezium-json", **KEY, publish=publish, map=MASK, verify={"lag": "0s"})
    feed.insert(4, 6)
    # Its newest change is masked by now.
    feed.update(3, small="8")
    return spec, run(spark, spec, feed)


def reload(spec: Any, spark: Any, **given: Any) -> Any:
    return run_migration(spec, spark=spark, mode="reload", tables=[TABLE], **given)


def test_only_the_rows_that_differ_come_again(spark, feed, unmasked):
    spec, lake = unmasked
    run_verify(spec, lake)
    run(spark, spec, feed)
    (result,) = run_verify(spec, lake)
    assert sorted(found.key["id"] for found in result.differences) == ["1", "2"]
    waybill = reload(spec, spark, batch="repair", differing=True)
    convert = waybill.stage("convert")
    assert (waybill.stage("snapshot").rows_out, convert.rows_out) == (0, 3)
    rows = lake.read(lake.merged(TABLE)).where(f"{BATCH} = 'repair'")
    assert {row[0] for row in rows.select(LAKE_KEY).collect()} == {'{"id":"1"}', '{"id":"2"}'}
    (result,) = run_verify(spec, lake)
    assert (result.in_lake, result.differing, result.undecided) == (5, 0, 0), result
    with pytest.raises(ConfigurationError, match=r"no row of .* is known to differ"):
        reload(spec, spark, differing=True)


def test_what_cannot_be_chosen_by_keys_is_said(spark, feed, unmasked, monkeypatch):
    spec, lake = unmasked
    with pytest.raises(ConfigurationError, match=r"no row of .* is known to differ"):
        reload(spec, spark, differing=True)
    run_verify(spec, lake)
    run(spark, spec, feed)
    monkeypatch.setattr(results, "KEPT", 1)
    run_verify(spec, lake, Asked(method="full"))
    with pytest.raises(ConfigurationError, match=r"2 rows of .* differ, and .* the keys of 1"):
        reload(spec, spark, differing=True)
    with pytest.raises(ConfigurationError, match="add --reload TABLE"):
        run_migration(spec, spark=spark, differing=True)
