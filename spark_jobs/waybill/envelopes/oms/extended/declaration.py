"""The declaration of `oms-extended`."""

from __future__ import annotations

from msgspec import structs

from waybill.envelopes.oms.default.declaration import ENVELOPE as DEFAULT
from waybill.protocol import Named

ENVELOPE = structs.replace(
    DEFAULT,
    name="oms-extended",
    title="OceanBase OMS, DefaultExtendColumnType (JSON)",
    partly={
        **{
            name: limit.replace("oms-default", "oms-extended")
            for name, limit in DEFAULT.partly.items()
        },
        "types": "oms-extended names types without sizes, and no unsigned ones; declare decimals, "
        "unsigned integers and times of more than six digits under tables when it is read",
    },
    decoder=Named("waybill.envelopes.oms.extended.decoder:OmsExtendedDecoder"),
    encoder=Named("waybill.envelopes.oms.extended.encoder:OmsExtendedEncoder"),
)
