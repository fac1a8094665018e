"""Which operation a statement is, whatever stands before and between its words."""

from __future__ import annotations

import pytest

from tests.contract.probes import change
from waybill.envelopes import registry
from waybill.envelopes.maxwell.events import statement_type
from waybill.envelopes.statements import operation_of

STATEMENTS = {
    "ALTER": [
        "alter table t add c int",
        "/* c */ alter table t add c int",
        "-- c\nALTER TABLE t ADD c int",
        "# c\nALTER TABLE t ADD c int",
        "ALTER ONLINE TABLE t ADD c int",
        "ALTER IGNORE TABLE t ADD c int",
        "ALTER OFFLINE IGNORE TABLE t ADD c int",
        "ALTER/**/TABLE t ADD c int",
    ],
    "CREATE": [
        "create table t (id int)",
        "CREATE OR REPLACE TEMPORARY TABLE t (id int)",
        "CREATE TABLE`t`(id int)",
        "create global temporary table t (id int)",
    ],
    "ERASE": ["drop table t", "DROP /* x */ TEMPORARY TABLE IF EXISTS t", "drop tables t, u"],
    "RENAME": ["rename table a to b", "RENAME TABLES a TO b"],
    "CINDEX": ["create index i on t (a)", "CREATE ONLINE UNIQUE INDEX i ON t (a)"],
    "DINDEX": ["drop index i on t", "DROP ONLINE INDEX i ON t"],
    "QUERY": [
        "create view v as select 1",
        "/*!40000 ALTER TABLE t DISABLE KEYS */",
        "alter tablespace s add datafile 'f'",
        "create procedure p() drop table t",
        "",
    ],
}
CASES = [(op, text) for op, texts in STATEMENTS.items() for text in texts]


@pytest.mark.parametrize(("operation", "text"), CASES)
def test_the_operation_is_that_of_the_statement(operation, text):
    assert operation_of(text) == operation


@pytest.mark.parametrize("target", ["datahub-blob", "canal", "oms-canal", "oms-dataworks"])
@pytest.mark.parametrize(("operation", "text"), [case for case in CASES if case[1]])
def test_it_is_written_by_every_envelope_that_has_operations(target, operation, text):
    envelope = registry.get(target)
    assert envelope.encoder is not None
    encoder = envelope.encoder(envelope.encode_settings())
    (written,) = encoder.encode(change("ddl", ddl_text=text), [])
    name = b'"type"' if "canal" in target else b'"op"'
    assert name + b':"%b"' % operation.encode() in written.value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/* c */ create database d", "database-create"),
        ("alter schema d character set utf8", "database-alter"),
        ("DROP /* c */ TEMPORARY TABLE t", "table-drop"),
        ("ALTER ONLINE TABLE t ADD c int", "table-alter"),
    ],
)
def test_maxwell_has_types_of_its_own(text, kind):
    assert statement_type(text) == kind


def test_a_long_row_of_comments_is_recognised_in_one_pass():
    assert operation_of("/* c */ " * 50_000 + "alter x") == "QUERY"


def test_ddlmeta_is_counted_as_lost_where_it_has_to_be_made():
    envelope = registry.get("datahub-blob")
    assert envelope.encoder is not None
    losses: list[str] = []
    envelope.encoder(envelope.encode_settings()).encode(
        change("ddl", ddl_text="alter table t add c int"), losses
    )
    assert losses == ["ddl"]
    assert "ddlMeta" in envelope.partly["ddl"]
    kept = b'{"streamx":{"op":"ALTER","ddlMeta":"rO0="}}'
    losses.clear()
    (written,) = envelope.encoder(envelope.encode_settings()).encode(
        change("ddl", ddl_text="alter table t add c int", extra=kept), losses
    )
    assert losses == []
    assert b'"ddlMeta":"rO0="' in written.value


def test_a_truncate_of_another_table_than_the_message_names_is_refused():
    from waybill.errors import Refusal
    from waybill.records import Message
    from waybill.tables import TableRules

    envelope = registry.get("datahub-blob")
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), TableRules({}))
    text = (
        b'{"schema":{"source":{"dbType":"MySQL","dbName":"d","tableName":"t"}},"payload":{"op":'
        b'"TRUNCATE","sequenceId":"5","ddl":{"text":"truncate table %b"},"timestamp":'
        b'{"eventTime":1605339932000}},"version":"0.0.1"}'
    )
    for other in (b"zzz", b"e.t"):
        with pytest.raises(Refusal, match=r"the message names d\.t"):
            decoder.decode(Message("t", 0, 0, None, None, text % other))
    (found,) = decoder.decode(Message("t", 0, 0, None, None, text % b"`d`.T"))
    assert found.operation == "truncate"
