"""A value is held against its declared or stated type when it is read, in every envelope.

What is none of its type is refused with a sentence, one by one as at once; what goes on is a value
of the type that the row says its column has.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.contract.effort import EFFORT
from tests.contract.held_values import (
    CONNECT_NAMES,
    TYPES,
    Streams,
    archive,
    declared_as,
    holds,
    named_as,
    read,
    stated_as,
)
from waybill.envelopes import registry

if TYPE_CHECKING:
    from waybill.protocol import Envelope

FAULTS = frozenset({"value", "shape", "schema"})
"""What a message is refused for that holds no value of the column's type."""

ANYTHING = {
    "canal": {"bytes": "a text with one character per byte is bytes, whatever it says"},
    "tidb-canal": {"bytes": "as for canal"},
}
"""Types for which an envelope refuses hardly a value, and why none can be wrong."""

_MYSQL = [
    *("tinyint", "tinyint unsigned", "int", "int unsigned", "bigint", "bigint unsigned"),
    *("decimal(12,2)", "double", "bit(8)", "date", "time(6)", "datetime(6)", "timestamp(6)"),
]
_LOGICAL = ["int8", "int64", "decimal(38,10)", "boolean", "bit(20)", "timestamp", "timestamptz"]
STATED = {
    # A BLOB message says no more of its columns than a type of StreamX.
    "datahub-blob": ["int64", "float64", "boolean"],
    "oms-extended": _LOGICAL,
    "oms-canal": _MYSQL,
    "oms-dataworks": _LOGICAL,
    "canal": _MYSQL,
    "tidb-canal": _MYSQL,
}
"""Envelopes of text whose messages state types, and the types as their dialect has them."""


def look(envelope: Envelope, streams: Streams, expect: str | None) -> Counter[str]:
    """Hold every value that is read against its type, and both ways of reading against each other.

    Args:
        envelope: how the messages are read.
        streams: the messages.
        expect: the type that was declared; None where the messages state it.

    Returns:
        How many were taken, were refused, and were read at once.
    """
    counts: Counter[str] = Counter()
    for table in streams.tables:
        if not table.messages:
            continue
        whole = archive(table.messages)
        ((*outcomes,),), _ = read(envelope, streams, [whole], in_bulk=False)
        assert len(outcomes) == len(table.messages)
        taken = []
        for place, (value, found) in enumerate(zip(table.values, outcomes, strict=True)):
            shown = f"{table.name} {value!r} as {expect or found.type}"
            if found.refused is not None:
                kind, sentence = found.refused
                assert kind in FAULTS, f"{shown}: {kind}"
                assert sentence, shown
                named = kind != "value" or re.search(r"\bcolumn |\bv\b|'v'", sentence)
                assert named, f"{shown}: {sentence}"
                counts["refused"] += 1
                continue
            counts["taken"] += 1
            taken.append(place)
            assert found.type is not None
            if expect is not None:
                assert str(found.type) == expect, shown
            assert found.text is None or holds(found.type, found.text), f"{shown}: {found.text!r}"
        if envelope.bulk_reader is not None:
            usual = [table.messages[place] for place in taken * 2]
            batches = [archive(usual)] if usual else []
            batches.append(archive([*usual[:20], *table.messages]))
            slowly, _ = read(envelope, streams, batches, in_bulk=False)
            quickly, in_bulk = read(envelope, streams, batches, in_bulk=True)
            assert quickly == slowly
            counts["at once"] += in_bulk
    return counts


@pytest.mark.parametrize("name", registry.names())
def test_what_is_no_value_of_its_declared_type_is_refused(name, tmp_path):
    envelope = registry.get(name)
    quick = 0
    half = registry.names().index(name) % 2
    for kind in TYPES if EFFORT > 1 else TYPES[half::2]:
        counts = look(envelope, declared_as(envelope, kind, str(tmp_path)), kind)
        assert counts["taken"], f"no value at all is one of {kind}"
        assert counts["refused"] or kind in ANYTHING.get(name, {}), f"everything is a value: {kind}"
        quick += counts["at once"]
    # Lines alone are as alike as this: events of Databus name another schema in each table.
    assert quick > 0 or envelope.bulk_reader is None or name.startswith("databus")


@pytest.mark.parametrize("name", sorted(STATED))
def test_what_is_no_value_of_its_stated_type_is_refused(name, tmp_path):
    envelope, types = registry.get(name), STATED[name]
    dialect = "mysql" if types is _MYSQL else ""
    for kind in types:
        counts = look(envelope, stated_as(envelope, kind, dialect, str(tmp_path)), None)
        assert counts["taken"] >= 2, kind
        assert counts["refused"], kind


@pytest.mark.parametrize("envelope", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("name", CONNECT_NAMES, ids=str)
def test_what_is_no_value_of_the_type_that_its_schema_names_is_refused(envelope, name, tmp_path):
    """The schema may give any type of Kafka Connect any name: then it is wrong about the values."""
    found = registry.get(envelope)
    counts = look(found, named_as(found, name, str(tmp_path)), None)
    assert counts["taken"]
    assert counts["refused"] or (envelope == "debezium-avro" and name is None)
