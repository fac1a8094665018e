"""What drafts are made of: guesses of keys and types, and YAML that is read back as meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.cli.drafts.conversation import Conversation
from waybill.cli.drafts.key_guesses import key_guesses
from waybill.cli.drafts.source_look import _name_of
from waybill.cli.drafts.type_guesses import type_guess
from waybill.cli.drafts.yaml_text import DECIDE, Node, field_text, scalar, written
from waybill.spec.values import check_migration_name
from waybill.spec.yaml_lines import read_marked

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def unescaped(value):
    """As the loader of migrations fills in `$${`."""
    if isinstance(value, str):
        return value.replace("$${", "${")
    if isinstance(value, list):
        return [unescaped(one) for one in value]
    if isinstance(value, dict):
        return {name: unescaped(one) for name, one in value.items()}
    return value


@given(TEXTS, VALUES)
def test_every_name_and_value_is_read_back_as_it_is(name, value):
    # What begins with `$${` already is no name of a file or column that would be written here.
    text = f"{field_text(name)}: {scalar(value)}\n"
    assert unescaped(read_marked(text).data) == unescaped({name: value})


@given(TEXTS, TEXTS, TEXTS)
def test_no_note_and_no_sentence_ends_its_comment(note, sentence, value):
    nodes = [
        Node("set", scalar(value), note=note, decide=[sentence]),
        Node("around", parts=[Node("off", scalar(value), decide=[sentence], active=False)]),
        Node("list", parts=[Node("", parts=[Node("a", "1", decide=[sentence]), Node("b", "2")])]),
    ]
    lines = list(written(nodes))
    data = read_marked("\n".join(lines)).data
    assert unescaped(data) == unescaped({"set": value, "list": [{"a": 1, "b": 2}]})
    assert sum(line.lstrip().startswith(f"# {DECIDE}") for line in lines) == 3


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-7"], "bigint"),
        (["18446744073709551615", "0"], "bigint unsigned"),
        (["18446744073709551615", "-1"], "decimal(38,0)"),
        (["1" * 39], None),
        (["1" * 5000], None),
        (["1.10", "5"], "decimal(38,2)"),
        (["1e3", "5"], "double"),
        (["2026-11-20", "1999-01-01"], "date"),
        (["2026-11-20 08:00:00", "2026-11-20T08:00:00.5"], "timestamp"),
        (["2026-11-20T08:00:00Z"], "timestamptz"),
        (["08:00:00"], "time"),
        (["2026-11-20", "soon"], None),
        (["2026-13-45"], None),
        (["1", "x"], None),
        ([""], None),
        ([], None),
    ],
)
def test_a_type_holds_all_values_or_none_is_proposed(values, type_):
    guess = type_guess(values)
    assert (guess and guess.type) == type_


def test_numbers_that_may_be_instants_are_reported():
    guess = type_guess(["1605339516", "1700000000"])
    assert guess.type == "bigint"
    assert "perhaps seconds since 1970" in guess.why
    (other,) = guess.others
    assert other.type == "timestamptz"
    assert "perhaps" not in other.why
    assert "milliseconds" in type_guess(["1605339516000"]).why
    assert type_guess(["1605339516", "5"]).others == []


def rows(**columns):
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ({"name": "abc", "id": "123"}, ("id",)),
        ({"name": "abc", "note": "def"}, ("name",)),
        ({"name": "aab", "no": "121"}, ("no", "name")),
        ({"name": "aab", "id": [None, "1", "2"]}, None),
        ({"name": "aaa", "note": "bbb"}, None),
    ],
)
def test_keys_are_columns_that_no_two_rows_share(columns, first):
    found = key_guesses(rows(**columns), rows(**columns))
    assert (set(found[0].columns) if found else None) == (None if first is None else set(first))


def test_a_key_is_in_every_row():
    new = rows(id="123", code="abc")
    assert [guess.columns for guess in key_guesses(new, new)] == [("id",), ("code",)]
    assert [g.columns for g in key_guesses(new, [*new, {"code": "d"}])] == [("code",)]
    assert key_guesses([], new) == []
    assert "the only new row" in key_guesses(new[:1], new)[0].sentence


@given(TEXTS)
def test_a_name_that_is_made_of_anything_is_one_of_a_migration(text):
    check_migration_name(_name_of(text))


def test_an_answer_is_asked_for_again_until_it_can_be(monkeypatch):
    answers = iter(["maybe", "Y"])
    monkeypatch.setattr("builtins.input", lambda *_: next(answers))
    talk = Conversation()
    assert talk.confirm("Sure [bold]") is True
