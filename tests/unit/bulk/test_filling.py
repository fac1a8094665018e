"""Texts that are written where they belong, whatever comes before or behind them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from waybill.bulk.arena import Arena, Texts, Value
from waybill.bulk.assembly import Filled, Given, Nothing, array_of, packed

LONGER_THAN_COPIED_BY_WORDS = 70
pieces = st.binary(max_size=LONGER_THAN_COPIED_BY_WORDS)
values = st.lists(st.none() | pieces, min_size=3, max_size=3)


def texts_in(arena: Arena, texts: list[bytes | None]) -> Texts:
    starts = [arena.add(one or b"") for one in texts]
    lengths = [-1 if one is None else len(one) for one in texts]
    return Texts(np.array(starts, np.int64), np.array(lengths, np.int64))


def spelled(value: bytes | None, quoted: bool) -> bytes:
    if value is None:
        return b"null"
    return b'"%b"' % value if quoted else value


@given(
    st.lists(
        st.tuples(st.lists(pieces, min_size=4, max_size=4), st.lists(values, max_size=6)),
        max_size=4,
    ),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.none() | pieces, max_size=4),
    st.randoms(use_true_random=False),
)
def test_texts_stand_in_any_order_and_none_touches_another(groups, quoted, alone, dice):
    arena = Arena(b"")
    expected, filled = [], []
    for same, rows in groups:
        columns = [texts_in(arena, [row[i] for row in rows]) for i in range(3)]
        cuts = [0, *np.cumsum([len(part) for part in same]).tolist()]
        found = [Value(texts, quote) for texts, quote in zip(columns, quoted, strict=True)]
        filled.append(Filled(arena, len(rows), b"".join(same), cuts, found))
        for number, row in enumerate(rows):
            parts = [spelled(value, quote) for value, quote in zip(row, quoted, strict=True)]
            expected.append(same[0] + b"".join(map(bytes.__add__, parts, same[1:])))
            assert filled[-1].one(number) == expected[-1]
    all_of_them = [*filled, Nothing(2), Given(array_of(alone))]
    expected += [None, None, *alone]
    order = list(range(len(expected)))
    dice.shuffle(order)
    there = packed(all_of_them, np.array(order, np.int64)).array()
    there.validate(full=True)
    assert there.to_pylist() == [expected[number] for number in order]
    assert packed(all_of_them).array().to_pylist() == expected

    kept = [number for number in order if expected[number] is not None]
    lines = packed(all_of_them, np.array(kept, np.int64), b"\n")
    assert lines.data.tobytes() == b"".join(expected[number] + b"\n" for number in kept)
