"""Settings for reading and writing Canal messages of OMS."""

from __future__ import annotations

from waybill.envelopes.canal.settings import CanalEventSettings
from waybill.envelopes.oms.settings import OmsWriteSettings


class OmsCanalWriteSettings(OmsWriteSettings, CanalEventSettings):
    """Settings for writing messages of the Canal format."""
