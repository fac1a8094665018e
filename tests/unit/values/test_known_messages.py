"""Messages that say nothing but what was declared of them."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from waybill.values.known_messages import KnownMessage, strict
from waybill.values.values import JSON_ERRORS

MEMBERS = {
    "table": Literal["t"],
    "commit-time": str | None | UnsetType,
    "schema": Raw | UnsetType,
    "row": strict({"a": int, "b": str | None | UnsetType}),
}
DECODE = KnownMessage(strict(MEMBERS, absent=["old"]))


def test_members_have_their_names_and_what_they_are_without():
    found = DECODE(b'{"table":"t","row":{"a":1}}')
    assert (found.table, found.commit_time, found.schema, found.old) == (
        "t",
        UNSET,
        UNSET,
        None,
    )
    assert (found.row.a, found.row.b) == (1, UNSET)


@pytest.mark.parametrize(
    "value",
    [
        b'{"table":"t","commit-time":"x","schema":[1],"row":{"a":1,"b":"y\\"z"}}',
        b'{ "row" : {"b":null,"a":1}, "commit-time":"\\u00e9", "table":"t", "schema":"s" }',
    ],
)
def test_all_of_a_message_is_decoded(value):
    assert msgspec.json.decode(msgspec.json.encode(DECODE(value))) == {
        "commit-time": None,
        **msgspec.json.decode(value),
    }


@pytest.mark.parametrize(
    "value",
    [
        b'{"table":"t","table":"t","row":{"a":1}}',
        b'{"table":"t","row":{"a":1,"b":"x","b":"y"}}',
        b'{"table":"t","row":{"a":1},"\\u0072ow":{"a":1}}',
        b'{"table":"t","schema":{"x":1},"schema":null,"row":{"a":1}}',
    ],
)
def test_a_name_that_stands_twice_is_seen(value):
    assert DECODE(value) is None


@pytest.mark.parametrize(
    "value",
    [
        b'{"table":"u","row":{"a":1}}',
        b'{"table":"t"}',
        b'{"table":"t","row":{"a":1},"more":1}',
        b'{"table":"t","row":{"a":1,"more":null}}',
        b'{"table":"t","row":{"a":1}',
        b"",
    ],
)
def test_another_message_is_none_of_them(value):
    with pytest.raises(JSON_ERRORS):
        DECODE(value)


def test_names_that_python_cannot_spell_are_members_too():
    names = ["class", "a b", "__init__", "a-b", "a_b", "é", "_tidb"]
    kind = strict(dict.fromkeys(names, int))
    value = msgspec.json.encode(dict(zip(names, range(7), strict=True)))
    found = KnownMessage(kind)(value)
    assert [getattr(found, field) for field in kind.__struct_fields__] == list(range(7))
    assert (found.a_b, found._tidb) == (3, 6)


def test_a_message_in_other_ways_may_be_looked_at_once_more():
    decode = KnownMessage(strict({"a": int}), lambda value: b"-0" in value)
    assert decode(b'{"a":0}').a == 0
    assert decode(b'{"a": 0}').a == 0
    assert decode(b'{"a":-0}') is None
