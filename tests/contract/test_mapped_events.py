"""What readers of the source's own format get of mapped tables, beside what they got before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.outcomes import good_streams
from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.mapping.changes import STATEMENT, ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules

MARK = "_as_mapped"
NAMED = Rules(of_tables=(MappingRule(("*",), {"table": "{table}" + MARK}),))
MASKED = Rules(of_tables=(MappingRule(("*",), masks={"*": Mask("hmac", "secret")}),))

FAMILIES = (
    *("canal", "tidb-canal", "maxwell", "ogg", "debezium-json"),
    *("oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex", "datahub-blob"),
)
"""Envelopes whose messages are JSON and carry on what came with them."""

SPELLED_ANEW = {"sql", "ddl", "query", "rowid", "more"}
"""Statements, what names the table in a way that nobody can rename, and, in one stream of Debezium,
a field of the source block that no connector has: it might be either."""


def written(name: str, change: Any, settings: Any) -> tuple[Any, list[str]]:
    """What a change becomes in the envelope that it came in."""
    losses: list[str] = []
    try:
        messages = registry.get(name).encoder(settings).encode(change, losses)  # type: ignore[misc]
    except Refusal as refusal:
        return (refusal.kind, refusal.sentence), []
    return [comparable(json.loads(m.value or b"null")) for m in messages], sorted(losses)


def comparable(value: Any, event: bool = False) -> Any:
    if isinstance(value, dict):
        # What a statement of DataWorks tells of columns is in no change.
        event = event or (
            {"schema", "payload", "version"} <= value.keys()
            and (value["payload"].get("before") is None and value["payload"].get("after") is None)
        )
        left = SPELLED_ANEW | ({"column", "pk", "dbVersion"} if event else set())
        kept = {k: comparable(v, event) for k, v in value.items() if k not in left}
        return {k: v for k, v in kept.items() if v is not None} if event else kept
    if isinstance(value, list):
        return [comparable(one, event) for one in value]
    return value.replace(MARK, "") if isinstance(value, str) else value


def events_of(name: str):
    envelope = registry.get(name)
    for messages, rules, settings_ in good_streams(name):
        decoder = envelope.decoder(settings_, rules)  # type: ignore[misc]
        settings = envelope.encode_settings().for_source(envelope, settings_)
        for message in messages:
            for change in decode_message(decoder, message):
                if change.outcome == "ok" and change.schema.table:
                    yield change, settings


@pytest.mark.parametrize("name", FAMILIES)
def test_of_a_table_with_another_name_they_get_the_same(name):
    seen = set()
    for change, settings in events_of(name):
        mapped, why, *_ = ChangeMapper(NAMED).map(change)
        if mapped is None:
            assert (change.operation, why) == ("ddl", STATEMENT)
            continue
        assert written(name, mapped, settings) == written(name, change, settings)
        seen.add(change.operation)
    assert seen


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_carried_on_shows_what_a_mask_hides(name):
    """No text of a row is left beside it, but in what speaks of the event."""
    for change, _settings in events_of(name):
        row = change.before if change.after is None else change.after
        if row is None:
            continue
        mapper = ChangeMapper(MASKED)
        if change.schema.key and set(change.schema.key) - set(change.schema.names):
            continue
        (mapped, *_) = mapper.map(change)
        assert mapped is not None
        kept = json.loads(mapped.extra or b"{}")
        names = {field for family in kept.values() if isinstance(family, dict) for field in family}
        assert not names & {"old", "data", "sqlType", "extend", "primary_keys", "primary_key"}
