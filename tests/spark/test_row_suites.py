"""Suites on rows: what people expect of their data, checked before it is visible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.inprocess.test_converter import canal
from waybill.cli.check import check
from waybill.errors import ConfigurationError, GateError
from waybill.jobs import run_migration, run_stage
from waybill.lake import Lake
from waybill.lake_columns import lake_name
from waybill.validate import trends
from waybill.validate.results import read_page, read_result
from waybill.validate.trends import past_of, verdicts_of

pytestmark = pytest.mark.spark

SECRET = "AKIA-<b>secret</b>"


def messages(count: int, first: int = 0, operation: str = "INSERT") -> list[bytes]:
    return [canal(i, operation) for i in range(first, first + count)]


def expectation(type_: str, severity: str = "critical", **kwargs) -> dict:
    return {
        "type": f"expect_{type_}",
        "kwargs": kwargs,
        "severity": severity,
        "description": f"{kwargs.get('column', type_)} is as it should be.",
    }


def query(sql: str, severity: str = "critical") -> dict:
    return {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": sql},
        "severity": severity,
        "description": "The query finds nothing.",
    }


@pytest.fixture
def judge(spark, migration, tmp_path):
    """Merges messages and lets the gate judge them by suites; the specification and the result."""

    def judging(rows: list[bytes], *suites: dict, batch: str = "b1", **fields):
        names = []
        for number, content in enumerate(suites):
            file = tmp_path / f"suite {number}.json"
            file.write_text(json.dumps({"name": f"own {number}", **content}))
            names.append(str(file))
        spec = migration(quality={"suites": names}, **fields)
        (tmp_path / f"in/{batch}.jsonl").write_bytes(b"".join(m + b"\n" for m in rows))
        run_migration(spec, until="merge", batch=batch, spark=spark)
        try:
            run_stage("validate", spec, batch, spark)
        except GateError:
            assert read_result(spec, batch)["outcome"] == "failed"
        return spec, read_result(spec, batch)

    return judging


def on_rows(*expectations: dict, **meta) -> dict:
    return {"meta": {"rows": "shop.orders", **meta}, "expectations": list(expectations)}


def unmet(result: dict) -> list[dict]:
    return [check for check in result["checks"] if not check["success"]]


def test_rows_of_the_batch_are_judged_by_typed_columns(judge):
    spec, result = judge(
        [*messages(12), canal(3, "DELETE")],
        on_rows(
            expectation("column_values_to_not_be_null", column="id"),
            expectation("column_values_to_be_between", column="id", max_value=8),
            expectation("column_values_to_be_unique", column="id"),
            expectation("column_values_to_be_in_set", column="id", value_set=[1], mostly=0.05),
            expectation("column_max_to_be_between", "warning", column="id", max_value=3),
            expectation(
                "column_values_to_be_between",
                column="id",
                min_value=7,
                row_condition="id > 6",
                condition_parser="spark",
            ),
            query("SELECT * FROM {batch} WHERE id = 5"),
        ),
    )
    assert result["outcome"] == "failed"
    between, greatest, found = unmet(result)
    assert (between["table"], between["unexpected"]) == ("shop.orders", 3)
    assert sorted(o["where"] for o in between["observed"]) == [
        f'{{"id":"{i}"}}' for i in (10, 11, 9)
    ]
    assert all("value" not in o for o in between["observed"])
    assert '--key \'{"id":"9"}\' --held' in between["look"]
    assert greatest["observed"] == []
    assert (found["unexpected"], found["observed"]) == (1, [{"where": '{"id":"5"}'}])
    (cost,) = result["costs"]
    assert (cost["suite"], cost["rows"]) == ("own 0", 11)
    assert cost["jobs"] > 0
    page = read_page(spec, "b1")
    assert "Cost of the suites" in page
    assert "written rows of shop.orders" in page


def test_every_suite_states_what_it_took(spark, migration, tmp_path):
    """The product's own, one on a profile, one on rows; jobs that serve several are not divided."""
    own = tmp_path / "own.json"
    rule = expectation("table_row_count_to_be_between", min_value=0)
    own.write_text(
        json.dumps({"name": "own", "meta": {"profile": "tables"}, "expectations": [rule]})
    )
    rows = tmp_path / "rows.json"
    unique = on_rows(expectation("column_values_to_be_unique", column="id"))
    rows.write_text(json.dumps({"name": "rows", **unique}))
    suites = ["changes", "tables", "trends", str(own), str(rows)]
    spec = migration(quality={"suites": suites})
    (tmp_path / "in/b1.jsonl").write_bytes(b"".join(m + b"\n" for m in messages(5)))
    run_migration(spec, until="validate", batch="b1", spark=spark)
    result = read_result(spec, "b1")
    costs = {cost["suite"]: cost for cost in result["costs"]}
    assert list(costs) == ["changes", "tables", "trends", "own", "rows"]
    assert [costs[name]["jobs"] for name in ("changes", "tables", "trends", "own")] == [0] * 4
    assert costs["rows"]["jobs"] > 0
    assert all(cost["seconds"] > 0 for cost in costs.values())
    shared = {cost["what"]: cost for cost in result["shared"]}
    assert shared["loading Great Expectations"]["suites"] == list(costs)
    assert shared["making the profile tables"]["suites"] == ["tables", "own"]
    assert shared["making the profile changes"]["seconds"] > 0
    page = read_page(spec, "b1")
    assert "making the profile changes" in page


def test_what_looks_at_one_value_at_a_time_is_one_job(judge):
    columns = [
        expectation("column_values_to_not_be_null", column="id"),
        expectation("column_values_to_be_between", column="id", min_value=0),
        expectation("column_values_to_be_in_set", column="id", value_set=list(range(50))),
        expectation("column_values_to_match_regex", column="note", regex="."),
    ]
    _, result = judge(messages(5), on_rows(columns[0]), on_rows(*columns))
    one, several = (cost["jobs"] for cost in result["costs"])
    assert result["outcome"] == "passed"
    assert several == one


def test_all_rows_of_a_table_and_those_of_the_batch(judge):
    """The second batch passes on its own rows, not on those that were there."""
    low = expectation("column_values_to_be_between", "warning", column="id", min_value=10)
    twice = expectation("table_row_count_to_equal", "warning", value=4)
    suites = (on_rows(low, twice, of="batch"), on_rows(low, twice, of="table"))
    judge(messages(3), *suites)
    _, result = judge(messages(4, first=10), *suites, batch="b2")
    assert result["outcome"] == "passed"
    low_of_table, rows_of_table = unmet(result)
    assert (low_of_table["suite"], low_of_table["unexpected"]) == ("own 1", 3)
    assert rows_of_table["observed"] == [{"where": "", "value": 7}]


def test_a_batch_that_has_nothing_to_look_at(judge):
    """A table that is not there yet, one that the batch leaves alone, one of which no row is left:
    nothing is wrong with rows that are not there, and the report says why."""
    missing = {**on_rows(expectation("column_values_to_not_be_null", column="id"))}
    missing["meta"] = {"rows": "shop.ordres"}
    notes = {**missing, "meta": {"rows": "shop.notes", "of": "table"}}
    orders = on_rows(
        expectation("column_max_to_be_between", column="id", max_value=1),
        expectation("table_row_count_to_be_between", "warning", min_value=1),
        of="table",
    )
    rows = [canal(1, table="notes"), *messages(3)]
    later = {"order": {"ambiguous": "source_time"}}
    judge(rows, notes, **later)
    gone = [canal(i, "DELETE", es=1790000000000) for i in range(3)]
    spec, result = judge(gone, missing, notes, orders, batch="b2", **later)
    assert result["outcome"] == "passed"
    assert [check["note"] for check in result["checks"]] == [
        "no batch has changes of shop.ordres yet; did you mean 'shop.orders'?",
        "the batch changes nothing in shop.notes",
        "there are no rows",
        "",
    ]
    (count,) = unmet(result)
    assert count["observed"] == [{"where": "", "value": 0}]
    assert "no batch has changes of shop.ordres yet" in read_page(spec, "b2")


def test_what_cannot_be_checked_holds_the_batch_and_quotes_no_value(judge):
    """A column that the table lacks, one of Waybill's own, arguments of another type, SQL that
    breaks, a cast that Spark refuses at a row: the other expectations are checked all the same."""
    rows = [canal(i, data=[{"id": str(i), "total": "1", "note": SECRET}]) for i in range(3)]
    spec, result = judge(
        rows,
        on_rows(
            expectation("column_values_to_not_be_null", column="nte"),
            expectation("column_values_to_not_be_null", column="_waybill_key"),
            expectation("column_values_to_be_between", column="note", max_value=3),
            query("SELECT nope FROM {batch}"),
            query("SELECT CAST(note AS int) AS n FROM {batch}"),
            expectation("column_values_to_match_regex", column="note", regex="(a"),
            expectation("column_values_to_be_between", column="id", min_value=1),
        ),
    )
    lacks, own, other_type, unresolved, cast, regex, checked = unmet(result)
    assert lacks["error"] == "there is no column 'nte'; did you mean 'note'?"
    assert own["error"].startswith("there is no column '_waybill_key'")
    assert "cannot be computed on column of type" in other_type["error"]
    assert "UNRESOLVED_COLUMN" in unresolved["error"]
    assert "nope" in unresolved["error"]
    assert cast["error"] == "Spark says CAST_INVALID_INPUT"
    assert regex["error"].startswith("Spark says ")
    assert "pattern" in regex["error"].lower()
    assert (checked["error"], checked["unexpected"]) == (None, 1)
    for text in (json.dumps(result), read_page(spec, "b1")):
        assert "AKIA" not in text


def test_values_are_shown_where_the_suite_asks_for_them(judge):
    """And no more than ten rows, whatever they hold; a page that shows them runs nothing."""
    rows = [canal(i, data=[{"id": str(i), "total": "1", "note": SECRET}]) for i in range(12)]
    length = expectation("column_value_lengths_to_be_between", column="note", max_value=3)
    pair = expectation("column_pair_values_to_be_equal", column_A="id", column_B="total")
    common = expectation("column_most_common_value_to_be_in_set", column="note", value_set=["z"])
    few = query("SELECT * FROM {batch} WHERE id = 5")
    suites = [
        on_rows(length, pair, common, few, show_values=shown) for shown in ([], ["note"], True)
    ]
    spec, result = judge(rows, *suites)
    hidden, noted, shown = (
        [check for check in unmet(result) if check["suite"] == f"own {number}"]
        for number in range(3)
    )
    assert "AKIA" not in json.dumps(hidden)
    assert {len(check["observed"]) for check in (hidden[0], noted[0], shown[0])} == {10}
    assert {check[0]["unexpected"] for check in (hidden, noted, shown)} == {12}
    assert noted[0]["observed"][0]["value"] == f"note {SECRET}"
    assert "value" not in noted[1]["observed"][0]
    assert "id " in shown[1]["observed"][0]["value"]
    assert hidden[2]["observed"] == []
    assert SECRET in noted[2]["observed"][0]["value"]
    assert noted[3]["observed"] == [{"where": '{"id":"5"}', "value": f"note {SECRET}"}]
    page = read_page(spec, "b1")
    assert "<b>secret" not in page
    assert "&lt;b&gt;secret" in page


def test_changes_and_messages_to_publish(judge, tmp_path):
    """Images before and after in the types of the table, under the names that suites use; a key of
    several columns."""
    types = {"mysqlType": {"a b": "bigint", "c": "varchar(9)", "n.1": "decimal(9,2)"}}
    shape = {"pkNames": ["a b", "c"], **types, "sqlType": {}}

    def change(i, kind, **fields):
        row = {"a b": str(i), "c": "x", "n.1": str(i + 0.5)}
        old = [{"n.1": "100.00"}] if kind == "UPDATE" else None
        return canal(i, kind, **{"data": [row], **shape, "old": old, **fields})

    rows = [change(1, "INSERT"), change(1, "UPDATE", id=8, es=1700000000009), change(2, "INSERT")]
    number = lake_name("n.1", ())
    names = {"meta": {"changes": "shop.orders"}}
    _spec, result = judge(
        rows,
        {
            **names,
            "expectations": [
                expectation("column_values_to_be_in_set", column="operation", value_set=["insert"]),
                expectation("column_values_to_be_between", column="after.a b", max_value=1),
                query(f"SELECT * FROM {{batch}} WHERE before.{number} > after.{number}"),
                expectation(
                    "column_values_to_be_between", column="source_time", min_value="2020-01-01"
                ),
            ],
        },
        {
            "meta": {"published": "maxwell", "show_values": ["value_bytes"]},
            "expectations": [
                expectation("column_values_to_be_between", column="value_bytes", max_value=9),
                expectation("column_values_to_be_json_parseable", column="value"),
                expectation("table_row_count_to_equal", value=2),
            ],
        },
        publish=[{"envelope": "maxwell", "files": {"path": str(tmp_path / "out")}}],
    )
    operation, key, fell, size, count = unmet(result)
    one = '{"a b":"1","c":"x"}'
    assert operation["observed"] == [{"where": one}]
    assert key["observed"] == [{"where": '{"a b":"2","c":"x"}'}]
    assert (fell["unexpected"], fell["observed"]) == (1, [{"where": one}])
    assert {o["where"] for o in size["observed"]} == {f"shop/0/{i}/0" for i in range(3)}
    assert size["observed"][0]["value"].startswith("value_bytes ")
    assert count["observed"] == [{"where": "", "value": 3}]


def test_a_suite_over_messages_to_nobody_is_refused(judge):
    nobody = {
        "meta": {"published": "maxwel"},
        "expectations": [expectation("table_row_count_to_equal", value=2)],
    }
    with pytest.raises(ConfigurationError, match="there is no target 'maxwel'"):
        judge(messages(1), nobody)


def test_a_table_of_2000_columns(judge):
    wide = {f"c{i}": "1" for i in range(1999)}
    row = canal(1, data=[{"id": "1", **wide}], mysqlType=dict.fromkeys(["id", *wide], "bigint"))
    rules = [
        expectation("column_values_to_be_between", "warning", column=f"c{i}", min_value=2)
        for i in range(0, 1999, 200)
    ]
    _, result = judge([row], on_rows(*rules))
    assert [check["unexpected"] for check in unmet(result)] == [1] * 10


def test_check_runs_suites_on_rows_over_the_sample(spark, migration, tmp_path):
    """Over the rows that it leaves, its changes and its messages, as the gate will."""
    (tmp_path / "in").mkdir()
    rows = [*messages(5), canal(1, "UPDATE", id=9), canal(2, "DELETE", id=10)]
    (tmp_path / "in/0.jsonl").write_bytes(b"".join(m + b"\n" for m in rows))
    positive = expectation("column_values_to_be_between", column="id", min_value=1)
    suites = [
        on_rows(
            positive,
            expectation("column_value_lengths_to_be_between", column="note", min_value=1),
            expectation("table_row_count_to_equal", value=4),
        ),
        on_rows(expectation("column_values_to_not_be_null", column="idd")),
        {**on_rows(positive), "meta": {"rows": "shop.ordres"}},
        {
            "meta": {"changes": "shop.orders"},
            "expectations": [
                query("SELECT * FROM {batch} WHERE operation = 'delete' AND before.id = 2"),
                expectation("column_values_to_not_be_null", column="source_time"),
            ],
        },
        {
            "meta": {"published": "maxwell"},
            "expectations": [expectation("table_row_count_to_equal", value=7)],
        },
        {"meta": {"published": "maxwel"}, "expectations": [positive]},
        on_rows({"type": "expect_the_moon", "kwargs": {}}),
    ]
    names = []
    for number, content in enumerate(suites):
        names.append(str(tmp_path / f"{number}.json"))
        Path(names[-1]).write_text(json.dumps({"name": f"own {number}", **content}))
    publish = [{"envelope": "maxwell", "files": {"path": str(tmp_path / "out")}}]
    spec = migration(quality={"suites": names}, publish=publish)
    found: dict[str, list[str]] = {}
    for finding in check(spec):
        found.setdefault(finding.about, []).append(f"{finding.verdict} {finding.text}")
    lines = [found[f"suite {name}"] for name in names]
    assert lines[0] == [
        "ok 3 expectations can be checked, 2 are met",
        'note the sample does not meet (critical): id is as it should be (1 row: {"id":"0"})',
    ]
    assert lines[1] == [
        "wrong cannot be checked: idd is as it should be; not checked: there is no column 'idd'; "
        "did you mean 'id'?"
    ]
    assert lines[2] == [
        "note 1 expectation can be checked; the sample has no written rows of shop.ordres to check "
        "them on"
    ]
    assert lines[3] == [
        "ok 2 expectations can be checked, 1 is met",
        'note the sample does not meet (critical): The query finds nothing (1 row: {"id":"2"})',
    ]
    assert lines[4] == ["ok 1 expectation can be checked, 1 is met"]
    assert "there is no target 'maxwel'" in lines[5][0]
    assert "expect_the_moon" in lines[6][0]
    assert [text[:5] for text in (lines[5][0], lines[6][0])] == ["wrong", "wrong"]


def test_rules_over_time_look_at_what_the_gate_kept_of_the_batches_before(
    spark, judge, migration, tmp_path, monkeypatch
):
    """The second batch takes six of ten rows away: a warning, which lets it pass."""
    later = {"order": {"ambiguous": "source_time"}}
    judge(messages(10), on_rows(expectation("column_values_to_not_be_null", column="id")), **later)
    spec = migration(quality={"suites": ["trends"]}, **later)
    gone = [canal(i, "DELETE", es=1790000000000) for i in range(6)]
    (tmp_path / "in/b2.jsonl").write_bytes(b"".join(m + b"\n" for m in gone))
    run_migration(spec, until="validate", batch="b2", spark=spark)
    result = read_result(spec, "b2")
    (fell,) = unmet(result)
    assert (fell["arguments"]["column"], fell["severity"]) == ("rows_fell", "warning")
    assert fell["observed"] == [{"where": "shop.orders", "value": 0.6}]
    assert fell["look"] == "waybill table FILE shop.orders"
    topic, table = result["profiles"]["trends"]
    assert (topic["kind"], topic["messages"], topic["batches"]) == ("topic", 6, 1)
    assert (table["rows"], table["rows_before"], table["messages_off"]) == (4, 10, None)
    # The first batch's partition has stood still since 2023, and a newer change has come beside it.
    assert table["complete_age"] > 90_000_000
    assert table["age"] < table["complete_age"] - 80_000_000
    lake = Lake.open(spark, spec)
    assert [batch.tables["shop.orders"]["rows"] for batch in past_of(verdicts_of(lake))] == [10, 4]
    monkeypatch.setattr(Lake, "known_since", lambda *_: 1)
    assert [batch.tables["shop.orders"]["rows"] for batch in past_of(verdicts_of(lake))] == [4]
    monkeypatch.setattr(trends, "HISTORY", 1)
    assert [batch.tables["shop.orders"]["rows"] for batch in past_of(verdicts_of(lake))] == [4]
