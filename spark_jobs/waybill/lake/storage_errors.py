"""What Java says of servers that are away, keys they do not take, full disks and full memories."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waybill.errors import (
    Code,
    ConfigurationError,
    LakeError,
    UnavailableError,
    WaybillError,
    value_lost,
)
from waybill.lake.damaged_files import WRONG_CHECKSUM
from waybill.lake.object_storage import AWS_JAR, needs_aws, warehouse_place

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

MISSING_JAR = (
    f"this Spark has no {AWS_JAR}, which a lake in object storage needs: run `make setup-s3`, then "
    "restart Spark"
)

_FULL = re.compile(
    r"No space left on device|File too large|database or disk is full", re.IGNORECASE
)
_NO_CLIENT = re.compile(r"(ClassNotFoundException|NoClassDefFoundError)\S*:? \S*software.amazon")
_NO_BUCKET = re.compile(r"NoSuchBucket|specified bucket does not exist")
_NO_KEY = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Unable to load credentials|"
    r"S3Exception[^\n]*Status Code: 40[13]"
)
_S3_AWAY = re.compile(
    r"S3Exception[^\n]*Status Code: 5\d\d|SlowDown|SdkClientException|ApiCallTimeoutException"
)
_SQL_LOGIN = re.compile(r"password authentication failed|no password was provided|SCRAM")
_SQL_NO_DATABASE = re.compile(r'FATAL: (database|role) "[^"\n]*" does not exist')
_SQL_AWAY = re.compile(
    r"PSQLException[^\n]*(refused|connection attempt failed|terminating connection|I/O error|"
    r"has been closed|starting up|shutting down|too many clients|crash of another)|"
    r"SQL(Non)?TransientConnectionException|UnknownHostException|CommunicationsException|"
    # What PostgreSQL's own client says, which asks without Java.
    r"connection to server at [^\n]* failed|connection timeout expired|"
    r"failed to resolve host|server closed the connection"
)
_SQL_NO_DRIVER = re.compile(r"No suitable driver found")
_REST_LOGIN = re.compile(r"NotAuthorizedException|ForbiddenException")
_REST_AWAY = re.compile(
    r"ServiceUnavailableException|HttpHostConnectException|rest.RESTException|ServiceFailureException"
)


_GONE = re.compile(
    r"(?:NotFoundException|NoSuchFileException|FileNotFoundException|FileNotFoundError|"
    r"Path does not exist|No such file or directory|"
    # What Arrow and PyIceberg say, who read without Java.
    r"Failed to open local file|Cannot open file, does not exist)[^\n]*?"
    r"(?P<path>(?:[a-z0-9]+:)?/[^\s'\",\]]+)"
)

_RAISED = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (the row .*? has no value in its column .*?) SQLSTATE: P0001", re.S
)
"""A row whose exact text cannot be made (`waybill.merge.short_images`)."""

_JOB_LOST = "Job aborted due to stage failure"
_EXECUTORS = re.compile(r"ExecutorLostFailure|OutOfMemoryError|exceeding memory limits")
_IN_THE_DRIVER = "executor driver"
"""What Spark calls the place of a task that runs in the process of its driver."""


@contextmanager
def plainly(spec: Migration) -> Iterator[None]:
    """Raise what Java says of the lake's servers and disk as one sentence.

    Raises:
        ConfigurationError: a key or login is not taken, a bucket, database or jar is not there.
        LakeError: a file of the lake is gone, or a value that another program took away.
        UnavailableError: a server cannot be reached or failed, there is no space left, or Spark's
            processes ended.
    """
    try:
        yield
    except WaybillError:
        raise
    except Exception as error:
        meant = explained(error, spec)
        if meant is None:
            raise
        raise meant from error


def explained(error: BaseException, spec: Migration) -> WaybillError | None:
    """What an error means, None where that is not known."""
    text = _everything(error)
    if _FULL.search(text) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        message = f"there is no space left for the lake {spec.lake.warehouse}: make room, run again"
        return UnavailableError(message, code=Code.DISK_FULL)
    raised = _RAISED.search(text)
    if raised is not None:
        return value_lost(raised[1])
    if WRONG_CHECKSUM in text:
        message = (
            "a page of a data file of the lake is not what its checksum says (the log above names "
            "the file): put it back from a copy, or continue under a new migration name, which "
            "reads the source again"
        )
        return LakeError(message, code=Code.LAKE_FILE_LOST)
    parts = (_of_gone_files(text, spec), _of_files(text, spec), _of_catalog(text, spec))
    return next((meant for meant in parts if meant is not None), _of_executors(text))


def _of_gone_files(text: str, spec: Migration) -> WaybillError | None:
    """A file of the lake that is not there, though a table says it is.

    Files elsewhere, those that Spark keeps while it works among them, may come back.
    """
    warehouse = _plain(spec.lake.warehouse)
    for found in _GONE.finditer(text):
        path = found["path"].rstrip(".:;)")
        if not _plain(path).startswith(f"{warehouse}/"):
            continue
        what = "metadata" if "/metadata/" in path else "data"
        message = (
            f"the lake has lost the {what} file {path}, which its tables name: put it back from a "
            "copy, or continue under a new migration name, which reads the source again"
        )
        return LakeError(message, code=Code.LAKE_FILE_LOST)
    return None


def _plain(place: str) -> str:
    """A place without its scheme, its connection and what a disk's may begin with."""
    bare = re.sub(r"^[a-z0-9]+:/*(?:[^/@]*@)?", "/", place)
    return "/" + bare.strip("/")


def _of_files(text: str, spec: Migration) -> WaybillError | None:
    place = warehouse_place(spec)
    if needs_aws(spec) and _NO_CLIENT.search(text):
        return ConfigurationError(MISSING_JAR, code=Code.SPARK_SETUP)
    if place is None:
        return None
    connection = place.connection_name
    if _NO_BUCKET.search(text):
        message = f"there is no bucket {place.bucket}: make it, or fix {place.url}"
        return ConfigurationError(message, code=Code.STORE_ADDRESS)
    if _NO_KEY.search(text):
        message = (
            f"the store of {place.url} does not take the key of the connection {connection}, or "
            "forbids it what the lake needs: fix its login and password or its permissions"
        )
        return ConfigurationError(message, code=Code.STORE_DENIED)
    if _S3_AWAY.search(text):
        message = (
            f"the store of {place.url} cannot be reached or keeps failing: run again when it has "
            f"recovered, or fix the connection {connection}"
        )
        return UnavailableError(message, code=Code.STORE_UNREACHABLE)
    return None


def _of_catalog(text: str, spec: Migration) -> WaybillError | None:
    catalog = spec.lake.catalog
    uri = str(catalog.get("uri", "")).split("?")[0]
    if not uri:
        return None
    if _SQL_LOGIN.search(text) or _REST_LOGIN.search(text):
        connection = catalog.get("connection")
        where = f"the connection {connection}" if connection else "a connection under lake.catalog"
        message = f"the catalog at {uri} does not take the login: give it in {where}"
        return ConfigurationError(message, code=Code.CATALOG)
    if _SQL_NO_DRIVER.search(text):
        message = f"this Spark has no driver for {uri}: put its jar beside those of `make setup`"
        return ConfigurationError(message, code=Code.SPARK_SETUP)
    missing = _SQL_NO_DATABASE.search(text)
    if missing:
        message = f"the catalog at {uri} cannot be opened ({missing[0]}): make it, or fix the uri"
        return ConfigurationError(message, code=Code.CATALOG)
    if _SQL_AWAY.search(text) or _REST_AWAY.search(text):
        message = f"the catalog at {uri} cannot be reached: run again when it can, or fix its uri"
        return UnavailableError(message, code=Code.CATALOG_UNREACHABLE)
    return None


def _of_executors(text: str) -> WaybillError | None:
    found = _EXECUTORS.search(text) if _JOB_LOST in text else None
    if found is None:
        return None
    if _IN_THE_DRIVER in text:
        memory = "spark.driver.memory"
    else:
        memory = "spark.executor.memory or spark.executor.memoryOverhead"
    message = (
        f"Spark gave up the job because its tasks ran out of memory or their processes ended "
        f"({found[0]}): give them more with {memory}, or see in their logs what ended them"
    )
    return UnavailableError(message, code=Code.TASKS_ENDED)


def _everything(error: BaseException) -> str:
    """The classes and messages of an error and of what caused it, in Java and here."""
    sentences: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(sentences) < 100:
        sentences.append(str(seen))
        thrown: Any = getattr(seen, "java_exception", None) or getattr(seen, "_origin", None)
        while thrown is not None and len(sentences) < 100:
            sentences.append(str(thrown.toString()))
            thrown = thrown.getCause()
        seen = seen.__cause__ or seen.__context__
    return "\n".join(sentences)
