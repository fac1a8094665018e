"""The envelopes by name. A module is imported when its envelope is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from waybill.errors import Code, ConfigurationError
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from waybill.protocol import Envelope

MODULES = {
    "datahub-tuple": "waybill.envelopes.datahub.tuple.declaration",
    "datahub-blob": "waybill.envelopes.datahub.blob.declaration",
    "oms-default": "waybill.envelopes.oms.default.declaration",
    "oms-extended": "waybill.envelopes.oms.extended.declaration",
    "oms-canal": "waybill.envelopes.oms.canal.declaration",
    "oms-dataworks": "waybill.envelopes.oms.dataworks.declaration",
    "oms-shareplex": "waybill.envelopes.oms.shareplex.declaration",
    "canal": "waybill.envelopes.canal.declaration",
    "tidb-canal": "waybill.envelopes.tidb.declaration",
    "debezium-json": "waybill.envelopes.debezium.declaration",
    "debezium-avro": "waybill.envelopes.debezium.avro.declaration",
    "ibmcdc-avro": "waybill.envelopes.ibmcdc.declaration",
    "maxwell": "waybill.envelopes.maxwell.declaration",
    "databus-binary": "waybill.envelopes.databus.binary.declaration",
    "databus-json": "waybill.envelopes.databus.json.declaration",
    "ogg": "waybill.envelopes.ogg.declaration",
    "dms": "waybill.envelopes.dms.declaration",
    "dms-s3": "waybill.envelopes.dms.files.declaration",
}
"""Where each envelope is declared, in the order of the documentation."""


def names() -> list[str]:
    """Every envelope's name."""
    return list(MODULES)


def get(name: str) -> Envelope:
    """The declaration of an envelope.

    Raises:
        ConfigurationError: there is no such envelope; names the nearest one.
    """
    if name not in MODULES:
        raise ConfigurationError(
            f"there is no envelope {name!r}{did_you_mean(name, MODULES)}", code=Code.ENVELOPE
        )
    envelope: Envelope = import_module(MODULES[name]).ENVELOPE
    assert_named(envelope, name)
    return envelope


def assert_named(envelope: Envelope, name: str) -> None:
    """Refuse a module whose declaration names another envelope than the registry does."""
    if envelope.name != name:
        message = f"{MODULES[name]} declares {envelope.name!r}, the registry says {name!r}"
        raise ConfigurationError(message, code=Code.ENVELOPE_FAULT)


def all_envelopes() -> list[Envelope]:
    """Every declaration, in the order of the documentation."""
    return [get(name) for name in MODULES]
