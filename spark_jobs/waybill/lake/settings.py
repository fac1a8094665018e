"""Spark settings of every job, without starting Spark: what a session or a submission needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.errors import Code, ConfigurationError
from waybill.lake.object_storage import AWS_JAR, JAVA_OPTIONS, needs_aws

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

CATALOG = "lake"
"""The catalog's name in Spark, in SQL and in the embedded catalog's own tables."""

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ANY_BYTES = str(2**31 - 1)
"""The value of `ARROW_BYTES` with which Spark measures nothing."""

SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java options (`SPARK_SUBMIT_OPTS`) for runs that end before the second compiler would pay off.

The first one alone gets little room for its code unless set otherwise, and then starts over."""

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark words every plan for its pages, although there are none: the short form is enough.
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "2g",
}
"""With a local master everything runs in one process, which nobody else has to reach."""

PYTHON = "spark.pyspark.python"
SHIPPED = ("spark.archives", PYTHON)
"""What brings Python to executors elsewhere. A local Spark has none and leaves these out: its tasks
run beside this process, with the same Python."""

FIXED = {
    # Times are cast to texts and back by this clock.
    "spark.sql.session.timeZone": "UTC",
    # Without it the text of the decimal 0.00000000 is 0E-8, and a text that is not a value is null.
    "spark.sql.ansi.enabled": "true",
    # A damaged page is an error, and not other values: also where Spark reads and no task of ours.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
"""What decides the meaning of values in SQL, so nobody may set it otherwise."""

SESSION_SETTINGS = {
    # A batch of long rows ends at 32 MiB although it has fewer rows. Spark measures the batch again
    # after every row for it, the longer the more rows there are, so batches are small and bounded
    # by their number of rows alone where the longest row is known (`Lake.batches_by_rows`).
    ARROW_ROWS: "1000",
    ARROW_BYTES: str(32 << 20),
}
"""What queries of a stage have unless the migration says otherwise; may be set on a session that
runs already, as may the `FIXED` ones."""


def jars(spec: Migration | None = None) -> list[str]:
    """The jars that Spark needs beside its own.

    They lie in the folder named by WAYBILL_JARS, or in `jars` of the checkout; those for object
    storage in its folder `s3`.

    Args:
        spec: the migration that they are for; without one, everything that is there.

    Raises:
        ConfigurationError: there is no such folder, nothing in it, or not what the migration needs.
    """
    folder = _jar_folder()
    found = sorted(str(path) for path in folder.glob("*.jar"))
    if not found:
        message = (
            f"there are no jars in {folder}: run `make setup`, or name a folder in WAYBILL_JARS"
        )
        raise ConfigurationError(message, code=Code.SPARK_SETUP)
    if spec is not None and not needs_aws(spec):
        return found
    more = sorted(str(path) for path in (folder / "s3").glob("*.jar"))
    if spec is not None and not any(AWS_JAR in path for path in (*found, *more)):
        message = (
            f"there is no {AWS_JAR} in {folder / 's3'}, which a lake in object storage needs: run "
            "`make setup-s3`"
        )
        raise ConfigurationError(message, code=Code.SPARK_SETUP)
    return [*found, *more]


def _jar_folder() -> Path:
    named = os.environ.get("WAYBILL_JARS")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "jars"


def class_archive_options() -> list[str]:
    """Java's options to take Spark's classes from the archive that `make setup` left, if it did.

    Reading each of them is most of a stage's first seconds, and of an executor's. Java does without
    an archive that belongs to another Java or to other jars, and need not say so.
    """
    archive = _jar_folder() / "spark.jsa"
    if not archive.is_file() or archive.stat().st_size == 0:
        return []
    return [f'-XX:SharedArchiveFile="{archive.absolute()}"', "-Xshare:auto", "-Xlog:cds*=off"]


def spark_settings(spec: Migration | None = None) -> dict[str, str]:
    """Settings to start Spark with: for a session of one's own or for spark-submit.

    Settings of the migration (`spark:`) go before these, but for the `FIXED` ones.
    """
    options = class_archive_options()
    quiet = Path(__file__).with_name("log4j2.properties")
    if quiet.is_file():
        options.append(f"-Dlog4j2.configurationFile={quiet.as_uri()}")
    settings = {
        "spark.jars": ",".join(jars(spec)),
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.showConsoleProgress": "false",
        # Which line of this library named a column helps nobody; to note it takes several calls of
        # Java, a fifth of all that a small batch makes.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "waybill-spark-warehouse"),
        "spark.driver.extraJavaOptions": " ".join(options),
        **SESSION_SETTINGS,
    }
    if spec is None or needs_aws(spec):
        for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
            settings[name] = f"{settings.get(name, '')} {JAVA_OPTIONS}".strip()
    if spec is not None:
        settings.update(spec.spark)
    return {**settings, **FIXED}


def session_settings(spec: Migration | None, more: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session that this process starts itself.

    Args:
        spec: a migration whose own settings (`spark:`) count too.
        more: what goes before all others.
    """
    settings = {**spark_settings(spec), **more}
    if not settings.setdefault("spark.master", "local[*]").startswith("local"):
        return settings
    return {key: value for key, value in {**LOCAL, **settings}.items() if key not in SHIPPED}
