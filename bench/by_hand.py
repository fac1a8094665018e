"""The work of the line as one would write it by hand in Spark SQL, without what makes it a line.

No log is kept, nothing is refused, no row that was deleted is remembered, nothing is checked, and
what is published twice is there twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_ROW = "struct<id:string,name:string,comment:string,amount:string,placed_at:string,flag:string>"
_CANAL = (
    f"struct<data:array<{_ROW}>,database:string,es:bigint,gtid:string,id:bigint,"
    "old:array<map<string,string>>,`table`:string,ts:bigint,type:string>"
)
_COLUMNS = "id bigint, name string, comment string, amount decimal(18,4), "
_MERGED = f"{_COLUMNS}placed_at timestamp_ntz, flag int, o bigint"


def canal_messages(lines: DataFrame) -> DataFrame:
    """Lines of a Canal topic as typed columns."""
    from pyspark.sql import functions as F

    return lines.select(F.from_json("value", _CANAL).alias("m")).select("m.*")


def canal_to_debezium(messages: DataFrame, out: Path) -> None:
    """Canal messages as Debezium lines in files."""
    from pyspark.sql import functions as F

    def image(value: str) -> str:
        return (
            f"named_struct('id', cast({value.format('id')} AS bigint), "
            f"'name', {value.format('name')}, 'comment', {value.format('comment')}, "
            f"'amount', {value.format('amount')}, 'placed_at', "
            f"unix_micros(cast({value.format('placed_at')} AS timestamp)), "
            f"'flag', cast({value.format('flag')} AS int))"
        )

    now = image("r.{0}")
    was = image("if(map_contains_key(o, '{0}'), o['{0}'], r.{0})")
    names = ("type", "es", "database", "`table`", "gtid", "ts")
    rows = messages.selectExpr(
        "inline(arrays_zip(data, coalesce(old, array(cast(null AS map<string,string>)))))", *names
    ).toDF("r", "o", "type", "es", "database", "table", "gtid", "ts")
    parsed = rows.selectExpr(
        f"CASE type WHEN 'DELETE' THEN {now} WHEN 'UPDATE' THEN {was} END AS before",
        f"CASE WHEN type <> 'DELETE' THEN {now} END AS after",
        "named_struct('version', 'canal', 'connector', 'mysql', 'name', 'canal', 'ts_ms', es, "
        "'snapshot', 'false', 'db', database, 'table', `table`, 'gtid', gtid) AS source",
        "CASE type WHEN 'INSERT' THEN 'c' WHEN 'UPDATE' THEN 'u' ELSE 'd' END AS op",
        "ts AS ts_ms",
        "cast(null AS string) AS transaction",
    )
    whole = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    parsed.select(whole.alias("value")).write.mode("overwrite").text(f"file://{out}")


def merge_messages(spark: SparkSession, messages: DataFrame, table: str) -> None:
    """Canal messages into a new Iceberg table.

    The number that Canal gives its messages stands for the order, which they do not tell.
    """
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.hand")
    spark.sql(
        f"CREATE TABLE lake.hand.{table} ({_MERGED}) USING iceberg "
        "TBLPROPERTIES ('write.merge.mode'='merge-on-read')"
    )
    messages.createOrReplaceTempView("by_hand")
    spark.sql(
        f"""MERGE INTO lake.hand.{table} t USING (
        SELECT id, max_by(r, o) AS r, max_by(type, o) AS type, max(o) AS o FROM (
          SELECT cast(r.id AS bigint) AS id, r, type, o FROM (
            SELECT explode(data) AS r, type, id AS o FROM by_hand)) GROUP BY id) s
        ON t.id = s.id
        WHEN MATCHED AND s.o > t.o AND s.type = 'DELETE' THEN DELETE
        WHEN MATCHED AND s.o > t.o THEN UPDATE SET name = s.r.name, comment = s.r.comment,
          amount = cast(s.r.amount AS decimal(18,4)),
          placed_at = cast(s.r.placed_at AS timestamp_ntz), flag = cast(s.r.flag AS int), o = s.o
        WHEN NOT MATCHED AND s.type <> 'DELETE' THEN INSERT
          (id, name, comment, amount, placed_at, flag, o) VALUES (s.id, s.r.name, s.r.comment,
          cast(s.r.amount AS decimal(18,4)), cast(s.r.placed_at AS timestamp_ntz),
          cast(s.r.flag AS int), s.o)"""
    )


def copied(spark: SparkSession, merged: str, table: str, types: dict[str, str]) -> None:
    """The live rows of a merged table in a table that is merged into by hand.

    Args:
        spark: a session of the lake.
        merged: the merged table.
        table: what the other one is called.
        types: the types of the columns that it has, by name; the first is its key.
    """
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.hand")
    spark.sql(
        f"CREATE TABLE lake.hand.{table} USING iceberg "
        "TBLPROPERTIES ('write.merge.mode'='merge-on-read') AS "
        f"SELECT {', '.join(types)}, _waybill_order AS o FROM {merged} WHERE NOT _waybill_deleted"
    )


def merge_changes(
    spark: SparkSession, changes: DataFrame, table: str, types: dict[str, str]
) -> None:
    """The changes of a batch, as the log has them, into a table of `copied`."""
    key = next(iter(types))
    texts = ", ".join(f"{name} string" for name in types)
    changes.createOrReplaceTempView("by_hand")
    typed = [f"cast(r.{name} AS {type_}) AS {name}" for name, type_ in types.items() if name != key]
    others = [name for name in types if name != key]
    spark.sql(
        f"""MERGE INTO lake.hand.{table} t USING (
        SELECT {key}, o, gone, {", ".join(typed)} FROM (
          SELECT cast(k.{key} AS {types[key]}) AS {key}, max(order_key) AS o,
            max_by(operation, order_key) = 'delete' AS gone,
            from_json(max_by(after, order_key), '{texts}') AS r
          FROM (SELECT from_json(key, '{key} string') AS k, * FROM by_hand) GROUP BY 1)) s
        ON t.{key} = s.{key}
        WHEN MATCHED AND s.o > t.o AND s.gone THEN DELETE
        WHEN MATCHED AND s.o > t.o THEN UPDATE SET
          {", ".join(f"{name} = s.{name}" for name in others)}, o = s.o
        WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({key}, {", ".join(others)}, o)
          VALUES (s.{key}, {", ".join(f"s.{name}" for name in others)}, s.o)"""
    )
