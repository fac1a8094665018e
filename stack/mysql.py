"""A MySQL server on the loopback address, for tests.

Only programs of this machine are used: nobody publishes MySQL in a form that `make servers` could
fetch, so tests that need it skip where there is none (`mysqld`, `MISSING`).
"""

from __future__ import annotations

import os
import shutil
import subprocess

from stack.binlog_server import BinlogServer
from stack.server import ServerError

NAMED = "WAYBILL_MYSQLD"
"""The variable that names the program, or a script that runs it, where it is not on the PATH."""

SBIN = "/usr/sbin"
"""Where Debian keeps servers, which is not on everybody's PATH."""

MISSING = (
    "there is no MySQL on this machine: install one that brings `mysqld` (Debian's package "
    f"mysql-server-core, or MySQL Community Server), or let {NAMED} name its mysqld"
)
"""Why there is no server, and how to get one."""

_SECONDS = 20
"""That a program may take to say its version."""


def mysqld() -> str | None:
    """The program of a MySQL server; None where this machine has none.

    MariaDB's programs have this name, too: what says that it is MariaDB is none.

    Raises:
        ServerError: the one that `WAYBILL_MYSQLD` names is none.
    """
    named = os.environ.get(NAMED)
    if named:
        version = _version(named)
        if _is_mysql(version):
            return named
        message = (
            f"{NAMED} names {named}, which is no MySQL server ({version or 'it says nothing'}): "
            "let it name a mysqld, or unset it"
        )
        raise ServerError(message)
    found = shutil.which("mysqld", path=f"{os.environ.get('PATH', '')}:{SBIN}")
    return found if found is not None and _is_mysql(_version(found)) else None


def _version(program: str) -> str:
    """What a program says of its version, or why it says none."""
    command = (program, "--no-defaults", "--version")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def _is_mysql(version: str) -> bool:
    return " Ver " in version and "mariadb" not in version.lower()


class MySQLServer(BinlogServer):
    """One MySQL with one database and a binlog of rows."""

    def __init__(self) -> None:
        super().__init__("MySQL")

    def _command(self) -> list[str]:
        program = mysqld()
        if program is None:
            raise ServerError(MISSING)
        self._program = program
        return self._served(program, *self._apart)

    @property
    def _apart(self) -> tuple[str, ...]:
        """Options that keep it from places that belong to the machine's own server."""
        return (
            *("--loose-mysqlx=OFF", "--secure-file-priv=NULL"),
            f"--pid-file={self.folder / 'pid'}",
        )

    def _make(self) -> None:
        self._data.mkdir()
        statements = self.folder / "users.sql"
        statements.touch(mode=0o600)
        statements.write_text(f"{self._users}SHUTDOWN;\n", encoding="utf-8")
        self._give(self.folder, self._data, statements)
        data = f"--datadir={self._data}"
        self._run(self._program, "--no-defaults", "--initialize-insecure", *self._apart, data)
        # Users cannot be made before it is a whole server, so a first one makes them and ends.
        self._run(
            *(self._program, "--no-defaults", *self._apart, data),
            *("--skip-networking", "--skip-log-bin", f"--socket={self.folder / 'socket'}"),
            f"--init-file={statements}",
        )
        statements.unlink()
