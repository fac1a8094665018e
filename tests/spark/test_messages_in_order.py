"""Messages of many batches, sorted by Spark for the one task that sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waybill.lake.local_rows import local_rows
from waybill.publish.kafka.message_source import MESSAGE, in_order, made
from waybill.publish.kafka.part_boundaries import GROUP
from waybill.publish.outgoing import Outgoing

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

BATCHES = 3000
"""A month of batches every quarter of an hour."""


def test_a_target_may_begin_with_more_batches_than_an_expression_can_hold(lake: Lake) -> None:
    """With `bootstrap: archive` row groups have messages of many batches, so Spark sorts them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    names = [f"b{number:04}" for number in range(BATCHES)]
    rows = [
        [name, "shop", 0, offset, 0, 0, None, None, b"k", b"v", None]
        for name in names[::-1]
        for offset in (7, 5)
    ]
    messages = Outgoing(local_rows(lake.spark, rows, from_arrow_schema(MESSAGE)))
    found = made(messages, names, origin=False)
    assert [one.batch for one in found] == names
    sent = in_order(messages, found).rows.select(GROUP, "batch", "offset").collect()
    assert [tuple(row) for row in sent] == [
        (number, name, offset) for number, name in enumerate(names) for offset in (5, 7)
    ]
