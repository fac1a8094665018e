"""A PostgreSQL server on the loopback address, for tests and demos.

The programs of this machine are used where there are any, else those that `make servers` fetched.
"""

from __future__ import annotations

import os
import platform
import pwd
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from stack.server import ServerError, TemporaryServer
from waybill_airflow.free_ports import LOOPBACK, free_port

JARS = Path(__file__).resolve().parent.parent / "jars" / "postgres"
"""Where `make servers` puts PostgreSQL, packed."""

INSTALLED = "/usr/lib/postgresql/*/bin/postgres"
"""Where Debian keeps programs that are not on the PATH."""

USER = "waybill"

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


class PostgresServer(TemporaryServer):
    """One server with one database. A second start keeps what was there.

    PostgreSQL refuses to run as root; there it runs as the user `nobody`.

    Attributes:
        port: where it listens.
        database: name of its database.
        user: who may do everything.
        password: of the user, made anew for every server.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.database = self.user = USER
        self.password = secrets.token_urlsafe(18)
        # Not below a folder that only its owner may enter, as pytest's are.
        self.folder = Path(tempfile.mkdtemp(prefix="waybill-postgres-"))
        self._account = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
        self._data = self.folder / "data"
        self._programs = _programs(self.folder)
        argv = [
            *(str(self._programs / "postgres"), "-D", str(self._data)),
            *("-h", LOOPBACK, "-p", str(self.port)),
            # No socket beside the network; nothing here has to outlive a power cut.
            *("-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=50"),
        ]
        super().__init__(
            "PostgreSQL",
            argv,
            self.folder / "postgres.log",
            lambda: accepts(self.port),
            user=self._account,
        )

    @property
    def uri(self) -> str:
        """The database as JDBC names it."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{self.database}"

    def connection(self) -> dict[str, object]:
        """The login, as a connection of Airflow."""
        return {"conn_type": "postgres", "login": self.user, "password": self.password}

    def start(self) -> None:
        """Make the database where there is none, start, and wait until clients are accepted.

        Raises:
            ServerError: it does not start; the log is named.
        """
        if not self._data.exists():
            self._make()
        super().start()

    def stop(self) -> None:
        """End it without waiting for clients to leave."""
        self._end(signal.SIGINT)

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password, encoding="utf-8")
        if self._account is not None:
            for path in (self.folder, secret):
                os.chown(path, self._account, self._account)
        self._run(
            *("initdb", "-D", str(self._data), "-U", self.user, f"--pwfile={secret}"),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"),
        )
        # The only way to make a database without a client is the server's own single-user mode.
        single = ("--single", "-D", str(self._data), "postgres")
        self._run("postgres", *single, text=f"CREATE DATABASE {self.database};\n")
        secret.unlink()

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            user=self._account,
            group=self._account,
            cwd=self.folder,
        )
        if done.returncode != 0:
            message = (
                f"PostgreSQL's {program} failed: {(done.stderr or done.stdout).strip()[-500:]}"
            )
            raise ServerError(message)


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
            archive.extractall(folder / "programs", filter="data")
    return folder / "programs" / "bin"
