"""What is carried on beside rows shows nothing that the mapping hides or leaves out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import image
from waybill.batches.change_rows import ChangeRows
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.envelopes import registry
from waybill.mapping.carried import without_statements
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING, parse_type

PEOPLE = intern_schema(
    "shop", None, "people", (Column("id", parse_type("bigint")), Column("email", STRING)), ("id",)
)
AUDIT = intern_schema(
    "shop", None, "audit", (Column("id", parse_type("bigint")), Column("query", STRING)), ("id",)
)
MASKED = Rules(of_tables=(MappingRule(("*.people",), masks={"email": Mask("sha256")}),))
SHOWS_LESS = {
    "mask": MASKED,
    "drop": Rules(of_tables=(MappingRule(("*.people",), drop=("email",)),)),
    "keep": Rules(of_tables=(MappingRule(("*.people",), keep=("id",)),)),
    "where": Rules(of_tables=(MappingRule(("*.people",), where="id > 0"),)),
    "where on all": Rules(of_tables=(MappingRule(("*",), where="id > 0"),)),
    "exclude": Rules(exclude=("shop.hidden",)),
    "include": Rules(include=("shop.people", "shop.audit")),
    "mask and names": Rules(
        of_tables=(MappingRule(("*.people",), {"table": "x"}, masks={"email": Mask("null")}),)
    ),
}
SECRET = "INSERT INTO people VALUES (1, 'alice@x.org')"


def row(schema: Any, extra: bytes | None, operation: str = "insert", place: int = 0) -> Change:
    message = Message("t", 0, place, None, None, None)
    after = image(schema, id="1", **{schema.names[1]: "v"})
    return Change(operation, schema, message, after=after, extra=extra)


def event(schema: Any, text: str | None, extra: bytes | None) -> Change:
    message = Message("t", 0, 0, None, None, None)
    return Change("other", schema, message, ddl_text=text, extra=extra)


def block(**more: Any) -> bytes:
    source = {"connector": "mysql", "db": "shop", "table": "t", "pos": 4, **more}
    return json.dumps({"debezium": {"source": source, "op": "c", "ts_ms": 5}}).encode()


REPEATING = {
    "debezium": block(query=SECRET),
    "oracle": block(redo_sql=SECRET, query=None),
    "a blank": b'{"debezium":{"source":{"connector":"mysql","query" \t: "%b"},"op":"c"}}',
    "escapes": rb'{"debezium":{"source":{"\u0071uery":"%b"},"op":"c"}}',
    "twice": b'{"debezium":{"source":{"query":"%b","query":null},"op":"c"}}',
    "object": b'{"debezium":{"source":{"query":{"text":"%b"}},"op":"c"}}',
    "blank before": b'{"debezium":{"source": {"query":"%b"},"op":"c"}}',
    "moved": b'{"debezium_newkey":{"id":"2"},"debezium":{"source":{"query":"%b"},"op":"d"}}',
    "maxwell": b'{"maxwell":{"xoffset":3,"query":"%b"}}',
    "canal": b'{"canal":{"id":3,"sql":"%b"}}',
}
REPEATING = {name: extra.replace(b"%b", SECRET.encode()) for name, extra in REPEATING.items()}


@pytest.mark.parametrize("rules", SHOWS_LESS.values(), ids=SHOWS_LESS)
@pytest.mark.parametrize("extra", REPEATING.values(), ids=REPEATING)
def test_no_row_repeats_its_statement_where_the_mapping_shows_less(rules, extra):
    """One statement changes rows of several tables, of which a condition takes some."""
    for schema in (PEOPLE, AUDIT):
        (made, *_) = ChangeMapper(rules).map(row(schema, extra))
        assert made is not None
        assert b"alice" not in (made.extra or b"")
        assert list(json.loads(made.extra or b"{}")) == list(json.loads(extra))


@pytest.mark.parametrize("extra", REPEATING.values(), ids=REPEATING)
def test_rows_repeat_their_statement_where_the_mapping_shows_all(extra):
    shows_all = Rules(of_tables=(MappingRule(("*.people",), {"table": "x"}),))
    for rules in (Rules(), shows_all):
        change = row(AUDIT, extra)
        assert ChangeMapper(rules).map(change).change is change


@pytest.mark.parametrize(
    "extra",
    [
        block(query=None, redo_sql=None),
        block(sequence='["1","2"]'),
        b'{"debezium":{"source":{"query" :\n null}}}',
        b'{"canal":{"id":1,"note":"\\u00fc, a query"}}',
        b'{"maxwell":{"query":null}}',
        b'{"debezium_oldkey":true,"ibmcdc":{"\\u0041":"x"}}',
    ],
)
def test_what_repeats_none_stays_byte_by_byte(extra):
    assert without_statements(extra, of_row=True) is extra
    change = row(AUDIT, extra)
    assert ChangeMapper(MASKED).map(change).change is change


def test_columns_of_a_key_may_be_called_as_statements_are():
    key = b'{"debezium_newkey":{"query":"2","sql":"3"},"debezium":{"source":{"query":"x"}}}'
    left = b'{"debezium_newkey":{"query":"2","sql":"3"},"debezium":{"source":{}}}'
    assert without_statements(key, of_row=True) == left
    alone = b'{"debezium_newkey":{"query":"2"},"debezium":{"op":"d"}}'
    assert without_statements(alone, of_row=True) is alone


def test_an_event_that_is_a_statement_keeps_its_text():
    extra = b'{"canal":{"sql":"XA COMMIT \'x\'"}}'
    assert without_statements(extra, of_row=False) is extra
    message = b'{"debezium_message":{"ddl":"x","source":{"pos":1,"query":"INSERT"},"op":"m"}}'
    left = b'{"debezium_message":{"ddl":"x","source":{"pos":1},"op":"m"}}'
    assert without_statements(message, of_row=False) == left


ORACLE = {
    "version": "3.0",
    "connector": "oracle",
    "name": "o",
    "ts_ms": 1,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "schema": "S",
    "table": "people",
    "txId": "a",
    "scn": "1",
    "commit_scn": "2",
    "lcr_position": None,
    "rs_id": "r",
    "ssn": 0,
    "redo_thread": 1,
    "user_name": "u",
    "start_scn": "1",
    "start_ts_ms": 1,
    "commit_ts_ms": 2,
}


def test_fields_of_a_source_block_that_are_known_stay_beside_a_mapped_row():
    """Others may be statements, address the row, or be what a later version adds."""
    more = {"redo_sql": SECRET, "row_id": "AAAS", "query": None, "undo_sql": SECRET, "email": "a"}
    fields = {"source": {**ORACLE, **more}, "op": "c", "ts_ms": 5, "transaction": None}
    extra = json.dumps({"debezium": {**fields, "email_copied": "alice", "data": {"email": "a"}}})
    (made, *_) = ChangeMapper(MASKED).map(row(PEOPLE, extra.encode()))
    assert made is not None
    left = json.loads(made.extra or b"{}")["debezium"]
    assert left == {**fields, "source": ORACLE}


def test_the_keyspace_stays_with_the_name_of_the_database():
    extra = b'{"debezium":{"source":{"connector":"vitess","keyspace":"shop","vgtid":"[]"}}}'
    for names, stays in (({"table": "x"}, True), ({"database": "crm"}, False)):
        rules = Rules(of_tables=(MappingRule(("*",), names),))
        (made, *_) = ChangeMapper(rules).map(row(PEOPLE, extra))
        assert made is not None
        source = json.loads(made.extra or b"{}")["debezium"]["source"]
        assert ("keyspace" in source, source["vgtid"]) == (stays, "[]")


def both_ways(rules: Rules, changes: list[Change]) -> tuple[list[Any], list[Any]]:
    """What is carried on of changes that are taken, in bulk and one by one."""
    envelope = registry.get("canal")
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    batch = ChangeRows(decoder, "b1").rows(changes)
    found = pa.Table.from_batches(MappedDecoding(rules, TableRules(), bags=None).of([batch]))
    rows = [one for one in found.to_pylist() if one["outcome"] != "schema"]
    bulk = [one["extra"] if one["outcome"] == "ok" else one["outcome"] for one in rows]
    exact = []
    for change in changes:
        made, *_ = ChangeMapper(rules).map(change)
        exact.append("skipped" if made is None else made.extra and made.extra.decode())
    return bulk, exact


@pytest.mark.parametrize("rules", SHOWS_LESS.values(), ids=SHOWS_LESS)
def test_in_bulk_as_one_by_one(rules):
    extras = [*REPEATING.values(), None, block(query=None)]
    changes = [
        row(schema, extra, place=place)
        for place, (schema, extra) in enumerate((s, e) for s in (PEOPLE, AUDIT) for e in extras)
    ]
    bulk, exact = both_ways(rules, changes)
    assert bulk == exact
    assert "alice" not in repr(bulk)


ABOUT_ROWS = (
    "UPDATE audit a JOIN people p ON p.id = a.id SET a.x = 1, p.email = 'alice'",
    "INSERT INTO audit SELECT id FROM people WHERE email = 'alice'",
    "CALL add_person('alice')",
    "%% 'alice'",
)
OF_A_TABLE = ("ALTER TABLE audit ADD COLUMN x INT", "TRUNCATE TABLE audit")


@pytest.mark.parametrize("rules", SHOWS_LESS.values(), ids=SHOWS_LESS)
@pytest.mark.parametrize("schema", [PEOPLE, AUDIT], ids=["mapped", "as it is"])
def test_a_statement_about_rows_goes_whatever_table_its_event_names(rules, schema):
    """One statement changes or reads several tables, of which its event names one."""
    repeated = [b'{"canal":{"sql":"%b"}}' % text.encode() for text in ABOUT_ROWS[:3]]
    changes = [event(schema, text, None) for text in ABOUT_ROWS]
    changes += [event(schema, None, extra) for extra in repeated]
    bulk, exact = both_ways(rules, changes)
    assert bulk == exact == ["skipped"] * len(changes)
    assert both_ways(Rules(), changes)[1] == [None] * 4 + [extra.decode() for extra in repeated]


@pytest.mark.parametrize("rules", SHOWS_LESS.values(), ids=SHOWS_LESS)
def test_a_statement_that_defines_a_table_as_it_is_stays(rules):
    bulk, exact = both_ways(rules, [event(AUDIT, text, None) for text in OF_A_TABLE])
    assert bulk == exact == [None] * len(OF_A_TABLE)


NAMES = st.sampled_from(["query", "sql", "redo_sql", "source", "op", "db", "q\\u0075ery"])
VALUES = st.sampled_from(["null", '"alice"', "1", "{}", '"n"', ' {"query":"alice"}', "[]"])


@st.composite
def extras(draw: st.DrawFn) -> bytes:
    """Fields of a family, whose names may stand twice or be spelled with escapes."""
    blank = st.sampled_from(["", " ", "\t\n"])

    def fields(values: st.SearchStrategy[str]) -> str:
        pairs = draw(st.lists(st.tuples(NAMES, blank, values), max_size=4))
        return "{" + ",".join(f'"{n}"{space}:{space}{value}' for n, space, value in pairs) + "}"

    inner = fields(VALUES)
    family = draw(st.sampled_from(["debezium", "maxwell", "canal", "ogg"]))
    return ('{"' + family + '":' + fields(st.one_of(VALUES, st.just(inner))) + "}").encode()


@given(st.lists(extras(), min_size=1, max_size=4), st.sampled_from(list(SHOWS_LESS.values())))
def test_whatever_is_carried_on_in_bulk_as_one_by_one(texts, rules):
    changes = [
        row(schema, extra, place=place)
        for place, (schema, extra) in enumerate((s, e) for s in (PEOPLE, AUDIT) for e in texts)
    ]
    bulk, exact = both_ways(rules, changes)
    assert bulk == exact
    for extra in bulk:
        for fields in json.loads(extra or "{}").values():
            told = isinstance(fields, dict)
            shown = [fields.get(name) for name in ("query", "sql")] if told else []
            source = fields.get("source") if told else None
            if isinstance(source, dict):
                shown += [source.get(name) for name in ("query", "redo_sql")]
            assert not any(shown), (extra, texts)
