"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

from tests.contract.effort import EFFORT

# The same cases every time, so that a failure comes from a change; WAYBILL_EFFORT=2 draws others.
settings.register_profile("waybill", derandomize=EFFORT == 1, deadline=None, database=None)
settings.load_profile("waybill")
