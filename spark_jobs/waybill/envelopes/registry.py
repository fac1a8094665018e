"""The envelopes by name. A module is imported when its envelope is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from waybill.errors import ConfigurationError
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from waybill.protocol import Envelope

MODULES = {
    "datahub-tuple": "waybill.envelopes.datahub.tuples",
    "datahub-blob": "waybill.envelopes.datahub.blob",
    "oms-default": "waybill.envelopes.oms.default",
    "oms-extended": "waybill.envelopes.oms.extended",
    "oms-canal": "waybill.envelopes.oms.canal",
    "oms-dataworks": "waybill.envelopes.oms.dataworks",
    "oms-shareplex": "waybill.envelopes.oms.shareplex",
    "canal": "waybill.envelopes.canal.flat_message",
    "debezium-json": "waybill.envelopes.debezium.json_envelope",
    "debezium-avro": "waybill.envelopes.debezium.avro_envelope",
    "ibmcdc-avro": "waybill.envelopes.ibmcdc.envelope",
    "maxwell": "waybill.envelopes.maxwell.envelope",
    "databus-binary": "waybill.envelopes.databus.binary",
    "databus-json": "waybill.envelopes.databus.json_envelope",
    "ogg": "waybill.envelopes.ogg.envelope",
    "dms": "waybill.envelopes.dms.envelope",
    "dms-s3": "waybill.envelopes.dms.files",
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
        raise ConfigurationError(f"there is no envelope {name!r}{did_you_mean(name, MODULES)}")
    envelope: Envelope = import_module(MODULES[name]).ENVELOPE
    assert_named(envelope, name)
    return envelope


def assert_named(envelope: Envelope, name: str) -> None:
    """Refuse a module whose declaration names another envelope than the registry does."""
    if envelope.name != name:
        message = f"{MODULES[name]} declares {envelope.name!r}, the registry says {name!r}"
        raise ConfigurationError(message)


def all_envelopes() -> list[Envelope]:
    """Every declaration, in the order of the documentation."""
    return [get(name) for name in MODULES]
