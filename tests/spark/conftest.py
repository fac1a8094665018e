"""One Spark session for every Spark test, and migrations with a lake of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from waybill.envelopes import registry
from waybill.lake import Lake
from waybill.lake.session import start_session
from waybill.lake.settings import SHORT_RUNS
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "2m",
}
"""Queries over a few rows take half the time if Java code is not made and compiled for each first,
and pages of memory of the usual 32 MiB fill Java's heap for nothing.

The end-to-end tests run with what users have.
"""


def let_workers_import_tests() -> None:
    """Before Java starts: workers import the envelope of the tests by its name."""
    root = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session; a test that needs other settings makes `spark.newSession()`."""
    let_workers_import_tests()
    # Tests hardly ever run the same query again: after six minutes of a processor the second
    # compiler had still taken a quarter of them, and saved less.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)
    settings = Migration.model_validate(
        {
            "name": "tests",
            "source": {"files": {"path": "nowhere"}, "envelope": "canal"},
            "lake": {"warehouse": "nowhere-lake"},
            "spark": INTERPRETED,
        }
    )
    session = start_session(settings, "tests")
    yield session
    session.stop()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """Registers the envelope of the tests; its name."""
    monkeypatch.setitem(registry.MODULES, "tiny", "tests.spark.tiny_envelope")
    return "tiny"


@pytest.fixture
def migration(tmp_path: Path) -> Callable[..., Migration]:
    """Makes a migration with a lake and a source folder in the test's own folder.

    Keyword arguments are fields of the migration; `envelope` and `layout` are short for the
    source's, and `text_images` for the lake's.
    """

    def make(name: str = "demo", **fields: Any) -> Migration:
        source = fields.pop("source", None) or {
            "files": {
                "path": str(tmp_path / "in"),
                "layout": fields.pop("layout", "lines"),
                "topic": fields.pop("topic", "shop"),
            },
            "envelope": fields.pop("envelope", "canal"),
            "settings": fields.pop("settings", {}),
        }
        (tmp_path / "in").mkdir(exist_ok=True)
        data = {
            "name": name,
            "source": source,
            "lake": {
                "warehouse": str(tmp_path / "lake"),
                "text_images": fields.pop("text_images", "all"),
            },
            **fields,
        }
        return Migration.model_validate(data)

    return make


@pytest.fixture
def lake(spark: SparkSession, migration: Callable[..., Migration]) -> Lake:
    """An empty lake."""
    return Lake.open(spark, migration())
