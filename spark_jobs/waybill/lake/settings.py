"""Spark settings of every job, without starting Spark: what a session or a submission needs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.errors import ConfigurationError

if TYPE_CHECKING:
    from waybill.spec import Migration

CATALOG = "lake"
"""The catalog's name in Spark, in SQL and in the embedded catalog's own tables."""

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Long messages: a batch ends at this size although it has fewer rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
}
"""What every query of a stage relies on; may be set on a session that runs already."""


def jars() -> list[str]:
    """The jars that Spark needs beside its own.

    They lie in the folder named by WAYBILL_JARS, or in `jars` of the checkout.

    Raises:
        ConfigurationError: there is no such folder, or nothing in it.
    """
    folder = _jar_folder()
    found = sorted(str(path) for path in folder.glob("*.jar"))
    if not found:
        message = (
            f"there are no jars in {folder}: run `make setup`, or name a folder in WAYBILL_JARS"
        )
        raise ConfigurationError(message)
    return found


def _jar_folder() -> Path:
    named = os.environ.get("WAYBILL_JARS")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "jars"


def _class_archive() -> list[str]:
    """Java options to take Spark's classes from the archive that `make setup` left, if it did.

    Reading them one by one is most of a stage's first seconds. Java does without an archive that
    belongs to another Java or to other jars, and need not say so.
    """
    archive = _jar_folder() / "spark.jsa"
    if not archive.is_file() or archive.stat().st_size == 0:
        return []
    return [f'-XX:SharedArchiveFile="{archive.absolute()}"', "-Xshare:auto", "-Xlog:cds*=off"]


def spark_settings(spec: Migration | None = None) -> dict[str, str]:
    """Settings to start Spark with: for a session of one's own or for spark-submit.

    Settings of the migration (`spark:`) go before these.
    """
    options = _class_archive()
    quiet = Path(__file__).with_name("log4j2.properties")
    if quiet.is_file():
        options.append(f"-Dlog4j2.configurationFile={quiet.as_uri()}")
    settings = {
        "spark.jars": ",".join(jars()),
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "waybill-spark-warehouse"),
        "spark.driver.extraJavaOptions": " ".join(options),
        **SESSION_SETTINGS,
    }
    if spec is not None:
        settings.update(spec.spark)
    return settings


def catalog_properties(spec: Migration) -> dict[str, str]:
    """The properties of the migration's catalog, as Spark takes them below the catalog's name.

    Where the migration says nothing about the catalog it is a SQLite file in the warehouse folder.

    Raises:
        ConfigurationError: the embedded catalog cannot lie in a warehouse that is no local folder.
    """
    warehouse = spec.lake.warehouse.removeprefix("file://")
    given: dict[str, Any] = dict(spec.lake.catalog)
    if not any(name in given for name in ("type", "catalog-impl")):
        given["type"] = "jdbc"
    if given["type" if "type" in given else "catalog-impl"] == "jdbc":
        if "uri" not in given:
            if "://" in warehouse:
                message = (
                    f"the warehouse {warehouse} is no local folder, so the catalog cannot be a "
                    "file in it: name one under lake.catalog, e.g. {type: jdbc, uri: …}"
                )
                raise ConfigurationError(message)
            given["uri"] = f"jdbc:sqlite:{Path(warehouse).absolute()}/catalog.db"
        given.setdefault("jdbc.schema-version", "V1")
        if str(given["uri"]).startswith("jdbc:sqlite:") and "?" not in str(given["uri"]):
            # Two runs may commit to the file at the same moment: wait for the lock, do not fail.
            given["uri"] = f"{given['uri']}?busy_timeout=60000"
            given.setdefault("clients", "1")
    properties = {name: _text(value) for name, value in given.items()}
    properties.setdefault("warehouse", warehouse)
    # A cached table would hide what another run has committed.
    properties["cache-enabled"] = "false"
    return properties


def local_catalog_folder(properties: dict[str, str]) -> Path | None:
    """The folder that must exist before the embedded catalog can be opened, None for others."""
    uri = properties.get("uri", "")
    if not uri.startswith("jdbc:sqlite:"):
        return None
    return Path(uri.removeprefix("jdbc:sqlite:").split("?")[0]).parent


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
