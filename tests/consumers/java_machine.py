"""A Java machine with the jars of one consumer, driven from here through Py4J."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.errors.exceptions import captured

JARS = Path(__file__).resolve().parents[2] / "jars" / "consumers"
"""Where `make consumers` puts them, one folder a consumer."""

OPENED = (
    *("lang", "lang.reflect", "io", "net", "nio", "text", "time"),
    *("util", "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)
"""Packages of java.base that Flink reads by reflection, which Java 17 forbids unless set."""


class JavaMissingError(Exception):
    """The jars of a consumer are not there."""


@contextmanager
def java_machine(consumer: str) -> Iterator[JavaGateway]:
    """A running machine; `gateway.jvm` names its classes.

    Raises:
        JavaMissingError: the jars of the consumer were not fetched.
    """
    folder = JARS / consumer
    if not any(folder.glob("*.jar")):
        message = f"there are no jars in {folder}: run `make consumers`"
        raise JavaMissingError(message)
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
    port, token, process = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{folder}/*",
        javaopts=["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        with _exceptions_of_its_own(gateway):
            yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()  # which it ends at
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _exceptions_of_its_own(gateway: JavaGateway) -> Iterator[None]:
    """Keep PySpark from taking exceptions of this machine for those of Spark's.

    It asks Spark's Java about every exception of Py4J, by a number that is another object there.
    """
    converted = captured.convert_exception

    def convert(error: Any) -> captured.CapturedException:
        if error._gateway_client is gateway._gateway_client:
            # Of which it raises what Py4J had; making one as usual asks Spark, too.
            return captured.UnknownException.__new__(captured.UnknownException)
        return converted(error)

    captured.convert_exception = convert
    try:
        yield
    finally:
        captured.convert_exception = converted


def java_reason(error: Any) -> str:
    """What a Java exception and all that caused it say, outermost first."""
    said, cause = [], error.java_exception
    while cause is not None:
        said.append(cause.toString())
        cause = cause.getCause()
    return "\n".join(said)
