"""Mapped changes of a table without a key give the mapped rows of an imaginary database."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.histories import by_name, image
from tests.property.bag_histories import Heap, dealt, plain
from waybill.errors import ConfigurationError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import Added, MappingRule, Mask, Rules
from waybill.mapping.table import ChangeContext, MappedTable
from waybill.merge.rules import STATEMENTS, Change, bag
from waybill.records import Column, intern_schema
from waybill.types import STRING

HEAP = intern_schema(
    "shop", None, "heap", tuple(Column(name, STRING) for name in ("a", "b", "tier")), ()
)
TAKEN = (
    {"masks": {"b": Mask("sha256")}, "rename": {"a": "c"}},
    {
        "masks": {"*a": Mask("hmac", "k")},
        "add": {"of": Added("table"), "x": Added("constant", "1")},
    },
)
REFUSED: tuple[dict[str, Any], ...] = (
    {"add": {"how": Added("operation")}},
    {"add": {"at": Added("source_time")}},
    {"drop": ("b",)},
    {"masks": {"b": Mask("text", "x")}},
)


def mapped_row(mapped: MappedTable, row: Any, operation: str, now: bool, time: int = 0) -> Any:
    if row is None:
        return None
    made = mapped.image(image(HEAP, **row), ChangeContext(operation, time, (1,)), now)
    return by_name(mapped.schema, made)


def mapped_change(mapped: MappedTable, change: Change) -> Change:
    """A change as the mapping makes it; statements are about a column that it leaves as it is."""
    if change.operation in STATEMENTS:
        return change
    before, after, time = change.before, change.image, change.place[2]
    names = set(mapped.schema.names)
    return change._replace(
        columns=frozenset(names if "tier" in (change.columns or ()) else names - {"tier"}),
        image=mapped_row(mapped, after, change.operation, True, time),
        before=mapped_row(mapped, before, change.operation, after is None, time),
    )


@settings(max_examples=cases(100), deadline=None)
@given(st.data(), st.sampled_from(TAKEN))
def test_what_is_taken_gives_the_source_s_rows(data, more):
    def choose(n):
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    mapped = ChangeMapper(Rules(of_tables=(MappingRule(("*",), **more),)), bags="id").of(HEAP)
    assert mapped is not None
    source = Heap(choose)
    source.run(choose(20))
    sent = [mapped_change(mapped, c) for part in dealt(choose, source, 3) for c in part]
    rows = (mapped_row(mapped, row, "read", True) for row in source.rows)
    assert bag(sent) == Counter(plain(row) for row in rows)


@pytest.mark.parametrize("more", REFUSED)
def test_what_is_refused_would_not(more):
    """Two rows of one transaction, of which the first is deleted again."""
    rules = Rules(of_tables=(MappingRule(("*",), **more),))
    with pytest.raises(ConfigurationError, match="has no key"):
        ChangeMapper(rules, bags="id").of(HEAP)
    mapped = ChangeMapper(rules).of(HEAP)
    assert mapped is not None
    source = Heap(lambda n: 0)
    one, two = {"a": "1", "b": "x"}, {"a": "1", "b": "y"}
    source._log("insert", one, number=5)
    source._log("insert", two, number=5)
    source._log("delete", None, one, number=6)
    assert bag(source.changes) == Counter({plain(two): 1})
    made = bag([mapped_change(mapped, change) for change in source.changes])
    assert made != Counter({plain(mapped_row(mapped, two, "insert", True)): 1})
