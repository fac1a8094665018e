"""What Java says, made plain, without a server and without Spark."""

from __future__ import annotations

import pytest

from waybill.errors import LakeError, UnavailableError
from waybill.jobs import described
from waybill.lake.storage_errors import explained, plainly
from waybill.spec.migration import Migration

LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 7.0 failed "
    "4 times, most recent failure: Lost task 3.3 in stage 7.0 (TID 91) (10.0.0.7 executor 2): "
)
HERE = LOST.replace("10.0.0.7 executor 2", "host executor driver")


class Py4JJavaError(Exception):
    """As py4j writes it: a sentence of its own, then what Java threw."""

    def __init__(self, thrown: str) -> None:
        self.thrown = thrown

    def __str__(self) -> str:
        first = "An error occurred while calling o213.collectToPython."
        return f"{first}\n: {self.thrown}\n\tat org.apache.spark.Some.call(Some.scala:1)"


@pytest.fixture
def spec() -> Migration:
    source = {"files": {"path": "/in"}, "envelope": "canal"}
    return Migration.model_validate({"name": "m", "source": source, "lake": {"warehouse": "/lake"}})


@pytest.mark.parametrize(
    ("thrown", "named"),
    [
        (
            f"{LOST}ExecutorLostFailure (executor 2 exited) Reason: code 137",
            "spark.executor.memory",
        ),
        (f"{LOST}java.lang.OutOfMemoryError: Java heap space", "spark.executor.memoryOverhead"),
        (f"{LOST}Container killed by YARN for exceeding memory limits.", "spark.executor.memory"),
        (f"{HERE}java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory"),
    ],
)
def test_a_job_that_was_lost_says_which_memory(spec, thrown, named) -> None:
    with pytest.raises(UnavailableError, match="Spark gave up the job") as caught, plainly(spec):
        raise Py4JJavaError(thrown)
    assert named in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("thrown", "named"),
    [
        (
            "org.apache.iceberg.exceptions.NotFoundException: Location does not exist: "
            "/lake/m_log/changes/metadata/00007-a.gz.metadata.json",
            "the metadata file /lake/m_log/changes/metadata/00007-a.gz.metadata.json",
        ),
        (
            f"{LOST}org.apache.iceberg.exceptions.NotFoundException: Failed to open input stream "
            "for file: file:/lake/m_log/archive/data/batch=b1/x.parquet",
            "the data file file:/lake/m_log/archive/data/batch=b1/x.parquet",
        ),
        (
            f"{LOST}FileNotFoundError: [Errno 2] No such file or directory: "
            "'/lake/m/shop_orders/data/y.parquet'",
            "the data file /lake/m/shop_orders/data/y.parquet",
        ),
    ],
)
def test_a_file_of_the_lake_that_is_gone_lasts(spec, thrown, named) -> None:
    with pytest.raises(LakeError) as caught, plainly(spec):
        raise Py4JJavaError(thrown)
    assert named in str(caught.value)
    assert "put it back from a copy, or continue under a new migration name" in str(caught.value)
    assert described(caught.value)["transient"] is False


@pytest.mark.parametrize(
    "thrown",
    [
        "java.io.FileNotFoundException: /tmp/blockmgr-1/0c/shuffle_0_1_0.index",
        "java.io.FileNotFoundException: /lakes/other/data/x.parquet",
    ],
)
def test_files_elsewhere_may_come_back(spec, thrown) -> None:
    assert explained(Py4JJavaError(thrown), spec) is None


@pytest.mark.parametrize(
    "thrown",
    [f"{LOST}java.lang.ArithmeticException", "java.lang.OutOfMemoryError: Java heap space"],
)
def test_other_errors_of_jobs_stay_what_they_are(spec, thrown) -> None:
    assert explained(Py4JJavaError(thrown), spec) is None


def test_an_error_of_java_is_reported_by_its_cause() -> None:
    thrown = f"{LOST}java.lang.ArithmeticException: / by zero"
    assert described(Py4JJavaError(thrown))["message"] == thrown
    assert described(OSError("first\nsecond"))["message"] == "first"
