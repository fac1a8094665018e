"""Catalogs other than the embedded one: the commit rule holds there too.

PostgreSQL is in the other tests of this folder; here a REST catalog, Iceberg's own implementation.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.s3.conftest import FIRST, ROWS, canal
from tests.s3.rest_catalog import rest_catalog
from waybill.errors import ConflictError, UnavailableError
from waybill.jobs import read_table, run_migration, run_stage
from waybill.lake import Lake
from waybill.lake.commit import Branch
from waybill.merge.origins import read_origins
from waybill.spec.migration import Migration


def migration(folder: Path, uri: str, name: str) -> Migration:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.jsonl").write_bytes(b"\n".join(FIRST))
    return Migration.model_validate(
        {
            "name": name,
            "source": {"files": {"path": str(folder / "in"), "topic": "t"}, "envelope": "canal"},
            "publish": [{"envelope": "canal", "files": {"path": str(folder / "out")}}],
            "lake": {
                "warehouse": str(folder / "lake"),
                "catalog": {"type": "rest", "uri": uri, "connection": "rest_login"},
            },
        }
    )


@pytest.fixture
def rest(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_REST_LOGIN", '{"conn_type": "http", "password": "secret-text"}'
    )
    properties = {
        "uri": f"jdbc:sqlite:{tmp_path}/rest.db",
        "warehouse": f"{tmp_path}/lake",
        "jdbc.schema-version": "V1",
        "clients": "1",
    }
    with rest_catalog(properties) as url:
        yield url


def test_a_migration_on_a_rest_catalog(spark, rest, tmp_path: Path, monkeypatch) -> None:
    spec = migration(tmp_path, rest, "rested")
    run_migration(spec, batch="b1", spark=spark)
    assert list(read_table(spec, spark=spark)) == ROWS
    lake = Lake.open(spark, spec)
    ((table, origin),) = read_origins(spec, "b1").tables.items()
    assert origin.place == lake.metadata(lake.merged(table)).shape.location, "only it knows"
    again = run_migration(spec, batch="b1", spark=spark)
    assert all(report.repeated for report in again.stages)

    both, move = threading.Barrier(2), Branch.fast_forward

    def together(branch):
        both.wait(timeout=120)
        return move(branch)

    def run(batch):
        try:
            return run_stage("snapshot", spec, batch, spark)
        except ConflictError as error:
            return error

    (tmp_path / "in" / "b.jsonl").write_bytes(canal("INSERT", {"id": "11", "title": "n"}))
    monkeypatch.setattr(Branch, "fast_forward", together)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, ("b2", "b3")))
    monkeypatch.setattr(Branch, "fast_forward", move)
    assert sum(isinstance(result, ConflictError) for result in results) == 1
    run_migration(spec, spark=spark)
    assert list(read_table(spec, spark=spark)) == [*ROWS, {"id": "11", "title": "n"}]


def test_a_rest_catalog_that_is_away(spark, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_REST_LOGIN", '{"conn_type": "http", "password": "secret-text"}'
    )
    spec = migration(tmp_path, "http://127.0.0.1:9", "nobody")
    sentence = r"the catalog at http://127.0.0.1:9 cannot be reached"
    with pytest.raises(UnavailableError, match=sentence) as caught:
        run_migration(spec, spark=spark)
    assert "secret-text" not in str(caught.value)
