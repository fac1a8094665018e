"""A PostgreSQL server on the loopback address, for tests and demos.

The programs of this machine are used where there are any, else those that `make servers` fetched.
"""

from __future__ import annotations

import platform
import shutil
import signal
import socket
import struct
import tarfile
import zipfile
from pathlib import Path

from stack.archives import unpack
from stack.databases import USER, DatabaseServer
from stack.server import ServerError
from waybill_airflow.free_ports import LOOPBACK

JARS = Path(__file__).resolve().parent.parent / "jars" / "postgres"
"""Where `make servers` puts PostgreSQL, packed."""

INSTALLED = "/usr/lib/postgresql/*/bin/postgres"
"""Where Debian keeps programs that are not on the PATH."""

_PROTOCOL = 3 << 16
"""Version 3.0 of what clients speak."""


def accepts(port: int) -> bool:
    """Whether a server asks clients for their password; it listens before it takes any.

    Source: PostgreSQL's documentation, "Message Formats", StartupMessage and Authentication.
    """
    names = b"".join(word + b"\0" for word in (b"user", USER.encode(), b""))
    hello = struct.pack("!ii", 8 + len(names), _PROTOCOL) + names
    try:
        with socket.create_connection((LOOPBACK, port), 0.5) as asked:
            asked.sendall(hello)
            return asked.recv(1) == b"R"
    except OSError:
        return False


class PostgresServer(DatabaseServer):
    """One server with one database."""

    kind = "postgres"

    def __init__(self) -> None:
        super().__init__("PostgreSQL", accepts)

    def _command(self) -> list[str]:
        self._programs = _programs(self.folder)
        return [
            *(self._program("postgres"), "-D", str(self._data)),
            *("-h", LOOPBACK, "-p", str(self.port)),
            # No socket beside the network; nothing here has to outlive a power cut.
            *("-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=50"),
        ]

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    @property
    def uri(self) -> str:
        """The database as JDBC names it."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{self.database}"

    def stop(self) -> None:
        """End it without waiting for clients to leave."""
        self._end(signal.SIGINT)

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password, encoding="utf-8")
        self._give(self.folder, secret)
        self._run(
            *(
                self._program("initdb"),
                "-D",
                str(self._data),
                "-U",
                self.user,
                f"--pwfile={secret}",
            ),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"),
        )
        # The only way to make a database without a client is the server's own single-user mode.
        single = ("--single", "-D", str(self._data), "postgres")
        self._run(self._program("postgres"), *single, text=f"CREATE DATABASE {self.database};\n")
        secret.unlink()


def _programs(folder: Path) -> Path:
    """The folder of PostgreSQL's programs."""
    installed = sorted(Path("/").glob(INSTALLED.lstrip("/")))
    on_path = shutil.which("postgres")
    for program in [*installed[-1:], *([Path(on_path).resolve()] if on_path else [])]:
        if (program.parent / "initdb").is_file():
            return program.parent
    machine = {"x86_64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(platform.machine())
    found = sorted(JARS.glob(f"*-{platform.system().lower()}-{machine}-*.jar"))
    if not found:
        message = f"there is no PostgreSQL on this machine or in {JARS}: run `make servers`"
        raise ServerError(message)
    # Unpacked beside the data: whoever runs it may not be allowed into the project's folder.
    with zipfile.ZipFile(found[-1]) as jar:
        packed = next(name for name in jar.namelist() if name.endswith(".txz"))
        with jar.open(packed) as stream, tarfile.open(fileobj=stream, mode="r:xz") as archive:
            unpack(archive, folder / "programs")
    return folder / "programs" / "bin"
