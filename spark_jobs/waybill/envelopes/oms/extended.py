"""OceanBase OMS, serialization method DefaultExtendColumnType: Default, and the types of columns.

Source of the rules: OceanBase documentation "Data formats", section "DefaultExtendColumnType-
compatible JSON message format". Each image has one more member, `__light_type`, an object of column
names and `{"schemaType": …}`. The names have no sizes, so `tables:` of a migration says more and
goes before them; for the rest see `default`. In the document's samples these columns are not those
of the row, so a column may be without a type: it is what JSON says then, and a type without a
column is passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, structs

from waybill.envelopes.oms.default import ENVELOPE as DEFAULT
from waybill.envelopes.oms.default import OmsDefaultDecoder, Row
from waybill.envelopes.oms.encoder import OmsDefaultEncoder, OmsWriter
from waybill.envelopes.oms.type_names import loses_type, type_name
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.errors import Refusal
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from waybill.records import TableSchema


class _LightType(msgspec.Struct, gc=False):
    schemaType: str | None = None


_decode_light = msgspec.json.Decoder(dict[str, _LightType] | None).decode


class OmsExtendedDecoder(OmsDefaultDecoder):
    """Reads messages of the DefaultExtendColumnType format."""

    def _light(self, before: Row, after: Row) -> Raw | None:
        """What the images say about the types of their columns; it is taken out of them.

        Raises:
            Refusal: the two images say different things.
        """
        lights = [row.pop(LIGHT_TYPE) for row in (after, before) if row and LIGHT_TYPE in row]
        if len(lights) > 1 and self._told(lights[0]) != self._told(lights[1]):
            raise Refusal("schema", "the two images tell different types of their columns")
        return lights[0] if lights else None

    def _told(self, light: Raw | None) -> dict[str, str | None]:
        """The type names in it, by column.

        Raises:
            Refusal: it has another shape.
        """
        if light is None:
            return {}
        try:
            told = _decode_light(light) or {}
        except JSON_ERRORS as error:
            raise Refusal("shape", f"{LIGHT_TYPE} has the wrong shape: {error}") from None
        return {name: kind.schemaType for name, kind in told.items()}


class OmsExtendedEncoder(OmsDefaultEncoder):
    """Writes messages of the DefaultExtendColumnType format."""

    def _writer(self, schema: TableSchema) -> OmsWriter:
        if LIGHT_TYPE in schema.index:
            raise Refusal("encoding", f"a column named {LIGHT_TYPE} cannot stand beside the types")
        earlier = self.settings.version == "earlier"
        names = {c.name: type_name(c, schema.dialect, earlier) for c in schema.columns}
        loses = any(loses_type(c, names[c.name], earlier) for c in schema.columns)
        return OmsWriter(schema, self.settings, names, loses)


_PARTLY = DEFAULT.partly.items()
ENVELOPE = structs.replace(
    DEFAULT,
    name="oms-extended",
    title="OceanBase OMS, DefaultExtendColumnType (JSON)",
    partly={
        **{
            name: limit.replace("oms-default", "oms-extended")
            for name, limit in DEFAULT.partly.items()
        },
        "types": "oms-extended names types without sizes, and no unsigned ones; declare decimals "
        "and unsigned integers under tables when it is read",
    },
    decoder=OmsExtendedDecoder,
    encoder=OmsExtendedEncoder,
)
