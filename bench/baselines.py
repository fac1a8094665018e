"""What Waybill is measured against, run beside it on the same topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from bench.topics import Topic

ROW_TYPE = "struct<id:bigint,name:string,comment:string,amount:{amount},placed_at:{time},flag:int>"


COLUMNS = "key binary, value binary"
"""What every conversion inside `mapInArrow` gives, as Spark is told it."""


def identity_json(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """orjson loads and dumps of every value, and nothing else."""
    import orjson
    import pyarrow as pa

    loads, dumps = orjson.loads, orjson.dumps
    for batch in batches:
        values = [dumps(loads(value)) for value in batch.column("value").to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [batch.column("key"), pa.array(values, pa.binary())], names=["key", "value"]
        )


def spark_json(frame: DataFrame, envelope: str) -> DataFrame:
    """Spark's own `from_json` and `to_json` of the whole message (it rounds nothing here)."""
    from pyspark.sql import functions as F

    texts = ROW_TYPE.format(amount="string", time="string")
    typed = ROW_TYPE.format(amount="string", time="bigint")
    schemas = {
        "canal": (
            f"struct<data:array<{texts}>,database:string,es:bigint,gtid:string,id:bigint,"
            f"isDdl:boolean,old:array<map<string,string>>,pkNames:array<string>,table:string,"
            "ts:bigint,type:string>"
        ),
        "debezium-json": (
            f"struct<before:{typed},after:{typed},source:struct<db:string,table:string,"
            "ts_ms:bigint,file:string,pos:bigint,row:int>,op:string,ts_ms:bigint>"
        ),
    }
    if envelope not in schemas:
        schemas[envelope] = "map<string,string>"
    parsed = F.from_json(F.col("value").cast("string"), schemas[envelope])
    return frame.select("key", F.to_json(parsed, {"ignoreNullFields": "false"}).alias("value"))


def timed(work: Callable[[], Any]) -> float:
    """Seconds that `work` takes."""
    start = time.monotonic()
    work()
    return time.monotonic() - start


def drain(frame: DataFrame) -> None:
    """Compute every column of every row and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def read(spark: SparkSession, topic: Topic, parts: int = 4, most: int | None = None) -> DataFrame:
    """The topic as tasks read it: in its order, split for both cores, and in memory.

    Args:
        spark: the session.
        topic: the topic.
        parts: how many tasks read it.
        most: take so many of the first messages; all if None.
    """
    rows = spark.read.parquet(str(topic.parquet))
    if most is not None:
        rows = rows.where(f"offset < {most}")
    frame = rows.repartitionByRange(parts, "offset").sortWithinPartitions("offset").cache()
    frame.count()
    return frame


_CANAL_ROW = (
    "struct<data:array<struct<id:string,name:string,comment:string,amount:string,"
    "placed_at:string,flag:string>>,type:string>"
)


def merge_by_sql(spark: SparkSession, frame: DataFrame, turn: int) -> None:
    """Canal messages into a new Iceberg table, as one would write it by hand.

    The offset stands for the order that the messages do not tell. No log is kept, and no tombstone.
    """
    table = f"lake.sql.orders_{turn}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.sql")
    spark.sql(
        f"CREATE TABLE {table} (id bigint, name string, comment string, amount decimal(38,10), "
        "placed_at timestamp_ntz, flag int, o bigint) USING iceberg "
        "TBLPROPERTIES ('write.merge.mode'='merge-on-read')"
    )
    frame.createOrReplaceTempView("canal_topic")
    spark.sql(
        f"""MERGE INTO {table} t USING (
        SELECT id, max_by(r, o) AS r, max_by(kind, o) AS kind, max(o) AS o FROM (
          SELECT cast(r.id AS bigint) AS id, r, kind, `offset` AS o FROM (
            SELECT explode(m.data) AS r, m.type AS kind, `offset` FROM (
              SELECT from_json(cast(value AS string), '{_CANAL_ROW}') AS m, `offset`
              FROM canal_topic))) GROUP BY id) s
        ON t.id = s.id
        WHEN MATCHED AND s.o > t.o AND s.kind = 'DELETE' THEN DELETE
        WHEN NOT MATCHED AND s.kind <> 'DELETE' THEN INSERT
          (id, name, comment, amount, placed_at, flag, o) VALUES (s.id, s.r.name, s.r.comment,
          cast(s.r.amount AS decimal(38,10)), cast(s.r.placed_at AS timestamp_ntz),
          cast(s.r.flag AS int), s.o)"""
    )


def duckdb_newest(topic: Path, out: Path) -> None:
    """DuckDB's newest row of each key, from Canal lines with a typed schema."""
    import duckdb

    connection = duckdb.connect()
    connection.sql("SET threads=2; SET preserve_insertion_order=false; SET timezone='UTC'")
    connection.sql(
        f"""COPY (
        SELECT r.id::BIGINT AS id, r.name AS name, r.comment AS comment,
          r.amount::DECIMAL(38,10) AS amount, r.placed_at::TIMESTAMP AS placed_at,
          r.flag::TINYINT AS flag
        FROM (SELECT arg_max(r, o) AS r, arg_max(kind, o) AS kind FROM (
          SELECT unnest(data) AS r, "type" AS kind, ts AS o
          FROM read_json('{topic}', format='newline_delimited',
            columns={{data: '{_TEXTS}[]', "type": 'VARCHAR', ts: 'BIGINT'}})) GROUP BY r.id)
        WHERE kind <> 'DELETE') TO '{out}' (FORMAT PARQUET)"""
    )


_IMAGE = (
    "STRUCT(id BIGINT, name VARCHAR, comment VARCHAR, amount VARCHAR, placed_at {}, flag TINYINT)"
)
_TEXTS = (
    "STRUCT(id VARCHAR, name VARCHAR, comment VARCHAR, amount VARCHAR, placed_at VARCHAR, "
    "flag VARCHAR)"
)


def duckdb_canal_to_debezium(topic: Path, out: Path) -> None:
    """DuckDB reads the Canal lines with a typed schema and writes Debezium lines."""
    import duckdb

    def image(value: str) -> str:
        return (
            f"{{id: ({value.format('id')})::BIGINT, name: {value.format('name')}, "
            f"comment: {value.format('comment')}, amount: {value.format('amount')}, "
            f"placed_at: epoch_us(({value.format('placed_at')})::TIMESTAMP), "
            f"flag: ({value.format('flag')})::TINYINT}}"
        )

    now = image("r.{0}")
    was = image("CASE WHEN map_contains(o, '{0}') THEN o['{0}'] ELSE r.{0} END")
    connection = duckdb.connect()
    connection.sql("SET threads=2; SET preserve_insertion_order=false; SET timezone='UTC'")
    connection.sql(
        f"""COPY (
        SELECT CASE "type" WHEN 'DELETE' THEN {now} WHEN 'UPDATE' THEN {was} END AS "before",
          CASE WHEN "type" <> 'DELETE' THEN {now} END AS "after",
          {{version: 'canal', connector: 'mysql', name: 'canal', ts_ms: es, snapshot: 'false',
            db: database, "table": "table", gtid: gtid}} AS source,
          CASE "type" WHEN 'INSERT' THEN 'c' WHEN 'UPDATE' THEN 'u' ELSE 'd' END AS op,
          ts AS ts_ms, NULL AS transaction
        FROM (SELECT unnest(data) AS r, unnest(old) AS o, * EXCLUDE (data, old)
              FROM read_json('{topic}', format='newline_delimited', columns={{
                data: '{_TEXTS}[]', database: 'VARCHAR', es: 'BIGINT', gtid: 'VARCHAR',
                id: 'BIGINT', old: 'MAP(VARCHAR,VARCHAR)[]', "table": 'VARCHAR', ts: 'BIGINT',
                "type": 'VARCHAR'}}))
        ) TO '{out}' (FORMAT JSON, PER_THREAD_OUTPUT)"""
    )


def duckdb_debezium_to_canal(topic: Path, out: Path) -> None:
    """DuckDB reads the Debezium lines with a typed schema and writes Canal lines."""
    import duckdb

    from bench.topics import COLUMNS, MYSQL_TYPES, SQL_TYPES

    def texts(row: str) -> str:
        return (
            f"{{id: {row}.id::VARCHAR, name: {row}.name, comment: {row}.comment, "
            f"amount: {row}.amount, placed_at: strftime(make_timestamp({row}.placed_at), "
            f"'%Y-%m-%d %H:%M:%S.%f'), flag: {row}.flag::VARCHAR}}"
        )

    old = ", ".join(
        f"CASE WHEN b.{name} IS DISTINCT FROM a.{name} THEN {{k: '{name}', v: b.{name}}} END"
        for name in COLUMNS
    )
    mysql = ", ".join(f"{name}: '{kind}'" for name, kind in MYSQL_TYPES.items())
    sql = ", ".join(f"{name}: {code}" for name, code in SQL_TYPES.items())
    image = _IMAGE.format("BIGINT")
    connection = duckdb.connect()
    connection.sql("SET threads=2; SET preserve_insertion_order=false; SET timezone='UTC'")
    connection.sql(
        f"""COPY (
        SELECT [coalesce(a, b)] AS data, db AS database, es, gtid, pos AS id, false AS isDdl,
          {{{mysql}}} AS "mysqlType",
          CASE WHEN op = 'u' THEN [map_from_entries(list_filter([{old}],
            lambda e: e IS NOT NULL))] END AS "old",
          ['id'] AS "pkNames", '' AS "sql", {{{sql}}} AS "sqlType", tbl AS "table", ts_ms AS ts,
          CASE op WHEN 'c' THEN 'INSERT' WHEN 'u' THEN 'UPDATE' ELSE 'DELETE' END AS "type"
        FROM (SELECT CASE WHEN "before" IS NOT NULL THEN {texts('"before"')} END AS b,
                CASE WHEN "after" IS NOT NULL THEN {texts('"after"')} END AS a,
                source.db AS db, source."table" AS tbl, source.ts_ms AS es,
                coalesce(source.gtid, '') AS gtid, source.pos AS pos, op, ts_ms
              FROM read_json('{topic}', format='newline_delimited', columns={{
                before: '{image}', after: '{image}',
                source: 'STRUCT("version" VARCHAR, connector VARCHAR, name VARCHAR,
                  ts_ms BIGINT, snapshot VARCHAR, db VARCHAR, "table" VARCHAR, gtid VARCHAR,
                  file VARCHAR, pos BIGINT, "row" INTEGER)',
                op: 'VARCHAR', ts_ms: 'BIGINT'}}))
        ) TO '{out}' (FORMAT JSON, PER_THREAD_OUTPUT)"""
    )


def duckdb_version() -> str:
    """The version that is measured."""
    import duckdb

    return str(duckdb.__version__)


# What a pair is measured against: the least that a reader of the envelope has to do.


Work = Callable[[bytes], bytes]


def base_of(folder: Path, envelope: str) -> Work:
    """What a message of an envelope becomes in its baseline.

    JSON: orjson loads and dumps, nothing else. Avro and Databus: fastavro's schemaless reader, and
    orjson dumps of what it gives.
    """
    import orjson

    loads, dumps = orjson.loads, orjson.dumps
    if envelope not in AVRO:
        return lambda value: dumps(loads(value))
    from base64 import b64decode
    from io import BytesIO

    from fastavro import schemaless_reader

    schemas = _avro_schemas(folder, envelope)

    def read(data: bytes, schema: Any) -> bytes:
        return dumps(schemaless_reader(BytesIO(data), schema, None), default=str)

    if envelope.startswith("databus"):
        (schema,) = schemas.values()
        if envelope == "databus-json":
            return lambda value: read(b64decode(loads(value)["value"]), schema)
        return lambda value: read(value[V1_ROW:], schema)
    return lambda value: read(value[5:], schemas[value[1:5]])


AVRO = frozenset({"databus-binary", "databus-json", "debezium-avro", "ibmcdc-avro"})
"""Envelopes whose values are Avro."""

V1_ROW = 61
"""Where the row of a Databus event of version 1 with a number as its key begins."""


def identity_avro(
    folder: Path, envelope: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The baseline of Avro for every value, and nothing else."""
    import pyarrow as pa

    work = base_of(folder, envelope)
    for batch in batches:
        found = batch.column("value").to_pylist()
        values = [None if value is None else work(value) for value in found]
        yield pa.RecordBatch.from_arrays(
            [batch.column("key"), pa.array(values, pa.binary())], names=["key", "value"]
        )


def _avro_schemas(folder: Path, envelope: str) -> dict[bytes, Any]:
    """Parsed schemas by the four bytes that name them; by nothing where there is only one."""
    from fastavro import parse_schema

    from bench.written_topics import PERSON

    if envelope.startswith("databus"):
        return {b"": parse_schema(PERSON)}
    found = {}
    for path in (folder / envelope / "schemas").glob("*.json"):
        for number, entry in json.loads(path.read_bytes())["avro"].items():
            schema = entry["schema"]
            document = json.loads(schema) if isinstance(schema, str) else schema
            found[int(number).to_bytes(4, "big")] = parse_schema(document)
    return found
