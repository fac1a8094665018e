"""Which batches `retention` may take, as far as it can be said without reading rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waybill.lake_columns import BEFORE_BATCH
from waybill.spec.migration import Migration
from waybill.upkeep.old_changes import PLACED_FILES
from waybill.upkeep.retention import (
    AT_ONCE,
    LOGS,
    _several,
    _time_of,
    delete_batches,
    delete_messages,
)


def spec(layout: str = "lines") -> Migration:
    source = {"files": {"path": "in", "layout": layout, "topic": "t"}, "envelope": "canal"}
    fields = {"name": "m", "source": source, "lake": {"warehouse": "lake"}}
    return Migration.model_validate(fields)


@pytest.mark.parametrize(
    ("published", "there", "head"),
    [(None, True, 1), (object(), False, None), (object(), True, None)],
    ids=["nothing was published", "no table", "an empty table"],
)
def test_nothing_goes_before_something_was_published(published, there, head):
    lake: Any = SimpleNamespace(
        log=lambda name: f"lake.waybill.{name}",
        last=lambda _table, _stage: published,
        exists=lambda _table: there,
        head=lambda _table: head,
    )
    assert delete_messages(spec(), lake, "archive", 10**15) == (0, None)


@pytest.mark.parametrize("name", LOGS)
def test_a_lake_of_young_batches_is_not_even_opened(name):
    assert delete_batches(spec(), None, LOGS[name], {"b1": 10, "b2": 11}, 10) == (0, None)


@pytest.mark.parametrize("layout", ["kcat", "parquet"])
def test_changes_from_files_with_offsets_of_their_own_stay(layout):
    """A file that comes late may bring lower ones."""
    lake: Any = SimpleNamespace(log=lambda name: name)
    assert delete_batches(spec(layout), lake, LOGS["changes"], {"b": 1}, 2) == (0, PLACED_FILES)


def test_what_a_target_began_with_is_as_old_as_the_batch_behind_it():
    ages = {"b1": 10, "b2": 20}
    assert _time_of("b2", ages) == 20
    assert _time_of(f"b1{BEFORE_BATCH}", ages) == 10
    assert _time_of(f"new-b2{BEFORE_BATCH}", ages) == 20
    assert _time_of(f"b3{BEFORE_BATCH}", ages) is None
    assert _time_of("b3", ages) is None, "nobody can tell, so it stays"


def test_no_statement_names_more_batches_than_iceberg_compares():
    batches = [f"b{n}" for n in range(2 * AT_ONCE + 1)]
    parts = list(_several(batches))
    assert [len(part) for part in parts] == [AT_ONCE, AT_ONCE, 1]
    assert [batch for part in parts for batch in part] == batches
