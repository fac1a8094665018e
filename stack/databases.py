"""What the databases of the stack and of tests have in common."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from stack.server import ServerError, TemporaryServer
from waybill_airflow.free_ports import free_port

USER = "waybill"

_SECONDS = 300
"""That a program which makes a database may take."""


class DatabaseServer(TemporaryServer):
    """One server with one database. A second start keeps what was there.

    Databases refuse to run as root; there they run as the user `nobody`.

    Attributes:
        kind: type of its connections in Airflow.
        port: where it listens.
        database: name of its database.
        user: who may do everything.
        password: of the user, made anew for every server.

    Args:
        name: what messages call it.
        accepts: whether a server takes clients at a port.
    """

    kind = ""

    def __init__(self, name: str, accepts: Callable[[int], bool]) -> None:
        self.port = free_port()
        self.database = self.user = USER
        self.password = secrets.token_urlsafe(18)
        # Not below a folder that only its owner may enter, as pytest's are.
        self.folder = Path(tempfile.mkdtemp(prefix=f"waybill-{name.lower()}-"))
        self._data = self.folder / "data"
        self._account = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
        try:
            command = self._command()
        except ServerError:
            shutil.rmtree(self.folder)
            raise
        super().__init__(
            name,
            command,
            self.folder / f"{name.lower()}.log",
            lambda: accepts(self.port),
            user=self._account,
        )

    def _command(self) -> Sequence[str]:
        """What starts it; finds its programs first."""
        raise NotImplementedError

    def _make(self) -> None:
        """Make the database."""
        raise NotImplementedError

    def connection(self) -> dict[str, object]:
        """The login, as a connection of Airflow."""
        return {"conn_type": self.kind, "login": self.user, "password": self.password}

    def start(self) -> None:
        """Make the database where there is none, start, and wait until clients are accepted.

        Raises:
            ServerError: it does not start; the log is named.
        """
        if not self._data.exists():
            self._make()
        super().start()

    def _give(self, *paths: Path) -> None:
        """Let the user that it runs as own these."""
        if self._account is not None:
            for path in paths:
                os.chown(path, self._account, self._account)

    def _run(self, *command: str, text: str = "") -> None:
        program = f"{self.name}'s {Path(command[0]).name}"
        try:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                user=self._account,
                group=self._account,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired:
            message = f"{program} was not done within {_SECONDS} s: run it by hand to see why"
            raise ServerError(message) from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-500:]
            message = f"{program} failed: {said}"
            raise ServerError(message)
