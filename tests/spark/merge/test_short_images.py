"""Images that leave out what the columns say: `lake.text_images: needed`."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from tests.spark.merge.merge_lake import let_pass, merge, put, refused_by_gate, schema
from tests.spark.merge.test_merge_stage import ddl, images, row, step
from tests.unit.merge.test_short_images import COLUMNS, MAY, TEXTS
from waybill import jobs
from waybill.errors import Code, LakeError
from waybill.lake.arrow_rows import objects
from waybill.lake.local_rows import local_rows
from waybill.lake.plain_rows import plain_rows
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.merge.columns import IMAGE
from waybill.merge.short_images import (
    MARK,
    TEXT_IMAGES,
    full_sql,
    image_columns,
    image_of_row,
    short_sql,
    stored_values,
    types_of,
)
from waybill.merge.standard_texts import standard_sql, standard_text, standard_texts
from waybill.merge.table_rows import rows_in_order
from waybill.merge.table_states import table_state
from waybill.merge.typed_columns import typed, value_name
from waybill.merge.upsert.shortening import short_images
from waybill.merge.upsert.values import typed_columns
from waybill.verify.counting import live_rows
from waybill.verify.plan import Compared

if TYPE_CHECKING:
    from pathlib import Path

    from waybill.lake import Lake

pytestmark = pytest.mark.spark

MORE = {
    "date": ["0000-12-31", "-0001-01-01"],
    "timestamp_ntz": ["2026-02-28", "0000-12-31T23:59:59", "-0001-01-01T00:00:00", "9999-12-31"],
    "timestamp": ["-0001-01-01T00:00:00Z", "2026-02-28 01:02Z"],
}
NEEDED = {"text_images": "needed"}


def every_image() -> list[dict[str, str | None]]:
    """Images with each text of each type, nulls, columns that are not there and others."""
    texts = [[*TEXTS[c.type], *MORE.get(c.type, []), None] for c in COLUMNS]
    rows = [
        {column.name: own[n % len(own)] for column, own in zip(COLUMNS, texts, strict=True)}
        for n in range(3 * max(map(len, texts)))
    ]
    for n, name in zip(itertools.count(0, 3), [c.name for c in COLUMNS], strict=False):
        del rows[n][name]
    rows[1] |= {"more": "~", "none": None}
    return [*rows, {}]


def test_every_way_to_shorten_and_to_read_gives_the_same(spark: Any) -> None:
    rows = every_image()
    frame = local_rows(
        spark, [(json.dumps(row, ensure_ascii=False),) for row in rows], "image string"
    )
    valued = typed(frame.withColumn("live", F.lit(True)), COLUMNS)
    places = {COLUMNS[i].name: (value_name(i), COLUMNS[i].type) for i in MAY}
    names = [F.col(value_name(i)).alias(c.lake) for i, c in enumerate(COLUMNS)]
    short = valued.select("image", F.expr(short_sql("image", places)).alias(IMAGE), *names)
    values = stored_values(types_of(short.drop("image")))
    assert values.keys() == {COLUMNS[i].lake for i in MAY}
    standard = {f"s {name}": F.expr(standard_sql(*value)) for name, value in values.items()}
    full = F.expr(full_sql(IMAGE, values, "'a row'")).alias("full")
    same = F.expr(full_sql("image", values, "'a row'")).alias("same")
    found = short.select(
        "*", full, same, *(v.alias(name) for name, v in standard.items())
    ).toArrow()
    # SQL reads what SQL wrote, and leaves a full image as it is.
    assert [json.loads(text) for text in found["full"].to_pylist()] == rows
    assert found["same"].to_pylist() == found["image"].to_pylist()
    assert all(text.startswith(MARK) for text in found[IMAGE].to_pylist())
    # So does Python.
    assert [image_of_row(one, "t") for one in objects(found)] == rows
    asked = [IMAGE, *(column.lake for column in COLUMNS), "not there"]
    by_query = [*plain_rows(short, asked)]
    assert [image_of_row(one, "t") for one in by_query] == rows
    assert {one["not there"] for one in by_query} == {None}
    # The standard texts are the same, whoever makes them.
    for column in (COLUMNS[i] for i in MAY):
        sql = found[f"s {column.lake}"].to_pylist()
        of_arrow = standard_texts(found[column.lake].combine_chunks(), column.type)
        assert sql == of_arrow.to_pylist(), column.type
        for one, text in zip(objects(found.select([column.lake])), sql, strict=True):
            assert standard_text(one[column.lake]) == text
    # Tasks shorten as SQL does, in the order of the columns.
    whole = found["image"].combine_chunks()
    own, doubtful, texts = typed_columns(whole, COLUMNS)
    sure = pa.array([not odd for odd in doubtful])
    for column, values in zip(COLUMNS, own, strict=True):
        by_spark, known = found[column.lake].combine_chunks().cast(values.type), values.is_valid()
        assert values.filter(known).equals(by_spark.filter(known)), column.type
    made = short_images(
        whole.filter(sure),
        COLUMNS,
        [one.filter(sure) for one in texts.columns],
        [one.filter(sure) for one in own],
        texts.others[~doubtful],
        MAY,
    )
    wanted = found[IMAGE].combine_chunks().filter(sure).to_pylist()
    assert len(wanted) > 10
    assert [read(text) for text in made.to_pylist()] == [read(text) for text in wanted]


def read(short: str) -> dict[str, str | None]:
    image: dict[str, str | None] = json.loads(short[1:])
    return image


def stored(lake: Lake) -> list[str]:
    """The images as they stand in the table, without its tombstones."""
    rows = lake.spark.read.table(lake.merged("shop.t")).orderBy("id")
    return [row[0] for row in rows.select(IMAGE).collect()]


def looked_at(spark: Any, spec: Any, **asked: Any) -> list[dict[str, str | None]]:
    """What either way of reading the table tells; they must agree."""
    looked = LakeWithoutSpark.open(spec)
    assert looked is not None
    ours = list(rows_in_order(looked, table_state(looked, spec, "shop.t", **asked)))
    assert ours == list(jobs.read_table(spec, "shop.t", spark=spark, **asked))
    return ours


TABLE = schema(
    "shop.t",
    {"id": "int64", "price": "decimal(5,2)", "at": "timestamp", "Id": "string", "x": "float64"},
    ("id",),
)
AT = "2026-02-28T01:02:03"


def test_rows_of_both_forms_in_one_table(spark: Any, lake: Lake, migration: Any) -> None:
    needed, every = migration(**NEEDED), migration()
    put(lake, "b0", [row(0, 0, price="0.10", at=AT, Id="", x="1.50", table=TABLE)], [TABLE])
    merge(lake, every, "b0")
    let_pass(lake, "b0")
    assert TEXT_IMAGES not in lake.metadata(lake.merged("shop.t")).properties
    usual = {"price": "1.10", "at": AT, "Id": "é\n", "x": None}
    rows = [row(n, n, **usual, table=TABLE) for n in range(1, 5)]
    rows += [row(5, 5, **{**usual, "price": "1.1", "at": f"{AT}.5"}, table=TABLE)]
    # In tasks: this table is a plain one.
    step(lake, needed, "b1", rows, [TABLE])
    short = '~{"id":"~","price":"~","at":"~19","Id":"=é\\n","x":null}'
    odd = short.replace('"price":"~"', '"price":"=1.1"').replace("~19", "~21")
    full = '{"id":"0","price":"0.10","at":"2026-02-28T01:02:03","Id":"","x":"1.50"}'
    assert stored(lake) == [
        full,
        *[short] * 4,
        odd,
    ]
    after = images(lake)
    assert after[1:5] == [{"id": str(n), **usual} for n in range(1, 5)]
    assert after[5] == {"id": "5", **usual, "price": "1.1", "at": f"{AT}.5"}
    assert looked_at(spark, needed) == after
    # An update that leaves columns out, a key that changes, a default, and a column that comes.
    new = schema(
        "shop.t", {**{c.name: str(c.type) for c in TABLE.columns}, "tier": "string"}, ("id",)
    )
    statement = ddl(6, "ALTER TABLE t ADD COLUMN tier VARCHAR(9) NOT NULL DEFAULT 'a'", new)
    changes = [
        statement,
        row(7, 1, "update", price="2.00", table=new),
        row(8, 9, "update", old=5, x="1e3", table=new),
        row(9, 2, "delete", table=new),
    ]
    put(lake, "b2", changes, [new])
    merge(lake, needed, "b2")
    assert refused_by_gate(lake, "b2") == []
    held = looked_at(spark, needed, held=True)
    let_pass(lake, "b2")
    zero, one, three, four, nine = images(lake)
    assert zero == {"id": "0", "price": "0.10", "at": AT, "Id": "", "x": "1.50", "tier": "a"}
    assert one == {"id": "1", **usual, "price": "2.00", "tier": "a"}
    assert [three, four] == [{"id": n, **usual, "tier": "a"} for n in "34"]
    assert nine == {"id": "9", **usual, "price": "1.1", "at": f"{AT}.5", "x": "1e3", "tier": "a"}
    assert held == looked_at(spark, needed) == [zero, one, three, four, nine]
    assert looked_at(spark, needed, as_of="b1") == after
    # A verification takes the rows of a joined table by a text that an image may leave out.
    full_name = lake.merged("shop.t")
    facts = ("shop.t", full_name, None, (), True, (), ())
    for price, count in (("1.10", 2), ("2.00", 1), ("2", 0)):
        compared = Compared(*facts, shard=("price", price))
        assert live_rows(lake, compared, lake.head(full_name)) == count
    # Rows are read the same once all images are written in full again.
    step(lake, every, "b3", [row(10, 3, "update", price="3.00", table=new)], [new])
    texts = stored(lake)
    assert [text[0] for text in texts] == ["{", "~", "{", "~", "~"]
    assert looked_at(spark, every) == [zero, one, {**three, "price": "3.00"}, four, nine]
    # What another program takes away is missed, whoever looks.
    lake.spark.sql(f"UPDATE {full_name} SET price = NULL WHERE id = 4")
    looked = LakeWithoutSpark.open(every)
    assert looked is not None
    said = r'the row \{"id":"4"\} of lake\.demo\.shop_t has no value in its column price, '
    with pytest.raises(LakeError, match=said) as ours:
        list(rows_in_order(looked, table_state(looked, every, "shop.t")))
    with pytest.raises(LakeError, match=said) as by_query:
        list(jobs.read_table(every, "shop.t", spark=spark))
    assert str(ours.value) == str(by_query.value)
    assert ours.value.code is by_query.value.code is Code.VALUE_LOST
    public = "a row of lake.demo.shop_t has no value in its column price, of which"
    for caught in (ours, by_query):
        assert caught.value.sentence.startswith(public), "mails and pages have it"


def test_names_and_types_that_change(spark: Any, lake: Lake, migration: Any) -> None:
    decided = [{"tables": "shop.*", "rename": "map", "retype": "rewrite"}]
    spec = migration(schema_changes=decided, **NEEDED)
    old = schema("shop.t", {"id": "int64", "a": "int32", "n": "string", "w": "int32"}, ("id",))
    new = schema(
        "shop.t", {"id": "int64", "b": "decimal(5,1)", "n": "string", "w": "int64"}, ("id",)
    )
    rows = [
        row(1, 1, a="1", n='x,"a":', w="7", table=old),
        row(2, 2, a=None, n="~", w=None, table=old),
        row(3, 3, a="03", n='{"a":"9"}', w="-0", table=old),
    ]
    step(lake, spec, "b1", rows, [old])
    before = images(lake)
    assert before == [
        {"id": "1", "a": "1", "n": 'x,"a":', "w": "7"},
        {"id": "2", "a": None, "n": "~", "w": None},
        {"id": "3", "a": "03", "n": '{"a":"9"}', "w": "-0"},
    ]
    statements = [
        ddl(4, "ALTER TABLE t RENAME COLUMN a TO b", new),
        ddl(5, "ALTER TABLE t MODIFY b DECIMAL(5,1)", new),
    ]
    put(lake, "b2", [*statements, row(6, 2, "update", w="3000000000", table=new)], [new])
    merge(lake, spec, "b2")
    assert refused_by_gate(lake, "b2") == []
    let_pass(lake, "b2")
    one, two, three = images(lake)
    assert one == {"id": "1", "b": "1", "n": 'x,"a":', "w": "7"}
    assert two == {"id": "2", "b": None, "n": "~", "w": "3000000000"}
    assert three == {"id": "3", "b": "03", "n": '{"a":"9"}', "w": "-0"}
    assert all(read(text)["n"] == "~" for text in stored(lake))
    assert looked_at(spark, spec) == [one, two, three]
    assert looked_at(spark, spec, as_of="b1") == before
    # What a later change writes once more leaves the column out again.
    step(lake, spec, "b3", [row(7, 1, b="2.5", n="y", w="8", table=new)], [new])
    assert read(stored(lake)[0]) == dict.fromkeys(["id", "b", "n", "w"], "~")
    assert looked_at(spark, spec)[0] == {"id": "1", "b": "2.5", "n": "y", "w": "8"}


def test_a_table_without_key(spark: Any, lake: Lake, migration: Any, tmp_path: Path) -> None:
    spec = migration(**NEEDED)
    # Iceberg's own writer gives columns other names in the files where Avro does not allow theirs.
    odd = {"order-id": "1", "2nd line": "a", "é€": "b"}
    types = {
        "id": "int64",
        "v": "string",
        "order-id": "int32",
        "2nd line": "string",
        "é€": "string",
    }
    table = schema("shop.t", types, ())
    rows = [{**row(n, 1, v="x", **odd, table=table), "key": None} for n in (1, 2)]
    step(lake, spec, "b1", [*rows, {**row(3, 7, table=table), "key": None}], [table])
    assert sorted(looked_at(spark, spec), key=str) == [
        {"id": "1", "v": "x", **odd},
        {"id": "1", "v": "x", **odd},
        {"id": "7", **dict.fromkeys(["v", *odd])},
    ]
    assert [read(text) for text in stored(lake)] == [
        *[dict.fromkeys(types, "~")] * 2,
        {"id": "~"},
    ]
    files = tmp_path.glob("lake/demo/shop_t/data/**/*.parquet")
    assert "order_x2Did" in {name for file in files for name in pq.read_schema(file).names}


def test_only_the_images_are_read_of_a_table_that_has_full_ones(lake: Lake, migration: Any) -> None:
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, price="1.10", at=AT, Id="", x="1", table=TABLE)], [TABLE])
    assert image_columns(lake.metadata(lake.merged("shop.t"))) == (IMAGE,)
