"""The rules of the merge against an imaginary database that knows its own rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.property.merge_histories import COLUMNS, delivered, history, misfit
from waybill.merge.rules import Counts, Table, fold


def drawn(data):
    return lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0


@settings(max_examples=cases(300, nightly=10_000), deadline=None)
@given(st.data())
def test_any_split_order_and_duplication_gives_the_source_s_rows(data):
    choose = drawn(data)
    partitions = data.draw(st.sampled_from([1, 2, 5]))
    steps = data.draw(st.integers(0, 25))
    source = history(choose, steps, partitions=partitions, wanders=data.draw(st.booleans()))
    table = Table(COLUMNS, misfit)
    for batch in delivered(choose, source.changes):
        counts = table.apply(batch)
        assert counts.came + counts.second == counts.out + counts.superseded + counts.refused
        assert min(counts) >= 0
    assert table.live() == source.truth


@settings(max_examples=cases(300, nightly=10_000), deadline=None)
@given(st.data())
def test_columns_with_other_names_are_the_same_columns(data):
    """In any split, order and duplication; names are swapped, given back, and given to new ones."""
    choose = drawn(data)
    partitions = data.draw(st.sampled_from([1, 2, 5]))
    steps = data.draw(st.integers(0, 25))
    source = history(choose, steps, partitions=partitions, renames=True)
    n = source.names.get("n", "n")
    columns = [source.names.get(name, name) for name in COLUMNS]
    table = Table(columns, lambda image: misfit({"n": image.get(n)}))
    for batch in delivered(choose, source.changes):
        counts = table.apply(batch)
        assert counts.came + counts.second == counts.out + counts.superseded + counts.refused
        assert min(counts) >= 0
    assert table.live() == source.truth


@settings(max_examples=cases(100, nightly=2_000), deadline=None)
@given(st.data())
def test_statements_without_ids_take_what_was_before_them_however_late(data):
    choose = drawn(data)
    steps = data.draw(st.integers(0, 25))
    source = history(choose, steps, unnumbered=True, partitions=1)
    table = Table(COLUMNS, misfit)
    for batch in delivered(choose, source.changes, twice=False):
        truncated = table.truncated
        counts = table.apply(batch)
        assert counts.came + counts.second == counts.out + counts.superseded + counts.refused
        assert min(counts) >= 0
        assert table.truncated >= truncated
    assert table.live() == source.truth


@settings(max_examples=cases(100), deadline=None)
@given(st.data())
def test_a_batch_taken_twice_changes_nothing(data):
    choose = drawn(data)
    source = history(choose, data.draw(st.integers(0, 15)))
    table = Table(COLUMNS, misfit)
    for batch in delivered(choose, source.changes):
        table.apply(batch)
        rows = dict(table.rows)
        counts = table.apply(batch)
        assert table.rows == rows
        assert counts.out == 0


@settings(max_examples=cases(100), deadline=None)
@given(st.data())
def test_going_on_from_kept_rows_is_starting_anew(data):
    """What lets an increment be folded into stored rows when nothing in it is late."""
    choose = drawn(data)
    source = history(choose, data.draw(st.integers(0, 15)))
    fitting = [c for c in source.changes if c.image is None or not misfit(c.image)]
    # The two halves of a key change have one sequence id, and the second may come before the first.
    changes = sorted(fitting, key=lambda change: change.order)
    cut = choose(len(changes) + 1)
    assert fold(fold({}, changes[:cut]), changes[cut:]) == fold({}, changes)


@settings(max_examples=cases(100), deadline=None)
@given(st.data())
def test_a_row_without_sources_depends_on_its_newest_image_alone(data):
    """What lets one aggregate decide a key: `sources` is None only where nothing older shows.

    Of rows that swap their keys the change itself tells what its image leaves out.
    """
    choose = drawn(data)
    source = history(choose, data.draw(st.integers(0, 20)), statements=False)
    changes = [c for c in source.changes if c.image is None or not misfit(c.image)]
    newest = {}
    for change in sorted(changes, key=lambda c: c.order):
        newest[change.key] = change
    for key, row in fold({}, changes, COLUMNS[:3]).items():
        if row.live and row.sources is None:
            change = newest[key]
            images = [change.image, {**(change.before or {}), **change.image}]
            assert row.order == change.order
            assert row.image in images


def test_no_changes():
    table = Table()
    assert table.apply([]) == Counts()
    assert table.live() == {}


@settings(max_examples=cases(200, nightly=2_000), deadline=None)
@given(st.data())
def test_a_replay_of_what_was_refused_brings_all_that_rows_lack(data):
    """Once the columns are wider, the changes that were not refused are hidden for good.

    A delete that comes without the move above it hides the row that the move will take on.
    """
    choose = drawn(data)
    source = history(choose, data.draw(st.integers(0, 25)), bad_moves=False)
    table = Table(COLUMNS, misfit)
    batches = delivered(choose, source.changes)
    if any(c.operation == "insert" and c.old_key for c in source.changes):
        batches = [[change for batch in batches for change in batch]]
    for batch in batches:
        table.apply(batch)
    changes = [change for batch in batches for change in batch]
    fitting = [c for c in changes if c.image is None or not misfit(c.image)]
    replayed, whole = (fold({}, which, COLUMNS) for which in ([*fitting, *table.refused], changes))
    assert live(replayed) == live(whole)


def live(rows):
    return {key: (row.order, row.image) for key, row in rows.items() if row.live}
