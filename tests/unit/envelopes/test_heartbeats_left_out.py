"""Heartbeats are left out of formats whose readers stop at them, unless a setting asks for them."""

from __future__ import annotations

import pytest

from tests.contract.probes import change
from waybill.envelopes import registry
from waybill.records import NO_TABLE


@pytest.mark.parametrize("target", ["canal", "oms-canal", "maxwell", "debezium-json"])
def test_heartbeats_are_written_only_where_they_are_asked_for(target):
    envelope = registry.get(target)
    assert envelope.encoder is not None
    heartbeat = change("heartbeat", schema=NO_TABLE, sequence=None)
    losses: list[str] = []
    without = envelope.encoder(envelope.encode_settings())
    assert without.encode(heartbeat, losses) == []
    assert losses == ["heartbeat"]
    assert "control_messages: true" in envelope.partly["heartbeat"]
    losses.clear()
    asked = envelope.encoder(envelope.encode_settings(control_messages=True))
    assert len(asked.encode(heartbeat, losses)) == 1
    assert "heartbeat" not in losses


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (None, "INTERVAL_DAY_TO_SECOND"),
        ("INTERVAL DAY(2) TO SECOND(6)", "INTERVAL_DAY_TO_SECOND"),
        ("interval year(2) to month", "INTERVAL_YEAR_TO_MONTH"),
    ],
)
def test_an_interval_has_a_name_in_oms(source, name):
    from waybill.envelopes.oms.type_names import loses_type, sized_name
    from waybill.records import Column
    from waybill.types import LogicalType

    column = Column("i", LogicalType("interval"), source)
    assert sized_name(column, "oracle") == name
    assert not loses_type(column, name)
