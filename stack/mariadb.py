"""A MariaDB server on the loopback address, for tests.

The programs of this machine are used where there are any, else those that `make servers` fetched.
"""

from __future__ import annotations

import os
import platform
import shutil
import zipfile
from pathlib import Path

from stack.binlog_server import BinlogServer
from stack.server import ServerError

JARS = Path(__file__).resolve().parent.parent / "jars" / "mariadb"
"""Where `make servers` puts MariaDB, packed."""


class MariaDBServer(BinlogServer):
    """One MariaDB with one database and a binlog of rows."""

    def __init__(self) -> None:
        super().__init__("MariaDB")

    def _command(self) -> list[str]:
        self._home = _programs(self.folder)
        return self._served(self._program, f"--basedir={self._home}")

    @property
    def _program(self) -> Path:
        bin_, sbin = self._home / "bin" / "mariadbd", self._home / "sbin" / "mariadbd"
        return bin_ if bin_.exists() else sbin

    def _make(self) -> None:
        self._data.mkdir()
        self._give(self.folder, self._data)
        install = next(
            path
            for place in ("scripts", "bin")
            if (path := self._home / place / "mariadb-install-db").exists()
        )
        self._run(
            *(str(install), "--no-defaults", f"--basedir={self._home}", f"--datadir={self._data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--force"),
        )
        text = (
            # Users without a password.
            "DELETE FROM mysql.global_priv WHERE User IN ('', 'root') AND Host <> 'localhost';\n"
            "FLUSH PRIVILEGES;\n"
        )
        start = ("--no-defaults", f"--basedir={self._home}", f"--datadir={self._data}")
        self._run(str(self._program), *start, "--bootstrap", text=text + self._users)


def _programs(folder: Path) -> Path:
    """The folder above MariaDB's programs."""
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is not None:
        return Path(found).resolve().parent.parent
    there = sorted(JARS.glob("*.jar"))
    if not there or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        message = f"there is no MariaDB on this machine or in {JARS}: run `make servers`"
        raise ServerError(message)
    # Unpacked beside the data: whoever runs it may not be allowed into the project's folder.
    with zipfile.ZipFile(there[-1]) as jar:
        names = [name for name in jar.namelist() if "/linux/" in name and not name.endswith("/")]
        top = names[0][: names[0].index("/linux/") + len("/linux/")]
        jar.extractall(folder / "programs", names)
    home = folder / "programs" / top
    for place in ("bin", "scripts"):
        for path in (home / place).iterdir():
            path.chmod(0o755)
    return home
