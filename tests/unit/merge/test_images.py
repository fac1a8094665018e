"""Images read at once say what each says alone."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.merge.upsert import images
from waybill.merge.upsert.images import FEWEST, text_columns

NAMES = ("id", "имя", "a b", 'quo"ted', "n")
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.sampled_from(
        ["", "plain", 'a "quote"', "back\\slash", "two\nlines", "\x01", "🚚", "\t", "null"]
    ),
)


@st.composite
def rows(draw):
    """Images of a few shapes, many of each: columns left out, others besides, in any order."""
    shapes = draw(st.lists(st.permutations([*NAMES, "more"]), min_size=1, max_size=3))
    shapes = [shape[: draw(st.integers(0, len(shape)))] for shape in shapes]
    found = []
    for _ in range(draw(st.integers(0, 4 * FEWEST))):
        shape = draw(st.sampled_from(shapes))
        found.append(draw(st.none() | st.fixed_dictionaries(dict.fromkeys(shape, TEXTS))))
    return found


def written(row, style):
    if row is None:
        return None
    if style == "blanks":
        return json.dumps(row)
    return json.dumps(row, ensure_ascii=style == "ascii", separators=(",", ":"))


@given(rows(), st.sampled_from(["plain", "ascii", "blanks"]), st.integers(1, 12))
def test_images_at_once_say_what_each_says(found, style, at_once):
    texts = pa.array([written(row, style) for row in found], pa.string())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "AT_ONCE", at_once * FEWEST)
        columns, lacking, others = text_columns(texts, NAMES)
    for name, column in zip(NAMES, columns, strict=True):
        column.validate(full=True)
        assert column.to_pylist() == [None if row is None else row.get(name) for row in found]
    assert lacking.tolist() == [row is not None and not set(NAMES) <= set(row) for row in found]
    assert others.tolist() == [row is not None and not set(row) <= set(NAMES) for row in found]


@given(rows(), st.integers(0, 10))
def test_a_part_of_a_column_of_images_is_read_as_such(found, first):
    texts = pa.array([written(row, "plain") for row in found], pa.string())
    columns, *_ = text_columns(texts.slice(first), NAMES)
    for name, column in zip(NAMES, columns, strict=True):
        assert column.to_pylist() == [
            None if row is None else row.get(name) for row in found[first:]
        ]


def test_most_images_are_not_read_one_by_one(monkeypatch):
    read = []
    exact = images.exact_image
    monkeypatch.setattr(images, "exact_image", lambda value: read.append(value) or exact(value))
    alike = [{"id": str(n), "name": f"a\n{n}", "none": None} for n in range(500)]
    odd = {"id": "x", "name": "\x01", "none": None}
    texts = pa.array([json.dumps(row, separators=(",", ":")) for row in [*alike, odd]])
    (ids, names), lacking, _ = text_columns(texts, ["id", "name"])
    assert ids.to_pylist() == [*map(str, range(500)), "x"]
    assert names.to_pylist()[-2:] == ["a\n499", "\x01"]
    assert not lacking.any()
    assert len(read) <= 3


def test_the_last_of_two_values_of_a_name_counts():
    """As where each image is read alone."""
    texts = pa.array(['{"a":"1","a":"2"}'] * FEWEST)
    (column,), lacking, _ = text_columns(texts, ["a"])
    assert column.to_pylist() == ["2"] * FEWEST
    assert not lacking.any()


def test_what_is_no_text_is_an_error():
    """No image says a number; a merge that made a text of it would hide who wrote it."""
    texts = pa.array(['{"a":1}'] * FEWEST)
    with pytest.raises(ValueError, match="Expected `str"):
        text_columns(texts, ["a"])
