"""Spark sessions: one of our own, and one per catalog on top of whatever session is there."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.connections import variable_of
from waybill.errors import Code, ConfigurationError
from waybill.lake.catalog_properties import catalog_properties, local_catalog_folder
from waybill.lake.java import check_java
from waybill.lake.jvm_stderr import filtered
from waybill.lake.local_permissions import set_permissions_in_java
from waybill.lake.object_storage import check_reachable
from waybill.lake.properties_file import submit_arguments
from waybill.lake.settings import CATALOG, FIXED, PYTHON, SESSION_SETTINGS, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waybill.spec.migration import Migration

SECRET = re.compile(r"secret|password|token|credential|access-key", re.IGNORECASE)
"""What is in the names of catalog properties that are secret."""

_sessions: dict[tuple[Any, ...], SparkSession] = {}
_supplied: set[str] = set()
_given: set[str] = set()
"""Environment variables of connections that tasks get."""


def start_session(
    spec: Migration | None = None, name: str = "waybill", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the settings of every job; the one that is running where there is one.

    Under spark-submit the submission's settings go before ours.

    Args:
        spec: a migration whose own settings (`spark:`) count too.
        name: what Spark's pages call it.
        settings: more settings, which go before all others.

    Raises:
        ConfigurationError: there is no Java that Spark can run.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    _prepare_environment()
    builder = SparkSession.builder.appName(name)
    with filtered(), _same_interrupt():
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            check_java()
            settings = session_settings(spec, settings or {})
            _choose_address(settings["spark.master"])
            _start_java(settings)
            for key, value in settings.items():
                builder = builder.config(key, value)
        spark = builder.getOrCreate()
    _use_python_of_executors(spark)
    _keep_classes(spark)
    return spark


_ASKED_OFTEN = (
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SimplePythonFunction",
    "SparkConf",
    "functions",
)


def _keep_classes(spark: SparkSession) -> None:
    """Keep what PySpark asks Java for by a short name with nearly every call.

    Java would look for it in all packages that are imported, in every jar there is, each time.
    """
    for name in _ASKED_OFTEN:
        setattr(spark._jvm, name, getattr(spark._jvm, name))


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java with the settings in a file; PySpark itself would put them onto its command line.

    Java that runs already is kept: it gets the settings when the session is made.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    with submit_arguments(settings):
        SparkContext._ensure_initialized(gateway=launch_gateway())  # type: ignore[no-untyped-call]


def _choose_address(master: str) -> None:
    """With a local master nobody calls from elsewhere; executors of others call the driver back."""
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _use_python_of_executors(spark: SparkSession) -> None:
    """Have the executors run the Python that the settings name.

    spark-submit tells PySpark of it. A session made by this process would have them run the Python
    of PYSPARK_PYTHON, whatever its settings say.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        context.pythonExec = context.getConf().get(PYTHON, context.pythonExec)


@contextmanager
def _same_interrupt() -> Iterator[None]:
    """Leave Ctrl-C what it was.

    PySpark's own way of it asks Java to cancel what runs, in the middle of another answer of Java:
    the interrupt is lost in the errors that this makes. The session is ended anyway.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _prepare_environment() -> None:
    """Workers run the same Python and find the library where this process found it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _silence_failed_queries()
    logging.getLogger().addFilter(_no_interrupt)
    library = str(_library_folder())
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if library not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([library, *paths])


def _silence_failed_queries() -> None:
    """Keep PySpark from printing each failed query, with values of rows, as one line of JSON.

    By a filter: a server's logging configuration enables disabled loggers again. And as loggers of
    PySpark's class: another one would refuse what PySpark passes, in place of the query's error.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _no_interrupt(record: logging.LogRecord) -> bool:
    """All but the stack that py4j logs on Ctrl-C; whoever interrupted knows it."""
    return record.msg != "KeyboardInterrupt while sending command."


def _library_folder() -> Path:
    return Path(__file__).resolve().parents[2]


def lake_session(spark: SparkSession, spec: Migration) -> SparkSession:
    """A session beside `spark` whose catalog `lake` is the migration's, made once per catalog.

    It shares the context, its executors and its jars, but not its settings, so that any number of
    migrations with different lakes run in one session, and the caller's is left as it is.

    Raises:
        ConfigurationError: the session has no Iceberg on its class path, or the migration's lake
            cannot be opened.
        UnavailableError: a server of the lake cannot be reached.
    """
    properties = catalog_properties(spec)
    _supply_connections(spark, spec.connections)
    own = {key: value for key, value in spec.spark.items() if key.startswith("spark.sql.")}
    application = str(spark.sparkContext.applicationId)
    for known in [key for key in _sessions if key[0] != application]:
        del _sessions[known]
    identity = (application, tuple(sorted(properties.items())), tuple(sorted(own.items())))
    session = _sessions.get(identity)
    if session is None:
        check_reachable(spec)
        session = _new_session(spark, properties, own)
        _sessions[identity] = session
    return session


def _new_session(
    spark: SparkSession, properties: dict[str, str], own: dict[str, str]
) -> SparkSession:
    folder = local_catalog_folder(properties)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = (
                f"the folder {folder} of the lake cannot be made ({error.strerror}): name one that "
                "can be written under lake.warehouse"
            )
            raise ConfigurationError(message, code=Code.PLACE_NOT_WRITABLE) from error
    _supply_library(spark)
    set_permissions_in_java(spark)
    session = spark.newSession()
    conf = session.conf
    if not spark.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        # For what looks at little; a stage says how much it brings (`Lake.cut_shuffles`).
        partitions = 2 * spark.sparkContext.defaultParallelism
        conf.set("spark.sql.shuffle.partitions", str(max(4, partitions)))
    for key, value in {**SESSION_SETTINGS, **own, **FIXED}.items():
        if conf.isModifiable(key):
            conf.set(key, value)
    conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in properties.items():
        conf.set(f"spark.sql.catalog.{CATALOG}.{key}", value)
    try:
        _load_catalog(session)
    except Exception as error:
        text = str(error)
        if "ClassNotFound" in text or "Cannot find catalog plugin class" in text:
            message = (
                "this Spark session has no Iceberg: start it with the settings of "
                "waybill.lake.spark_settings(), or leave the session out"
            )
            raise ConfigurationError(message, code=Code.SPARK_SETUP) from error
        raise
    finally:
        # Spark notes a session's settings with every job, in its event logs as they are. The
        # catalog knows them, and nobody else has to.
        for key in filter(SECRET.search, properties):
            conf.unset(f"spark.sql.catalog.{CATALOG}.{key}")
    return session


def _load_catalog(session: SparkSession) -> None:
    """Have the catalog read its settings; by no query, for Spark would note them with it.

    Of two runs that open a new catalog at the same moment, one may find that the other has just
    given its table the column it was about to add (`JdbcCatalog.updateSchemaIfRequired` looks and
    adds in two steps). The second try finds the column.
    """
    try:
        _catalog_of(session)
    except Exception as error:
        if "Cannot check and eventually update SQL schema" not in str(error):
            raise
        _catalog_of(session)


def _catalog_of(session: SparkSession) -> None:
    classes = type(session)._get_j_spark_session_class(session._jvm)
    before = classes.getActiveSession()
    classes.setActiveSession(session._jsparkSession)
    try:
        session._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
    finally:
        if before.isDefined():
            classes.setActiveSession(before.get())
        else:
            classes.clearActiveSession()


def _supply_connections(spark: SparkSession, names: list[str]) -> None:
    """Let the tasks find the connections where this process found them.

    They travel with the tasks and are not settings of Spark, so no page or log of Spark shows them.
    Those of a migration that used the session before are none of this one's business.
    """
    environment = spark.sparkContext.environment
    variables = {variable_of(name) for name in names}
    for variable in _given - variables:
        environment.pop(variable, None)
    _given.intersection_update(variables)
    for variable in variables:
        if variable in os.environ:
            environment[variable] = os.environ[variable]
            _given.add(variable)
        else:
            environment.pop(variable, None)


def _supply_library(spark: SparkSession) -> None:
    """Send the library to the workers of a session that does not have it."""
    context = spark.sparkContext
    application = str(context.applicationId)
    if application in _supplied:
        return
    _supplied.add(application)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_library_folder()) in paths and str(context.master).startswith("local"):
        return
    if context.parallelize(["waybill"], 1).map(importlib.util.find_spec).map(bool).collect()[0]:
        return
    context.addPyFile(str(library_zip(Path(tempfile.mkdtemp(prefix="waybill-")))))


def library_zip(folder: Path) -> Path:
    """The library as a zip in `folder`, as `--py-files` takes it."""
    root = _library_folder()
    target = folder / "waybill.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((root / "waybill").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(root))
    return target
