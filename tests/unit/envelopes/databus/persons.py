"""Events of a table of persons that tests of Databus read, and how they read them."""

from __future__ import annotations

import io
import json
from hashlib import md5

import fastavro

from tests.histories import by_name
from waybill.envelopes.databus.binary.decoder import BinaryDecoder
from waybill.envelopes.databus.settings import (
    DatabusReadSettings,
)
from waybill.records import Message
from waybill.tables import TableRules

PERSON = """{
  "name" : "Person_V1",
  "type" : "record",
  "meta" : "dbFieldName=person;pk=id;",
  "namespace" : "com.acme.events",
  "fields" : [
    { "name" : "id", "type" : [ "long", "null" ], "meta" : "dbFieldName=ID;dbFieldPosition=0;" },
    { "name" : "firstName", "type" : [ "string", "null" ], "meta" : "dbFieldName=FIRST_NAME;" },
    { "name" : "birthDate", "type" : [ "long", "null" ], "meta" : "dbFieldName=BIRTH_DATE;" }
  ]
}
"""
ID = md5(PERSON.encode()).digest()
PARSED = fastavro.parse_schema(json.loads(PERSON))


def avro(row, schema=PARSED) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


ANN = avro({"id": 9007199254740993, "firstName": "Ann", "birthDate": None})


def message(value, headers=None, offset=5):
    return Message("topic", 2, offset, None, None, value, headers)


def reader(folder, rules=None, kind=BinaryDecoder, **settings):
    return kind(DatabusReadSettings(schemas=folder, **settings), rules or TableRules())


def image(change, which="after"):
    return by_name(change.schema, getattr(change, which))
