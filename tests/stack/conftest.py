"""The whole stack as `make stack` starts it: Airflow, Kafka, S3, PostgreSQL, a Spark cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import packed
from stack.local import MIGRATIONS, LocalStack
from waybill.lake.settings import SHORT_RUNS
from waybill_airflow.free_ports import free_port

os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)
# Master, workers and executors are started by others, and see the options of every Java.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make packed` makes, but larger: each executor here takes seconds to uncompress it."""
    archive = tmp_path_factory.mktemp("packed") / "executors.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "LEVEL", 0)
        assert packed.main([str(archive)]) == 0
    return archive


@pytest.fixture(scope="session")
def shipped(archive: Path) -> dict[str, str]:
    """Settings with which executors get their Python and its packages from the driver."""
    return {
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }


@pytest.fixture(scope="session")
def stack(
    tmp_path_factory: pytest.TempPathFactory, shipped: dict[str, str]
) -> Iterator[LocalStack]:
    """The stack with its example migration, which runs every minute, and with an empty topic.

    Its executors have the Python that the driver brings, with the clients of Kafka and S3.
    """
    migrations = tmp_path_factory.mktemp("migrations")
    text = Path(MIGRATIONS, "shop_stream.yaml").read_text(encoding="utf-8")
    scheduled = text.replace("schedule: null", 'schedule: "* * * * *"')
    assert scheduled != text
    Path(migrations, "shop_stream.yaml").write_text(scheduled, encoding="utf-8")
    folder = tmp_path_factory.mktemp("stack")
    stack = LocalStack(
        folder, free_port(), print, migrations=migrations, samples=None, settings=shipped
    )
    before = dict(os.environ)
    os.environ.update(stack.environment)
    try:
        with stack:
            yield stack
    finally:
        os.environ.clear()
        os.environ.update(before)
