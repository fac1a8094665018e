"""The kind of database that messages name is written again or counted, at both speeds."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.contract.outbox_rows import agree_on_the_outbox, encoded
from tests.contract.roundtrip import rules_for, write_settings
from tests.contract.test_bulk import WRITTEN, agree, settings_for
from tests.histories import column_of, image
from waybill.batches.decoding import ChangeBatches
from waybill.batches.message_rows import CHANGE
from waybill.envelopes import registry
from waybill.envelopes.database_kinds import kind_of
from waybill.records import Change, Message, intern_schema
from waybill.tables import TableRules

KINDS = ("MYSQL", "ORACLE", None, "OB_ORACLE", "")
OTHERS = (
    *(b'{"%b":{"dbType":"%b"}}' % (f, k) for f in (b"oms", b"dataworks") for k in (b"A", b"B")),
    b'{"streamx":{"systemTime":5,"dbType":"Oracle"}}',
    b'{"streamx":{"systemTime":5}}',
    b'{"canal":{"ts":5}}',
    b'{"canal":{"sql":"\\"dbType\\":\\"no\\""}}',
    b'{"oms":{"checkpoint":"\\"dbType\\":\\"no\\""}}',
    None,
)
SCHEMA = intern_schema(
    "d", None, "t", (column_of("id", "bigint", ""), column_of("v", "string", "")), ("id",), ""
)


def line(number: int) -> bytes:
    """A message of OMS Default; each table of the stream has all kinds in turn."""
    kind = KINDS[number % len(KINDS)]
    document = {
        "prevStruct": None,
        "postStruct": {"id": number, "v": "x"},
        "allMetaData": {
            "checkpoint": None,
            "record_primary_key": "id",
            "record_primary_value": str(number),
            "source_identity": None,
            "dbType": kind,
            "storeDataSequence": 1_700_000_000_000_000_000 + number,
            "table_name": "t",
            "db": "d",
            "timestamp": str(1_700_000_000 + number),
            "uniqueId": None,
        },
        "recordType": "INSERT",
    }
    return json.dumps(document, separators=(",", ":")).encode()


@pytest.mark.parametrize("target", WRITTEN)
def test_messages_that_are_converted_at_once(target):
    rules = rules_for(registry.get("oms-default"), [SCHEMA])
    settings = settings_for("oms-default")
    assert agree("oms-default", target, list(map(line, range(200))), rules, settings) > 20


@pytest.mark.parametrize("target", [e.name for e in registry.all_envelopes() if e.bulk_writer])
def test_changes_of_the_lake(target):
    changes = [
        Change(
            "insert",
            SCHEMA,
            Message("topic", 0, number, 1_700_000_000_000, None, None),
            after=image(SCHEMA, id=str(number), v="x"),
            sequence=(7 + number,),
            extra=OTHERS[number // 2 % len(OTHERS)],
        )
        for number in range(120)
    ]
    decoder = registry.get("canal").decoder(settings_for("canal"), TableRules())
    rows = pa.Table.from_batches([ChangeBatches(decoder, "batch", None).rows(changes)])
    accepted = rows.filter(pa.compute.equal(rows["outcome"], "ok")).select(CHANGE.names)
    (batch,) = accepted.combine_chunks().to_batches()
    settings = write_settings(registry.get(target))
    agree_on_the_outbox(target, settings, [batch], {SCHEMA.id: SCHEMA})
    written = encoded(target, settings, [batch], {SCHEMA.id: SCHEMA}, bulk=True)
    counting = {row["offset"] for row in written if "database_kind" in (row["losses"] or ())}
    named = {change.message.offset for change in changes if kind_of(change) is not None}
    assert named
    assert counting == (set() if "database_kind" in registry.get(target).carries else named)


def test_what_oms_named_stands_in_the_other_formats_that_name_it():
    oms = registry.get("oms-default")
    decoder = oms.decoder(settings_for("oms-default"), rules_for(oms, [SCHEMA]))
    (change,) = decoder.decode(Message("t", 0, 0, None, None, line(1)))

    def written(name: str) -> dict:
        envelope = registry.get(name)
        return json.loads(envelope.encoder(write_settings(envelope)).encode(change, [])[0].value)

    for name in ("oms-default", "oms-extended"):
        assert written(name)["allMetaData"]["dbType"] == "ORACLE"
    for name in ("oms-dataworks", "datahub-blob"):
        assert written(name)["schema"]["source"]["dbType"] == "ORACLE"
