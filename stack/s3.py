"""An S3 server: S3Proxy over a folder on the loopback address, for tests and demos.

    python -m stack.s3 FOLDER PORT

runs one on every address, as a container wants it, with the key of the environment variables
WAYBILL_S3_KEY and WAYBILL_S3_SECRET.

S3Proxy is one jar, so it needs nothing beside Java. It checks signatures, puts under conditions
(exactly one of many that race wins), takes uploads in parts, and knows buckets by path and by host.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from stack.server import Server, ServerError, listening
from waybill_airflow.free_ports import LOOPBACK, free_port

JARS = Path(__file__).resolve().parent.parent / "jars" / "s3proxy"
"""Where `make servers` puts S3Proxy."""


class S3Server(Server):
    """One server and its objects. A second start on the same folder keeps what was there.

    Args:
        folder: where objects, settings and log are.
        port: a free one where 0.
        host: a name whose subdomains are buckets, beside buckets in the path.
        address: to listen on.

    Attributes:
        key_id: id of the only key.
        secret: the key, made anew for every server.
    """

    def __init__(
        self, folder: Path, port: int = 0, host: str = "", address: str = LOOPBACK
    ) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self._address = address
        self.key_id = f"key{secrets.token_hex(6)}"
        self.secret = secrets.token_urlsafe(24)
        self._host = host
        jar = next(iter(sorted(JARS.glob("s3proxy-*.jar"))), JARS / "s3proxy.jar")
        java = (
            Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        )
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        super().__init__(
            "the S3 server",
            [str(java), *options, "-jar", str(jar), "--properties", str(self._settings)],
            self.folder / "s3.log",
            lambda: listening(self.port),
        )
        self._jar = jar

    @property
    def _settings(self) -> Path:
        return self.folder / "s3proxy.properties"

    @property
    def endpoint(self) -> str:
        """URL of the server."""
        return f"http://{LOOPBACK}:{self.port}"

    def connection(self, **extra: object) -> dict[str, object]:
        """A connection to it, as Airflow takes one; `extra` is added to its extra."""
        style = {"s3": {"addressing_style": "path"}}
        return {
            "conn_type": "aws",
            "login": self.key_id,
            "password": self.secret,
            "extra": {"endpoint_url": self.endpoint, "config_kwargs": style, **extra},
        }

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            ServerError: S3Proxy is not there, or does not start; the log is named.
        """
        self.prepare()
        super().start()

    def prepare(self) -> None:
        """Write what it reads at its start.

        Raises:
            ServerError: S3Proxy is not there.
        """
        if not self._jar.is_file():
            message = f"there is no S3Proxy in {JARS}: run `make servers`"
            raise ServerError(message)
        objects = self.folder / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        settings = {
            "s3proxy.endpoint": f"http://{self._address}:{self.port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.key_id,
            "s3proxy.credential": self.secret,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(objects),
        }
        if self._host:
            settings["s3proxy.virtual-host"] = self._host
        # The key is in this file: nobody else reads it.
        self._settings.touch(mode=0o600)
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._settings.write_text(lines, encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Become the server."""
    folder, port = arguments
    server = S3Server(Path(folder), int(port), address="0.0.0.0")
    server.key_id = os.environ.pop("WAYBILL_S3_KEY")
    server.secret = os.environ.pop("WAYBILL_S3_SECRET")
    server.prepare()
    os.execvp(server.argv[0], server.argv)


if __name__ == "__main__":
    main(sys.argv[1:])
