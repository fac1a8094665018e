"""Writes OMS messages of the DefaultExtendColumnType format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.oms.default.encoder import OmsDefaultEncoder, OmsWriter
from waybill.envelopes.oms.type_names import loses_type, type_name
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.records import TableSchema


class OmsExtendedEncoder(OmsDefaultEncoder):
    """Writes messages of the DefaultExtendColumnType format."""

    def _writer(self, schema: TableSchema) -> OmsWriter:
        if LIGHT_TYPE in schema.index:
            raise Refusal("encoding", f"a column named {LIGHT_TYPE} collides with the types")
        earlier = self.settings.version == "earlier"
        names = {c.name: type_name(c, schema.dialect, earlier) for c in schema.columns}
        loses = any(loses_type(c, names[c.name], earlier) for c in schema.columns)
        return OmsWriter(schema, self.settings, names, loses)
