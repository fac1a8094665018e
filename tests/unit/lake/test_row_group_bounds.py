"""Row groups that can hold a text, against what they hold."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.lake.row_group_bounds import ColumnBounds, Sought

TEXTS = st.one_of(
    st.sampled_from(["", "1", "10", "2", '{"id":"9"}', '{"id":"10"}', "ключ", "￿", "𐀀"]),
    st.text(max_size=2),
)


def metadata_of(path, texts, rows, **options):
    table = pa.table({"n": range(len(texts)), "key": pa.array(texts, pa.string())})
    pq.write_table(table, path, row_group_size=rows, **options)
    return pq.read_metadata(path)


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=40), st.lists(TEXTS, max_size=4))
def test_no_row_group_that_has_one_is_left_out(tmp_path_factory, there, wanted):
    metadata = metadata_of(tmp_path_factory.mktemp("file") / "a.parquet", there, 3)
    near = Sought(pa.array(wanted, pa.string()), "key").groups(metadata)
    groups = [there[at : at + 3] for at in range(0, len(there), 3)]
    assert near >= {n for n, group in enumerate(groups) if set(group) & set(wanted)}


@pytest.mark.parametrize("wanted", [["k0500"], ["k0499x", "k9"], ["a", "k0999"], []])
def test_row_groups_whose_bounds_are_elsewhere_are_left_out(tmp_path, wanted):
    texts = [f"k{number:04d}" for number in range(1000)]
    metadata = metadata_of(tmp_path / "a.parquet", texts, 100)
    near = Sought(pa.array(wanted, pa.string()), "key").groups(metadata)
    assert near == {int(text[1:]) // 100 for text in wanted if text in texts}


def test_where_texts_are_many_all_are_read(tmp_path):
    texts = [f"k{number:04d}" for number in range(100)]
    metadata = metadata_of(tmp_path / "a.parquet", texts, 10)
    assert len(Sought(pa.array(texts[:13]), "key").groups(metadata)) == 10


def test_a_file_that_does_not_tell_can_hold_everything(tmp_path):
    metadata = metadata_of(tmp_path / "a.parquet", ["b"] * 20, 10, write_statistics=False)
    assert Sought(pa.array(["a"]), "key").groups(metadata) == {0, 1}
    assert ColumnBounds(metadata, "key").of(0) is None
    assert ColumnBounds(metadata, "other").can_hold(1, ["a"])
