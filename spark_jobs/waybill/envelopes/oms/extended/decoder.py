"""OceanBase OMS, serialization method DefaultExtendColumnType: Default, and the types of columns.

Source of the rules: OceanBase documentation "Data formats", section "DefaultExtendColumnType-
compatible JSON message format". Each image has one more member, `__light_type`, an object of column
names and `{"schemaType": …}`. The names have no sizes, so `tables:` of a migration says more and
goes before them; for the rest see `default`. In the document's samples these columns are not those
of the row, so a column may be without a type: it is what JSON says then, and a type without a
column is passed over.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from waybill.envelopes.oms.default.decoder import OmsDefaultDecoder, Row
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.errors import Refusal
from waybill.values.values import JSON_ERRORS


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
        if len(lights) > 1 and self._type_names(lights[0]) != self._type_names(lights[1]):
            raise Refusal("schema", "the two images tell different types of their columns")
        return lights[0] if lights else None

    def _type_names(self, light: Raw | None) -> dict[str, str | None]:
        """The type names in it, by column.

        Raises:
            Refusal: it has another shape.
        """
        if light is None:
            return {}
        try:
            stated = _decode_light(light) or {}
        except JSON_ERRORS as error:
            raise Refusal("shape", f"{LIGHT_TYPE} has the wrong shape: {error}") from None
        return {name: kind.schemaType for name, kind in stated.items()}
