"""What servers that speak MySQL's protocol, and keep a binlog of rows, have in common."""

from __future__ import annotations

import socket
from pathlib import Path

from stack.databases import DatabaseServer
from waybill_airflow.free_ports import LOOPBACK

_GREETING = 10
"""The version of what a server says first (MariaDB's documentation, "Connecting")."""


def accepts(port: int) -> bool:
    """Whether a server greets clients; it listens before it does."""
    try:
        with socket.create_connection((LOOPBACK, port), 0.5) as asked:
            return asked.recv(5)[4:5] == bytes([_GREETING])
    except OSError:
        return False


class BinlogServer(DatabaseServer):
    """One server with one database and a binlog of rows.

    Args:
        name: what messages call it.
    """

    kind = "mysql"

    def __init__(self, name: str) -> None:
        super().__init__(name, accepts)

    def _served(self, program: str | Path, *options: str) -> list[str]:
        """The command of a server for tests.

        Args:
            program: what is run.
            options: what this kind of server needs besides.
        """
        return [
            *(str(program), "--no-defaults", *options, f"--datadir={self._data}"),
            *(f"--bind-address={LOOPBACK}", f"--port={self.port}"),
            *(f"--socket={self.folder / 'socket'}", "--skip-name-resolve", "--server-id=1"),
            # The only format of the newest servers, which will not know the option any more.
            *("--log-bin=binlog", "--loose-binlog-format=ROW", "--binlog-row-image=FULL"),
            # Nothing here has to outlive a power cut.
            *("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--sql-mode="),
            "--character-set-server=utf8mb4",
        ]

    @property
    def _users(self) -> str:
        """What makes the database and its users; run by the server alone, for want of a client."""
        return (
            f"CREATE DATABASE {self.database};\n"
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
            f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{self.password}';\n"
        )
