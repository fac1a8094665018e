"""`waybill check` holds what a migration declares against its messages, and runs its suites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import waybill
from tests.unit.cli.test_envelopes_and_check import migration
from tests.unit.inprocess.test_converter import canal, history
from waybill.cli.check import check
from waybill.cli.check_tables import is_value
from waybill.cli.findings import WRONG
from waybill.spec.file import load_migration
from waybill.types import parse_type

ORDERS = "shop.orders"


def findings(file: Path, code: int = 0) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    every = list(check(load_migration(file)))
    for finding in every:
        found.setdefault(finding.about, []).append(f"{finding.verdict} {finding.text}")
    assert any(finding.verdict == WRONG for finding in every) is bool(code), found
    return found


def proofs(tmp_path: Path, tables: dict, source: list[bytes] | None = None, code: int = 0, **more):
    file = migration(tmp_path, source or history(6), tables=tables, **more)
    return findings(file, code)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders", "wrong no table is called orders: write it with its database, shop.orders"),
        ("shop.order", "wrong no message of the source has a table shop.order: fix the name"),
        ("shop.x*", "wrong no message of the source has a table shop.x*: fix the name"),
    ],
)
def test_a_table_that_no_message_has(tmp_path, name, said):
    (found,) = proofs(tmp_path, {name: {"key": ["id"]}}, code=2)[f"tables.{name}"]
    assert found.startswith(said)


def test_a_table_that_may_come_later_is_reported_as_not_proven(tmp_path):
    found = proofs(tmp_path, {"shop.later": {"key": ["id"]}}, history(1100))
    (text,) = found["tables.shop.later"]
    assert text.startswith("note no message of the sample has it, so its key and its types are")


def test_a_key_column_that_does_not_exist(tmp_path):
    found = proofs(tmp_path, {ORDERS: {"key": ["idd"]}}, code=2)["tables.shop.orders"]
    assert "wrong key: shop.orders has no column idd: name columns that its rows have" in found[0]


def test_a_pattern_is_held_against_every_table_that_it_fits(tmp_path):
    types = {"mysqlType": {"no": "bigint"}, "sqlType": {"no": -5}}
    other = canal(2, table="other", data=[{"no": "1"}], pkNames=["no"], old=None, **types)
    source = [canal(1), other]
    found = proofs(tmp_path, {"shop.*": {"key": ["id"]}}, source, 2)["tables.shop.*"]
    assert [text for text in found if text.startswith("wrong")] == [
        "wrong key: shop.other has no column id: name columns that its rows have; did you mean "
        "'id'?"
    ]


def test_a_type_that_does_not_hold_the_values(tmp_path):
    source = [
        json.dumps(
            {
                **json.loads(canal(1, mysqlType=None, sqlType=None)),
                "data": [{"id": "1", "a": "x", "b": "7", "n": None}],
                "old": None,
            }
        ).encode()
    ]
    columns = {"a": "bigint", "b": "tinyint", "n": "int", "zz": "date"}
    found = proofs(tmp_path, {ORDERS: {"key": ["id"], "columns": columns}}, source, 2)
    texts = found.get("tables.shop.orders", []) + found["sample"]
    # An envelope that holds values against types itself refuses the message.
    assert any("'x'" in text or "column 'a'" in text for text in texts if text[:2] != "ok")
    assert any("columns.zz: no row of the sample has such a column" in text for text in texts)


@pytest.mark.parametrize(
    ("type_", "instead"),
    [("decimal(10,20)", "decimal(20,20)"), ("numeric(0)", "decimal(1,0)"), ("bit(0)", "bit(8)")],
)
def test_a_type_that_has_no_value(tmp_path, type_, instead):
    columns = {ORDERS: {"columns": {"total": type_}}}
    done = waybill("check", migration(tmp_path, history(1), tables=columns))
    assert done.returncode == 2
    assert instead in done.stderr.decode()


@pytest.mark.parametrize(
    ("type_", "text", "holds"),
    [
        ("tinyint", "127", True),
        ("tinyint", "300", False),
        ("tinyint unsigned", "255", True),
        ("bigint unsigned", "18446744073709551615", True),
        ("bigint", "18446744073709551615", False),
        ("bigint", "a", False),
        ("bigint", "1.0", False),
        ("decimal(60,20)", "1.5", True),
        ("decimal(3,1)", "100", False),
        ("decimal(3,1)", "1.25", False),
        ("decimal(3,1)", "-1.50", True),
        ("bit(3)", "BQ==", True),
        ("bit(3)", "CQ==", False),
        ("date", "2023-02-30", False),
        ("date", "2024-02-29", True),
        ("date", "2024-05-06 07:08:09", False),
        ("time", "2024-05-06 07:08:09", False),
        ("timestamptz", "2024-05-06 07:08:09", False),
        ("timestamptz(9)", "2024-05-06 07:08:09.123456789", False),
        ("timestamptz(9)", "2024-05-06T07:08:09.123456789Z", True),
        ("boolean", "1", False),
        ("varchar(3)", "anything", True),
    ],
)
def test_values_of_types(type_, text, holds):
    assert is_value(text, parse_type(type_)) is holds


def suite(tmp_path: Path, profile: str, *expectations: dict) -> str:
    file = tmp_path / "mine.json"
    data = {"name": "mine", "meta": {"profile": profile}, "expectations": list(expectations)}
    file.write_text(json.dumps(data))
    return str(file)


def between(column: str, **kwargs: object) -> dict:
    kwargs = {"column": column, **kwargs}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs}


@pytest.mark.parametrize(
    ("profile", "expectation", "said"),
    [
        ("changes", {"type": "expect_the_moon", "kwargs": {}}, "expect_the_moon"),
        ("tables", between("no_such_column", min_value=0), "no_such_column"),
        ("changes", between("refused", min_value="x", max_value={}), "suite mine"),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_an_expectation_that_cannot_be_checked(tmp_path, profile, expectation, said, empty, caplog):
    """Whether or not there is a message to hold it against."""
    name = suite(tmp_path, profile, between("refused" if profile == "changes" else "rows"))
    name = suite(tmp_path, profile, expectation)
    source = [b""] if empty else history(2)
    found = findings(migration(tmp_path, source, quality={"suites": [name]}), 2)
    (text,) = found[f"suite {name}"]
    assert text.startswith("wrong")
    assert said in text
    # What is wrong is a finding, and no traceback in between. A library that loads may warn.
    assert not [record for record in caplog.records if record.name != "py.warnings"]


def test_what_only_the_conversion_refuses_is_reported_of_the_sample(tmp_path):
    """A decoder takes it: the time is looked at when the row is."""
    clock = canal(1, data=[{"id": "1", "v": "2024-05-06 07:08:09"}], old=None)
    found = proofs(tmp_path, {ORDERS: {"columns": {"v": "time"}}}, [*history(3), clock], code=2)
    (text,) = found["sample"]
    assert "1 is refused (offset 3: column 'v' is time, and" in text
    assert any("time does not hold the values" in text for text in found["tables.shop.orders"])


def test_suites_are_run_over_what_the_sample_has(tmp_path):
    rows = [*history(6), b"{"]
    name = suite(
        tmp_path,
        "changes",
        between("accepted", min_value=6, max_value=6),
        between("refused_messages", min_value=1, max_value=1),
        between("messages", min_value=7, max_value=7),
        between("messages", min_value=1_000_000) | {"severity": "warning"},
    )
    quality = {"suites": ["changes", "tables", "trends", name], "max_refused_share": 0.5}
    found = findings(migration(tmp_path, rows, quality=quality))
    assert found["suite tables"][0].startswith("ok 4 expectations can be checked, 4 are met")
    assert found["suite trends"][0].startswith("ok 5 expectations can be checked, 5 are met")
    met, unmet = found[f"suite {name}"]
    assert met == "ok 4 expectations can be checked, 3 are met"
    assert unmet.startswith("note the sample does not meet (warning)")
    assert found["suites"][0].startswith("note not proven by a sample")


@pytest.mark.parametrize(
    ("text", "proves"),
    [("2024-05-06T07:08:09.123456789", True), ("2024-05-06T07:08:09", True), ("a", False)],
)
def test_a_time_with_nine_digits_is_held_against_the_calendar(text, proves):
    assert is_value(text, parse_type("timestamp(9)")) is proves


@pytest.mark.parametrize(
    ("connection", "wrong"),
    [
        ("aws://key@", ["alerts: the connection ops is of type aws, and messages are sent by"]),
        ("smtp://mail.example.org", []),
        ("", []),
    ],
)
def test_alerts_go_to_connections_that_send(tmp_path, monkeypatch, connection, wrong):
    monkeypatch.setenv("AIRFLOW_CONN_OPS", connection)
    file = migration(tmp_path, history(6), alerts={"to": "ops"})
    found = [one.text for one in check(load_migration(file)) if one.about == "alerts"]
    assert [text[: len(start)] for text, start in zip(found, wrong, strict=True)] == wrong
