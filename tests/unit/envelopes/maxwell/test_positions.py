"""Positions of Maxwell's messages, of any length."""

from __future__ import annotations

import pytest

from waybill.envelopes.maxwell.positions import Positions, position_of
from waybill.errors import Refusal


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("text", ["b.000001:{}", "b.{}:5", "sequence.{}:5", "sequence:{}"])
def test_no_number_is_too_long_for_a_sentence(text, known):
    """Also where the file of an earlier position was looked at already."""
    positions = Positions()
    if known:
        positions.sequence("b.000001:5")
        positions.sequence("sequence:5")
    with pytest.raises(Refusal, match="position is"):
        positions.sequence(text.format("9" * 5000))


@pytest.mark.parametrize("sequence", [(10**4200,), (10**4200, 7), (7,) * 1000, (-1, 10**4000)])
def test_what_is_written_for_a_long_sequence_is_read(sequence):
    assert Positions().sequence(position_of(sequence)) == sequence
