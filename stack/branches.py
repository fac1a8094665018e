"""The second example of the stack: branches of a shop in a MariaDB, and what Debezium made of it.

    python -m stack.branches FOLDER week N       the shop goes on, and its changes come
    python -m stack.branches FOLDER sql TEXT…    statements in the MariaDB, in one session

Both are for the shell of people, which has the connections of the running example: see
docs/walk-through.md.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pymysql
from pymysql.constants import CLIENT

from stack.example import Example
from stack.mariadb import MariaDBServer
from stack.server import ServerError
from waybill.connections import Connection, get_connection
from waybill.errors import WaybillError
from waybill_airflow.free_ports import LOOPBACK
from waybill_airflow.local_airflow import LocalAirflow
from waybill_airflow.own_folder import Owner, own_folder

CHECKOUT = Path(__file__).resolve().parent.parent
RECORDED = CHECKOUT / "samples" / "branches"
PAGE = CHECKOUT / "docs" / "walk-through.md"

READER, OWNER = "shop_source", "shop_owner"
"""Connections: of Waybill, who may only read, and of the shop."""

_OWNER = Owner("stack", "WAYBILL_STACK", ("airflow", "lake", "migrations", "out", "stream"))


class Branches(Example):
    """The MariaDB of the branches, the folder of their topic, and Airflow.

    Args:
        folder: everything of it.
        port: of Airflow's web pages.
        tell: is told what is being started.
    """

    def __init__(self, folder: Path, port: int, tell: Callable[[str], object]) -> None:
        self.folder = folder.absolute()
        super().__init__(tell)
        self.mariadb = MariaDBServer()
        self._password = secrets.token_urlsafe(18)
        self.owner = Connection(
            OWNER,
            host=LOOPBACK,
            port=self.mariadb.port,
            login=self.mariadb.user,
            password=self.mariadb.password,
        )
        self.environment = {
            **self._connections(),
            "WAYBILL_MIGRATIONS": str(self.folder / "migrations"),
        }
        self.airflow = LocalAirflow(self.folder / "airflow", port, self.environment)

    def _give_up(self) -> None:
        super()._give_up()
        self.mariadb.remove()

    def _start(self) -> None:
        self.airflow.check_port()
        self._running.callback(os.close, own_folder(self.folder, _OWNER))
        for name in ("migrations", "stream"):
            (self.folder / name).mkdir()
        self._tell("Starting MariaDB …")
        self._running.enter_context(self.mariadb)
        reader = [
            f"CREATE USER reader@'%' IDENTIFIED BY '{self._password}'",
            "GRANT SELECT, BINLOG MONITOR ON *.* TO reader@'%'",
        ]
        statements(self.owner, reader)
        week(self.owner, self.folder, 1)
        self._write_env()
        self._start_airflow(())

    def _connections(self) -> dict[str, str]:
        where = {"conn_type": "mysql", "host": LOOPBACK, "port": self.mariadb.port}
        logins = {
            READER: {"login": "reader", "password": self._password},
            OWNER: {"login": self.owner.login, "password": self.owner.password},
        }
        return {
            f"AIRFLOW_CONN_{name.upper()}": json.dumps({**where, **login})
            for name, login in logins.items()
        }

    def _write_env(self) -> None:
        """What people's shells read: only they may, because of the passwords."""
        program = f"cd {shlex.quote(str(CHECKOUT))} && {shlex.quote(sys.executable)}"
        ours = f"{program} -m stack.branches {shlex.quote(str(self.folder))}"
        told = {
            **self.environment,
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in told.items()]
        lines += [f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"]
        lines += [f'{name}() {{ ( {ours} {name} "$@" ); }}' for name in ("week", "sql")]
        place = self.folder / "env"
        place.unlink(missing_ok=True)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def week(owner: Connection, folder: Path, number: int) -> None:
    """Let the shop go on for a week, and bring what Debezium recorded of it.

    Raises:
        ServerError: the shop is not in the week before, or there is no such week.
    """
    stream = folder / "stream"
    last = len([*stream.glob("*.jsonl")])
    script = RECORDED / f"{number:04}.sql"
    if number != last + 1 or not script.exists():
        weeks = len([*RECORDED.glob("*.sql")])
        what = f"go on with `week {last + 1}`" if last < weeks else "it was the last one recorded"
        message = f"the shop is in week {last}: {what}"
        raise ServerError(message)
    statements(owner, [script.read_text(encoding="utf-8")])
    # It appears at once and whole.
    hidden = stream / f".{number:04}"
    shutil.copyfile(RECORDED / f"{number:04}.jsonl", hidden)
    hidden.rename(stream / f"{number:04}.jsonl")


def statements(to: Connection, texts: Iterable[str]) -> None:
    """Run texts of SQL in one session of the shop's own user.

    Raises:
        ServerError: the MariaDB refuses one, or does not answer.
    """
    try:
        session = pymysql.connect(
            host=to.host,
            port=to.port or 3306,
            user=to.login,
            password=to.password,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )
        with session, session.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
                while cursor.nextset():
                    pass
    except pymysql.err.MySQLError as error:
        message = f"MariaDB: {error.args[-1] if error.args else error}"
        raise ServerError(message) from error


def main(arguments: list[str]) -> int:
    """Do what a person's shell asks for and return the exit status."""
    try:
        match arguments:
            case [folder, "week", number] if number.isdecimal():
                week(get_connection(OWNER), Path(folder), int(number))
            case [_, "sql", _, *_]:
                statements(get_connection(OWNER), arguments[2:])
            case _:
                sys.stderr.write("write `week 2`, or `sql` with statements in quotes\n")
                return 2
    except (WaybillError, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
