"""What an envelope declares as not written is in no message that it makes of another's change."""

from __future__ import annotations

import contextlib
import itertools
import json
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from tests.contract.outcomes import good_streams
from tests.contract.probes import PROBES
from tests.contract.settings import choosable
from waybill.envelopes import registry
from waybill.envelopes.databus.binary.events import events
from waybill.envelopes.databus.event import Event
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.protocol import Encoded, Envelope
    from waybill.records import Message

WRITTEN = [envelope for envelope in registry.all_envelopes() if envelope.encoder is not None]
JSON_OR_EVENTS = [e for e in WRITTEN if e.decoder is not None and not e.name.endswith("-avro")]
NEVER_SENT = {"datahub-tuple", "oms-canal", "databus-json", "dms-s3", "tidb-canal"}
"""Envelopes of whose golden messages none has a field that is declared as not written."""
WHOLE = {"oms-canal"}
"""Envelopes of whose fields none is missing."""
SCHEMA_HEADERS = ("waybill.key.schema", "waybill.value.schema")


def tells(value: Any) -> bool:
    """Whether a value says something: a field that holds no such value is not written."""
    return value is not None and value is not False and value not in ("", [], {})


def fields(value: Any, place: str = "") -> Iterator[str]:
    """The paths of the fields that say something."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item, place)
    elif isinstance(value, dict):
        for name, item in value.items():
            if tells(item):
                yield f"{place}{name}"
            yield from fields(item, f"{place}{name}.")


def schema_fields(schema: Any, place: str = "") -> Iterator[str]:
    """The paths of the fields of an Avro schema."""
    if isinstance(schema, list):
        for branch in schema:
            yield from schema_fields(branch, place)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield f"{place}{field['name']}"
            yield from schema_fields(field["type"], f"{place}{field['name']}.")
        yield from schema_fields(schema.get("items"), place)


def said(envelope: Envelope, message: Encoded | Message) -> Iterator[str]:
    """The names of all that a message says."""
    headers = dict(message.headers or ())
    yield from headers
    for name in SCHEMA_HEADERS:
        if name in headers:
            yield from schema_fields(json.loads(headers[name] or b"null"))
    if message.value is None or envelope.name.endswith("-avro"):
        return
    if envelope.name == "databus-binary":
        for event in events(message.value):
            if isinstance(event, Event):
                yield from fields(structs.asdict(event))
        return
    lines = message.value.splitlines() if envelope.name == "databus-json" else [message.value]
    for line in lines:
        yield from fields(json.loads(line))


@cache
def written_by(name: str) -> frozenset[str]:
    """The names of all that an envelope writes of the probes, under each of its settings."""
    envelope = registry.get(name)
    assert envelope.encoder is not None
    each = [{}, *({key: value} for key, values in choosable(envelope).items() for value in values)]
    found: set[str] = set()
    for settings in each:
        encoder = envelope.encoder(envelope.encode_settings(**settings).for_trial())
        for make in PROBES.values():
            for change in make():
                with contextlib.suppress(Refusal):
                    for message in encoder.encode(change, []):
                        found.update(said(envelope, message))
    return frozenset(found)


@pytest.mark.parametrize("envelope", WRITTEN, ids=lambda envelope: envelope.name)
def test_what_is_declared_as_not_written_is_not_written(envelope):
    written = written_by(envelope.name)
    assert written
    parents = {name.rpartition(".")[0] for name in envelope.not_written} - {""}
    assert parents <= written, "the fields around it are written"
    assert {
        (pattern, name)
        for pattern in envelope.not_written
        for name in written
        if fnmatchcase(name, pattern)
    } == set()


@pytest.mark.parametrize("envelope", JSON_OR_EVENTS, ids=lambda envelope: envelope.name)
def test_what_came_from_the_same_format_is_carried_on(envelope):
    assert envelope.encoder is not None
    fields_of = envelope.encode_settings.model_fields
    asked = ("control_messages", "statements")
    settings: dict[str, Any] = {name: True for name in asked if name in fields_of}
    versions = choosable(envelope).get("version", [None])
    made = [settings if v is None else {**settings, "version": v} for v in versions]
    encoders = [envelope.encoder(envelope.encode_settings(**chosen)) for chosen in made]
    sent, written = set(), set()
    for messages, rules, chosen in good_streams(envelope.name):
        decoder = envelope.decoder(chosen, rules)
        for message in messages:
            with contextlib.suppress(Refusal):
                changes = [c for c in decoder.decode(message) if c.outcome == "ok"]
                if changes:
                    sent.update(said(envelope, message))
                for change, encoder in itertools.product(changes, encoders):
                    for made_again in encoder.encode(change, []):
                        written.update(said(envelope, made_again))
    declared = {name for name in envelope.not_written if name in sent}
    assert declared <= written
    assert bool(declared) is (envelope.name not in NEVER_SENT)


def test_every_other_envelope_declares_something():
    assert {e.name for e in WRITTEN if not e.not_written} == WHOLE


def test_a_field_that_is_written_would_be_found():
    """The names that a message says are those that declarations use."""
    assert {"payload.timestamp.eventTime", "payload.ddl.text"} <= written_by("datahub-blob")
    assert {"sequence", "timestamp"} & written_by("databus-binary")
    assert {"source.sequence", "ts_ms"} <= written_by("debezium-avro")
    assert {"A_ENTTYP", "B_id"} <= written_by("ibmcdc-avro")
