"""Whether messages that are read at once are of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask
    from waybill.bulk.rows import Rows


def of_other_topics(rows: Rows, topic: str) -> Mask:
    """Which changes are of messages of other topics, for envelopes whose topics tell the table."""
    if rows.block.topic is not None:
        return np.full(len(rows), rows.block.topic != topic)
    message = rows.block.message
    return np.array([message(place).topic != topic for place in rows.places.tolist()], np.bool_)
