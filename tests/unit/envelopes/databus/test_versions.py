"""Schema ids that are versions, as REPL_DBUS has them: read, written, counted where lost."""

from __future__ import annotations

import json

import pytest

from tests import databus_layout as layout
from tests.contract.probes import change
from tests.unit.envelopes.databus.persons import ANN, ID, PERSON, image, message
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.tables import TableRules
from waybill.types import parse_type

SCHEMAS = {
    "databus": [
        {"srcId": 101, "source": "x.Person", "version": 3, "schema": PERSON},
        {"srcId": 101, "source": "x.Person", "version": 260, "schema": PERSON},
        {"source": "x.Unnumbered", "version": 2, "schema": PERSON},
        {"srcId": 103, "source": "x.Unversioned", "schema": PERSON},
    ]
}
NAMES = ["databus-binary", "databus-json"]


def read_one(name, data, headers=None, **declared):
    envelope = registry.get(name)
    settings = envelope.decode_settings.model_validate({"schemas": SCHEMAS, **declared})
    (found, *_) = envelope.decoder(settings, TableRules()).decode(message(data, headers))
    return found


def encoder(name, **settings):
    envelope = registry.get(name)
    return envelope.encoder(
        envelope.encode_settings.model_validate({"schemas": SCHEMAS, **settings})
    )


def versioned(order=">", parted=False):
    id_ = (260).to_bytes(2, "big" if order == ">" else "little") + bytes(14)
    if parted:
        return layout.v2(key=1, payload=layout.part(ANN, id_, 1, order), order=order)
    return layout.v1(1, ANN, schema=id_, order=order)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", ["big", "little"])
def test_an_event_with_a_version_is_written_with_it(target, version, order):
    found = read_one(
        "databus-binary", versioned("<>"[order == "big"], version == 2), schema_ids="version"
    )
    settings = {"version": version, "schema_ids": "version"}
    if target == "databus-binary":
        settings["byte_order"] = order
    losses: list[str] = []
    (written,) = encoder(target, **settings).encode(found, losses)
    assert "other" not in losses
    again = read_one(target, written.value, written.headers, schema_ids="version")
    assert (again.outcome, image(again)) == ("ok", image(found))
    with pytest.raises(Refusal, match="names the schema"):
        read_one(target, written.value, written.headers)


@pytest.mark.parametrize("target", NAMES)
def test_an_md5_in_place_of_a_version_is_counted(target):
    found = read_one("databus-binary", versioned(), schema_ids="version")
    losses: list[str] = []
    (written,) = encoder(target).encode(found, losses)
    assert losses == ["other"]
    assert image(read_one(target, written.value, written.headers)) == image(found)
    native, none = read_one("databus-binary", layout.v1(1, ANN, schema=ID)), []
    encoder(target).encode(native, none)
    assert none == []
    assert "schema_ids" not in json.loads(native.extra)["databus"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Elsewhere", "there is no schema with a version for Elsewhere; put one under `schemas`"),
        ("Unversioned", "there is no schema with a version for Unversioned"),
        ("Unnumbered", "version 2 of the schema of x.Unnumbered is not known for the source id"),
    ],
)
def test_a_table_whose_version_nobody_could_look_up_is_refused(name, sentence):
    types = {"id": "int64", "firstName": "string", "birthDate": "int64"}
    columns = tuple(Column(column, parse_type(kind)) for column, kind in types.items())
    row = change(
        "insert",
        after={"id": "1", "firstName": "Ann", "birthDate": None},
        schema=intern_schema(None, None, name, columns, ("id",)),
    )
    with pytest.raises(Refusal, match=sentence):
        encoder("databus-binary", schema_ids="version").encode(row, [])
