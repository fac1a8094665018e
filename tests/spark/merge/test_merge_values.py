"""Merged values: exact for every type, and refused where a column does not hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import let_pass, merge, put, schema
from tests.spark.merge.test_merge_stage import TABLE, images, row, step
from waybill.overview.refusals import refusals

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark


def test_values_of_every_type_are_exact(lake: Lake, migration) -> None:
    types = {
        "id": "int64",
        "Id": "uint64",
        "d": "decimal(38,10)",
        "huge": "decimal(60,2)",
        "any": "number",
        "f": "float64",
        "b": "bytes",
        "flag": "boolean",
        "day": "date",
        "at": "timestamp",
        "instant": "timestamptz",
        "time": "time",
        "_waybill_key": "string",
        "a.b": "string",
        "完成 `x` 'y' {z}": "string",
    }
    table = schema("shop.types", types, ("id",))
    values = {
        "Id": "18446744073709551615",
        "d": "1234567890123456789012345678.1000000000",
        "huge": f"{'9' * 58}.10",
        "any": f"1{'0' * 400}",
        "f": "-0.0",
        "b": "AP8=",
        "flag": "true",
        "day": "-0043-03-15",
        "at": "0001-01-01T00:00:00.000001",
        "instant": "2024-03-31T01:30:00.123456Z",
        "time": "-838:59:59.000",
        "_waybill_key": "mine",
        "a.b": "\u2028\u0000\\'\"",
        "完成 `x` 'y' {z}": "",
    }
    nulls = dict.fromkeys(values)
    rows = [row(1, 1, table=table, **values), row(2, 2, table=table, **nulls)]
    step(lake, migration(), "b1", rows, [table])
    # Once more through MERGE instead of the first append.
    changed = [row(3, 2, "update", table=table, **values), row(4, 3, table=table, **values)]
    report = step(lake, migration(), "b2", changed, [table])
    assert report.rows_out == 2
    frame = lake.read(lake.merged("shop.types"))
    assert images(lake, "shop.types") == [{"id": str(i), **values} for i in (1, 2, 3)]
    names = frame.columns[7:]
    kinds = dict(frame.dtypes)
    assert [kinds[name] for name in names] == [
        *("bigint", "decimal(20,0)", "decimal(38,10)", "string", "string", "double", "binary"),
        *("boolean", "date", "timestamp_ntz", "timestamp", "string", "string", "string", "string"),
    ]
    quoted = [f"cast(`{name}` AS string) AS c{i}" for i, name in enumerate(names)]
    for found in frame.selectExpr(*quoted, "hex(b) AS bytes", "_waybill_key AS k").collect():
        assert found.c1 == values["Id"]
        assert found.c2 == values["d"]
        assert (found.c3, found.c4) == (values["huge"], values["any"])
        assert found.c5 == "-0.0"
        assert found.bytes == "00FF"
        assert found.c8 == "-0043-03-15"
        assert found.c9 == "0001-01-01 00:00:00.000001"
        assert found.c10 == "2024-03-31 01:30:00.123456"
        assert found.c11 == "-838:59:59.000"
        assert (found.c12, found.c13) == ("mine", values["a.b"])
        assert found.k.startswith('{"id":"')


def test_columns_that_are_called_as_places_of_messages(lake: Lake, migration) -> None:
    types = {"id": "int64", "topic": "string", "partition": "string", "offset": "uint64"}
    table = schema("shop.offsets", types, ("id",))
    values = {"topic": "t", "partition": "p1", "offset": "18446744073709551615"}
    step(lake, migration(), "b1", [row(1, 1, table=table, **values)], [table])
    later = {**values, "offset": "7"}
    changes = [row(2, 1, "update", table=table, **later), row(3, 2, table=table, **later)]
    step(lake, migration(), "b2", changes, [table])
    assert images(lake, "shop.offsets") == [{"id": str(number), **later} for number in (1, 2)]


def test_a_value_that_does_not_fit_is_refused_with_its_reason(lake: Lake, migration) -> None:
    types = {"id": "int64", "n": "int32", "at": "timestamp"}
    table = schema("shop.t", types, ("id",))
    good = "2024-01-02T03:04:05"
    rows = [
        row(1, 1, table=table, n="1", at=good),
        row(2, 1, "update", table=table, n="2147483648", at=good),
        row(3, 2, table=table, n="1", at="infinity"),
        row(4, 3, old=1, table=table, n="1.5", at=good),
    ]
    for entry, offset in zip(rows, range(4), strict=True):
        entry["offset"] = offset
    spec = migration()
    report = step(lake, spec, "b1", rows, [table])
    assert report.refused == {"column": 3}
    assert images(lake) == [{"id": "1", "n": "1", "at": good}]
    kept = lake.read(lake.log("merges")).where("kind = 'refused'").orderBy("offset").collect()
    assert [(entry["offset"], entry.reason) for entry in kept] == [
        (1, "column n is int in the lake and cannot hold '2147483648'"),
        (2, "column at is timestamp_ntz in the lake and cannot hold 'infinity'"),
        (3, "column n is int in the lake and cannot hold '1.5'"),
    ]


def test_what_a_held_merge_refused_is_in_quarantine_before_the_gate_passes(
    lake: Lake, migration
) -> None:
    put(lake, "b1", [row(1, 1, n="1"), row(2, 2, n="9999999999")], [TABLE])
    spec = migration()
    merge(lake, spec, "b1")

    def quarantined() -> list[tuple[str, int, str]]:
        return [(row["by"], row["offset"], row["batch"]) for row in refusals(lake, {})]

    assert quarantined() == [("merge", 0, "b1")]
    let_pass(lake, "b1")
    assert quarantined() == [("merge", 0, "b1")]


def test_a_declared_string_holds_what_its_type_cannot(lake: Lake, migration) -> None:
    table = schema("shop.t", {"id": "int64", "at": "timestamp"}, ("id",))
    spec = migration(tables={"shop.t": {"columns": {"at": "string"}}})
    report = step(lake, spec, "b1", [row(1, 1, table=table, at="infinity")], [table])
    assert report.refused == {}
    assert images(lake) == [{"id": "1", "at": "infinity"}]
