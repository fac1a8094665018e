"""A schema registry: Apicurio Registry on the loopback address, for tests.

It keeps its schemas in memory and speaks the API of Confluent's registry below a path of its own.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

from stack.archives import unpack
from stack.server import ServerError, TemporaryServer, listening
from waybill_airflow.free_ports import LOOPBACK, free_port

JARS = Path(__file__).resolve().parent.parent / "jars" / "schema_registry"
"""Where `make servers` puts the registry, packed."""

API = "/apis/ccompat/v7"
"""The path of Confluent's API."""
OWN_API = "/apis/registry/v2"
"""The path of Apicurio's own API."""


class SchemaRegistryServer(TemporaryServer):
    """One registry. A second start on the same port has forgotten all schemas.

    Attributes:
        port: where it listens.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="waybill-schema-registry-"))
        home = os.environ.get("JAVA_HOME")
        argv = [
            str(Path(home) / "bin" / "java") if home else "java",
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"),
            *(f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={self.port}"),
            *("-Dquarkus.log.level=WARN", "-jar", str(self.folder / "runner.jar")),
        ]
        super().__init__(
            "the schema registry",
            argv,
            self.folder / "registry.log",
            lambda: listening(self.port),
        )

    @property
    def url(self) -> str:
        """What clients of Confluent's registry are told."""
        return f"http://{LOOPBACK}:{self.port}{API}"

    @property
    def own_url(self) -> str:
        """What Apicurio's own clients are told."""
        return f"http://{LOOPBACK}:{self.port}{OWN_API}"

    def start(self) -> None:
        """Unpack it where that was not done yet, start, and wait until it answers.

        Raises:
            ServerError: the registry is not there, or does not start; the log is named.
        """
        runner = self.folder / "runner.jar"
        if not runner.exists():
            packed = sorted(JARS.glob("apicurio-registry-app-*.tar.gz"))
            if not packed:
                message = f"there is no schema registry in {JARS}: run `make servers`"
                raise ServerError(message)
            with tarfile.open(packed[-1]) as archive:
                unpack(archive, self.folder)
            # It finds its other jars beside it, whatever its own name is.
            next(self.folder.glob("*-runner.jar")).rename(runner)
        super().start()
