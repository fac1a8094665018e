"""Whole migrations: source, lake and targets in object storage, the catalog in PostgreSQL."""

from __future__ import annotations

import gzip
import io
import json
import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.s3.conftest import FIRST, PROJECT, ROWS, canal, catalog_of, shop_at
from waybill.cli import main
from waybill.errors import ConflictError, SourceError
from waybill.jobs import read_table, run_migration, run_stage
from waybill.lake import Lake
from waybill.lake.commit import Branch
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.merge.origins import read_origins
from waybill.overview.files import read_account, read_index
from waybill.spec.migration import Migration
from waybill.storage.file_store import open_store
from waybill.upkeep.run import run_upkeep
from waybill.validate.data_docs import build_site

if TYPE_CHECKING:
    from waybill.report import Waybill

TABLES = ("shop.customers", "shop.orders")


class Done(NamedTuple):
    """The sample shop, moved."""

    local: Migration
    spec: Migration
    here: Waybill
    there: Waybill
    bucket: str
    log: str


class Kept(logging.Handler):
    """Everything that is logged, by whoever."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.exc_text or ''}")


@pytest.fixture(scope="module")
def done(spark, server, postgres, admin, tmp_path_factory):
    folder, bucket = tmp_path_factory.mktemp("shop"), "shop-bucket"
    admin.create_bucket(Bucket=bucket)
    for path in sorted((PROJECT / "samples" / "shop").glob("*.jsonl")):
        admin.upload_file(str(path), bucket, f"in/shop/{path.name}")
    shutil.copytree(PROJECT / "samples" / "shop", folder / "in" / "shop")
    local = shop_at(str(folder), {"warehouse": str(folder / "lake")})
    lake = {"warehouse": f"s3://store@{bucket}/lake", "catalog": catalog_of(postgres)}
    spec = shop_at(f"s3://store@{bucket}", lake)
    kept = Kept()
    logging.getLogger().addHandler(kept)
    level = logging.getLogger("waybill").level
    logging.getLogger("waybill").setLevel(logging.DEBUG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_STORE", json.dumps(server.connection()))
        patch.setenv("AIRFLOW_CONN_LAKE_CATALOG", json.dumps(postgres.connection()))
        here = run_migration(local, batch="b1", spark=spark)
        there = run_migration(spec, batch="b1", spark=spark)
        logging.getLogger().removeHandler(kept)
        logging.getLogger("waybill").setLevel(level)
        yield Done(local, spec, here, there, bucket, "\n".join(kept.lines))


def published(spec, batch: str) -> dict[str, list]:
    """The messages of a batch by target, in the order of its parts."""
    found = {}
    for target in spec.publish:
        store = open_store(f"{target.files.path}/{batch}")
        manifest = json.loads(store.read("manifest.json"))
        messages: list = []
        for part in manifest["parts"]:
            content = store.read(part["file"])
            if target.files.layout == "parquet":
                messages += pq.read_table(io.BytesIO(content)).to_pylist()
            else:
                messages += content.splitlines()
        assert len(messages) == manifest["messages"]
        assert store.names() == sorted(["manifest.json", *(p["file"] for p in manifest["parts"])])
        found[target.label] = messages
    return found


def counts(waybill) -> list:
    return [(r.stage, r.rows_in, r.rows_out, r.refused, r.skipped) for r in waybill.stages]


def objects(admin, bucket: str) -> dict[str, str]:
    pages = admin.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}


def unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def test_it_is_what_a_local_disk_gives(spark, done) -> None:
    assert counts(done.there) == counts(done.here)
    for table in TABLES:
        rows = list(read_table(done.spec, table, spark=spark))
        assert rows == list(read_table(done.local, table, spark=spark))
        assert rows
    messages = published(done.spec, "b1")
    assert messages == published(done.local, "b1")
    assert all(messages.values())


def test_a_batch_that_was_done_is_not_done_again(spark, done, admin) -> None:
    before = objects(admin, done.bucket)
    again = run_migration(done.spec, batch="b1", spark=spark)
    assert all(report.repeated for report in again.stages)
    assert counts(again) == counts(done.there)
    # The gate's page is written with the times of its last look.
    reports = [key for key in before if "/reports/" in key]
    after = objects(admin, done.bucket)
    assert {k: v for k, v in after.items() if k not in reports} == {
        k: v for k, v in before.items() if k not in reports
    }


def test_its_verdicts_make_the_site_that_a_local_lake_s_make(done, tmp_path) -> None:
    def suites(spec: Migration, name: str) -> set[str]:
        built = build_site(spec, str(tmp_path / name))
        assert (built.added, built.failed) == (1, [])
        pages = (tmp_path / name / "validations").rglob("*.html")
        return {page.relative_to(tmp_path / name / "validations").parts[0] for page in pages}

    there = suites(done.spec, "there")
    assert there == suites(done.local, "here") == {"changes", "tables", "trends"}
    tables = read_origins(done.spec, "b1").tables
    assert tables == read_origins(done.local, "b1").tables
    assert sorted(tables) == list(TABLES)


def test_a_look_into_it_without_spark_finds_the_same(spark, done) -> None:
    with_spark, without = Lake.open(spark, done.spec), LakeWithoutSpark.open(done.spec)
    assert without is not None
    assert without.merged_tables() == with_spark.merged_tables()
    place, ok = ("topic", "partition", "offset", "index"), {"outcome": ["ok"]}
    for name in ("archive", "changes", "outbox", "merges", "runs", "published"):
        table = with_spark.log(name)
        assert list(without.commits(table)) == list(with_spark.commits(table))
    for name in ("changes", "outbox"):
        asked = (with_spark.log(name), (*place, "key"), ok)
        found = without.first(*asked, place, 10)
        assert len(found) == 10
        assert found == with_spark.first(*asked, place, 10)
        there, here = without.scan(*asked), with_spark.scan(*asked)
        assert sorted(map(str, there)) == sorted(map(str, here))
    assert not without.exists(with_spark.log("nothing"))


def test_what_people_see_of_it_is_the_same(done) -> None:
    """The files of the overview are written to object storage, and read from there."""
    here, there = read_index(done.local), read_index(done.spec)
    for index in (here, there):
        (line,) = index.batches
        assert (line.batch, line.state) == ("b1", "published")
        assert read_account(done.spec, "b1").state == "published"
    same = ("rows_in", "published", "refused", "verdict")
    assert [getattr(here.batches[0], n) for n in same] == [
        getattr(there.batches[0], n) for n in same
    ]
    assert here.refused_waiting == there.refused_waiting > 0
    assert here.tables == there.tables


def test_others_read_the_lake_without_waybill(spark, done, server, postgres) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    login = f"{postgres.user}:{postgres.password}@127.0.0.1:{postgres.port}"
    catalog = SqlCatalog(
        "lake",
        **{
            "uri": f"postgresql+psycopg://{login}/{postgres.database}",
            "warehouse": f"s3://{done.bucket}/lake",
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": server.key_id,
            "s3.secret-access-key": server.secret,
            "s3.region": "us-east-1",
        },
    )
    for table in TABLES:
        name = table.replace(".", "_")
        found = catalog.load_table(("shop", name)).scan().to_arrow().to_pylist()
        images = {row["_waybill_image"] for row in found}
        ours = Lake.open(spark, done.spec).read(f"lake.shop.{name}")
        live = ours.select("_waybill_image").collect()
        assert images == {row[0] for row in live}
        assert images
    catalog.engine.dispose()


def test_secrets_are_nowhere(spark, done, server, postgres, admin, event_log, capfd) -> None:
    """Neither in what is logged or noted by Spark for its pages, nor in what is kept."""
    lake = Lake.open(spark, done.spec)
    frame = lake.read("lake.shop.shop_orders")
    frame.explain(extended=True)
    frame.collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    noted = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in event_log.rglob("*")
        if path.is_file()
    )
    assert "SparkListenerSQLExecutionStart" in noted
    assert "spark.sql.catalog.lake.warehouse" in noted, "settings are noted"
    settings = spark.sql("SET").collect() + lake.spark.sql("SET -v").collect()
    printed = capfd.readouterr()
    kept = "\n".join(
        unpacked(admin.get_object(Bucket=done.bucket, Key=key)["Body"].read()).decode("latin-1")
        for key in objects(admin, done.bucket)
        if not key.startswith("in/")
    )
    assert "waybill.cursor" in kept
    described = json.dumps([report.to_dict() for report in done.there.stages])
    places = {
        "Spark's notes": noted,
        "the log": done.log,
        "the output": printed.out + printed.err,
        "the settings": str(settings),
        "the objects": kept,
        "the reports": described + repr(done.spec) + repr(done.there),
    }
    assert "snapshot" in done.log
    for secret in (server.secret, postgres.password):
        assert [place for place, text in places.items() if secret in text] == []


def test_of_two_runs_at_once_one_loses_cleanly(spark, small, admin, bucket, monkeypatch) -> None:
    spec = small()
    run_stage("snapshot", spec, "b0", spark)
    admin.put_object(
        Bucket=bucket, Key="in/b.jsonl", Body=canal("INSERT", {"id": "1", "title": "n"})
    )
    both, move = threading.Barrier(2), Branch.fast_forward

    def together(branch):
        both.wait(timeout=120)
        return move(branch)

    monkeypatch.setattr(Branch, "fast_forward", together)

    def run(batch):
        try:
            return run_stage("snapshot", spec, batch, spark)
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(("b1", "b2"), pool.map(run, ("b1", "b2")), strict=True))
    monkeypatch.undo()
    lost = [batch for batch, result in results.items() if isinstance(result, ConflictError)]
    assert len(lost) == 1
    assert "run the batch again" in str(results[lost[0]])


def test_an_object_that_changed_after_it_was_read_is_an_error(spark, small, admin, bucket) -> None:
    spec = small()
    run_stage("snapshot", spec, "b1", spark)
    changed = b"\n".join([*FIRST[:1], FIRST[1].replace(b"t100", b"t101")])
    admin.put_object(Bucket=bucket, Key="in/a.jsonl", Body=changed)
    with pytest.raises(SourceError, match=r"s3://bucket-\w+/in/a.jsonl has changed since it was"):
        run_stage("snapshot", spec, "b2", spark)
    admin.put_object(Bucket=bucket, Key="in/a.jsonl", Body=b"\n".join(FIRST))
    assert run_stage("snapshot", spec, "b2", spark).rows_in == 0
    admin.delete_object(Bucket=bucket, Key="in/a.jsonl")
    admin.put_object(Bucket=bucket, Key="in/b.jsonl", Body=b"")
    with pytest.raises(SourceError, match="no longer among the files"):
        run_stage("snapshot", spec, "b3", spark)


def test_check_reaches_for_everything(small, connect, bucket, admin, tmp_path, capsys) -> None:
    file = tmp_path / "small.json"
    file.write_text(small().model_dump_json(exclude_unset=True), encoding="utf-8")

    def check() -> tuple[int, dict[str, list[str]], str]:
        with pytest.raises(SystemExit) as ended:
            main(["check", str(file), "--json"])
        printed = capsys.readouterr()
        found: dict[str, list[str]] = {}
        for line in printed.out.splitlines():
            finding = json.loads(line)
            found.setdefault(finding["verdict"], []).append(finding["text"])
        return int(ended.value.code or 0), found, printed.out + printed.err

    status, found, _ = check()
    assert (status, found.get("wrong")) == (0, None)
    assert f"s3://{bucket}/lake can be written" in found["ok"]
    assert set(objects(admin, bucket)) == {"in/a.jsonl"}
    connect(password="wrong-secret-text")
    status, found, printed = check()
    assert status == 2
    assert len(found["wrong"]) == 3  # source, target, lake
    assert "wrong-secret-text" not in printed


def test_full_loads_and_packed_files_come_from_object_storage(
    spark, small, admin, bucket, tmp_path
) -> None:
    dump = tmp_path / "orders.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 9], pa.int64()), "title": ["old", "older"]}), dump)
    admin.upload_file(str(dump), bucket, "dump/orders.parquet")
    more = canal("INSERT", {"id": "11", "title": "packed"})
    admin.put_object(Bucket=bucket, Key="in/b.jsonl.gz", Body=gzip.compress(more))
    spec = small()
    full = {"shop.orders": {"path": f"s3://{bucket}/dump/*.parquet"}}
    tables = {"shop.orders": {"key": ["id"]}}
    spec = Migration.model_validate({**spec.model_dump(), "full": full, "tables": tables})
    run_migration(spec, until="validate", spark=spark)
    rows = list(read_table(spec, spark=spark))
    assert rows == [{"id": "1", "title": "old"}, *ROWS, {"id": "11", "title": "packed"}]


def test_upkeep_removes_objects_and_keeps_rows(spark, small, admin, bucket) -> None:
    spec = small()
    for n in range(2):
        rows = [{"id": str(i), "title": f"t{n}"} for i in range(10 * n + 20, 10 * n + 24)]
        admin.put_object(Bucket=bucket, Key=f"in/{n}.jsonl", Body=canal("INSERT", *rows))
        run_migration(spec, until="validate", spark=spark)
    before, there = list(read_table(spec, spark=spark)), objects(admin, bucket)
    kept = run_upkeep(spec, Lake.open(spark, spec), "0s")
    assert sum(table.snapshots for table in kept) > 0
    assert not [table.left for table in kept if table.left]
    assert list(read_table(spec, spark=spark)) == before
    gone = set(there) - set(objects(admin, bucket))
    assert [key for key in gone if key.endswith(".avro")]
