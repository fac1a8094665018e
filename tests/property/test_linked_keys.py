"""What the changes of some keys make of a table does not depend on other keys' changes.

This is what lets a reload make the rows of some keys anew: a group of keys that no change of the
key leads out of is a table of its own, beside the statements that all of them share.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.property.merge_histories import COLUMNS, history, misfit
from waybill.convert.linked_keys import groups
from waybill.merge.rules import STATEMENTS, Table


def mapped(change):
    """The change as another mapping makes it: it masks `t`."""
    image = change.image
    if change.operation in STATEMENTS or image is None or image.get("t") is None:
        return change
    return change._replace(image={**image, "t": f"#{image['t']}"})


def rows_of(changes):
    table = Table(COLUMNS, misfit)
    table.apply(changes)
    return table.rows


@settings(max_examples=cases(300), deadline=None)
@given(st.data())
def test_groups_of_keys_are_tables_of_their_own(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    source = history(choose, data.draw(st.integers(0, 30)), keys=7)
    rows = [change for change in source.changes if change.operation not in STATEMENTS]
    moves = [(change.key, change.old_key) for change in rows if change.old_key is not None]
    every = groups({change.key for change in rows}, moves)
    anew = frozenset().union(*(group for group in every if choose(2)))
    mixed = rows_of([mapped(c) if c.key in anew else c for c in source.changes])
    old, new = rows_of(source.changes), rows_of(map(mapped, source.changes))
    for key in old.keys() | new.keys() | mixed.keys():
        wanted = new if key in anew else old
        assert mixed.get(key) == wanted.get(key)
