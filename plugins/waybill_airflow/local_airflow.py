"""Airflow's own components and a Spark driver on the loopback address, with SQLite and a folder.

Not `airflow standalone`: that one listens on every address of the machine and leaves processes
behind when it is asked to end.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waybill.errors import WaybillError
from waybill_airflow.free_ports import free_port
from waybill_airflow.own_folder import Owner, own_folder
from waybill_airflow.places import CHECKOUT
from waybill_airflow.rest import Client, RestError

USER = "admin"
GRACE = 20.0
"""Seconds that a component has to end before it is killed."""
_LOCKED = 60
"""Seconds that a component waits for Airflow's database while another one writes."""
_SERVER_LOCKED = 2
"""Seconds that the web server does. It writes in its event loop, too, and answers nobody meanwhile:
not even the request whose end it is waiting for, which happens if a task starts just then."""

_REPORTS = "broken_migrations.py"
"""The DAG file that cannot be imported because a migration's file cannot be used, and says why."""

_DEMO = Owner("demo", "WAYBILL_DEMO", ("airflow", "lake", "out", "logs"))


class LocalAirflowError(WaybillError):
    """Airflow could not be started or has stopped; the message says what to do."""


class LocalAirflow:
    """One Airflow and one Spark driver with all their state in one folder, which it owns.

    Args:
        home: the folder.
        port: of the web pages.
        environment: variables of every component and task, which go before ours.
        driver: further options of `waybill driver`.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        environment: Mapping[str, str] | None = None,
        driver: Sequence[str] = (),
    ) -> None:
        self.home = home.absolute()
        self.port = port
        self._more = dict(environment or {})
        self._driver = list(driver)
        self.password = secrets.token_urlsafe(9)
        self._driver_token = secrets.token_urlsafe(32)
        self.client = Client(self.url)
        self._keeper: subprocess.Popen[str] | None = None
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._ended: dict[str, int] = {}

    @property
    def running(self) -> bool:
        """Whether there is anything to stop."""
        return self._keeper is not None

    @property
    def url(self) -> str:
        """Where the web pages are."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin with an empty folder and a migrated database, then start the components.

        Raises:
            LocalAirflowError: the port is in use, or the database cannot be made.
            FolderError: the folder is in use, or holds something else.
        """
        self.check_port()
        lock = own_folder(self.home, _DEMO)
        for name in ("airflow", "logs"):
            (self.home / name).mkdir(mode=0o700)
        self._start_keeper(lock)
        os.close(lock)
        self._driver_port = free_port()
        passwords = self.home / "airflow" / "passwords.json"
        handle = os.open(passwords, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({USER: self.password}, file)
        self.environment = self._environment(passwords)
        self.run("db migrate", [*_AIRFLOW, "db", "migrate"])
        driver = [*_WAYBILL, "driver", "--port", str(self._driver_port), *self._driver]
        self._order("driver", driver, {"WAYBILL_DRIVER_TOKEN": self._driver_token})
        self._order("dag-processor", [*_PRELOADED, "dag-processor"])
        self._order("scheduler", [*_PRELOADED, "scheduler", "--skip-serve-logs"])
        server = [*_AIRFLOW, "api-server", "--host", "127.0.0.1", "--port", str(self.port)]
        self._order("api-server", server, {**self._database(_SERVER_LOCKED), **self._more})

    def run(self, name: str, argv: list[str]) -> None:
        """Run something to its end, under the keeper; its output goes to its log.

        Raises:
            LocalAirflowError: it failed.
        """
        self._order(name, argv)
        while name not in self._ended:
            self._take_events(timeout=0.2)
        code = self._ended.pop(name)
        if code != 0:
            raise LocalAirflowError(self._account(name, code))

    def log(self, name: str) -> Path:
        """The file that holds what a component or a command has written."""
        return self.home / "logs" / f"{name.replace(' ', '-')}.log"

    def check(self) -> None:
        """Look whether every component still runs.

        Raises:
            LocalAirflowError: one has ended; names it and what it said last.
        """
        self._take_events(timeout=0)
        for name, code in self._ended.items():
            raise LocalAirflowError(self._account(name, code))

    def wait_for(self, dag_ids: set[str], patience: float, broken: bool = False) -> None:
        """Wait until Airflow is healthy, the login works and the DAGs are there.

        Args:
            dag_ids: the DAGs.
            patience: seconds that this may take.
            broken: whether there may be files of migrations that cannot be used.

        Raises:
            LocalAirflowError: a component has ended, a DAG file is broken, or it takes too long.
        """
        limit = time.monotonic() + patience
        logged_in = False
        missing = "its web server"
        while time.monotonic() < limit:
            self.check()
            try:
                health = self.client.call("GET", "/api/v2/monitor/health")
                if not logged_in:
                    self.client.log_in(USER, self.password)
                    logged_in = True
                missing = self._missing(health, dag_ids, broken)
                if not missing:
                    return
            except RestError as error:
                if error.status not in (0, 502, 503):
                    raise LocalAirflowError(str(error)) from error
            time.sleep(0.3)
        message = f"after {patience:.0f} s Airflow still lacks {missing}; see {self.home / 'logs'}"
        raise LocalAirflowError(message)

    def _missing(self, health: dict[str, Any], dag_ids: set[str], broken: bool) -> str:
        for part in ("metadatabase", "scheduler", "dag_processor"):
            if (health.get(part) or {}).get("status") != "healthy":
                return f"a healthy {part}"
        for error in self.client.get("importErrors")["import_errors"]:
            if broken and Path(error["filename"]).name == _REPORTS:
                continue
            text = error["stack_trace"].strip().splitlines()[-1]
            message = f"Airflow cannot import {error['filename']}: {text}"
            raise LocalAirflowError(message)
        there = {dag["dag_id"] for dag in self.client.get("dags", limit="500")["dags"]}
        lacking = dag_ids - there
        return f"the DAG {min(lacking)}" if lacking else ""

    def stop(self) -> None:
        """End everything; returns when nothing is left running."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        _pipe(keeper.stdin).close()
        try:
            keeper.wait(GRACE + 15)
        except subprocess.TimeoutExpired:
            keeper.kill()

    def check_port(self) -> None:
        """Look whether the port of the web pages is free.

        Raises:
            LocalAirflowError: it is not.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
                probe.listen()
            except OSError as error:
                message = (
                    f"port {self.port} is in use: stop what uses it, or choose another one with "
                    "`make demo WAYBILL_PORT=8081`"
                )
                raise LocalAirflowError(message) from error

    def _start_keeper(self, lock: int) -> None:
        # The keeper holds the lock too: it is free when the last process of the demo has ended.
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "waybill_airflow.keeper", str(GRACE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=(lock,),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT / "plugins")},
        )
        threading.Thread(target=self._listen, args=(self._keeper,), daemon=True).start()

    def _listen(self, keeper: subprocess.Popen[str]) -> None:
        for line in _pipe(keeper.stdout):
            self._events.put(json.loads(line))
        self._events.put({"name": "keeper", "code": keeper.wait()})

    def _order(self, name: str, argv: list[str], more: dict[str, str] | None = None) -> None:
        if self._keeper is None:
            message = "Airflow has been stopped; start the demo again"
            raise LocalAirflowError(message)
        environment = {**self.environment, **(more or {})}
        order = {"name": name, "argv": argv, "env": environment, "log": str(self.log(name))}
        pipe = _pipe(self._keeper.stdin)
        pipe.write(json.dumps(order) + "\n")
        pipe.flush()

    def _take_events(self, timeout: float) -> None:
        try:
            event = self._events.get(timeout=timeout) if timeout else self._events.get_nowait()
            while True:
                if "code" in event:
                    self._ended[event["name"]] = event["code"]
                event = self._events.get_nowait()
        except queue.Empty:
            pass  # all events so far are taken
        if "keeper" in self._ended:
            message = "the process that keeps Airflow was killed; start the demo again"
            raise LocalAirflowError(message)

    def _account(self, name: str, code: int) -> str:
        """One sentence about something that has ended, with what it said last."""
        try:
            text = self.log(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        said = [line.strip() for line in text.splitlines() if line.strip()][-1:]
        last = f" and said last: {said[0][:300]}" if said else ""
        return f"`{name}` ended with {code}{last}; all it said is in {self.log(name)}"

    def _driver_connection(self) -> str:
        where = {"conn_type": "http", "host": "127.0.0.1", "port": self._driver_port}
        return json.dumps({**where, "password": self._driver_token})

    def _database(self, patience: int) -> dict[str, str]:
        """The variable that names Airflow's database, and how many seconds to wait for it."""
        file = quote(str(self.home / "airflow" / "airflow.db"))
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{file}?timeout={patience}"}

    def _environment(self, passwords: Path) -> dict[str, str]:
        """The environment of every component, and so of every task."""
        from waybill.lake.settings import SHORT_RUNS

        beside = str(Path(sys.executable).parent)
        unwanted = ("AIRFLOW", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "SPARK_CONF_DIR")
        wanted = ("AIRFLOW__METRICS__", "AIRFLOW__OPENLINEAGE__")
        inherited = {
            name: value
            for name, value in os.environ.items()
            # Where metrics and lineage go is up to whoever starts it.
            if not name.startswith(unwanted) or name.startswith(wanted)
        }
        no_proxy = [inherited.get("no_proxy") or inherited.get("NO_PROXY", ""), "127.0.0.1"]
        local = ",".join(part for part in no_proxy if part)
        return {
            **inherited,
            "PATH": os.pathsep.join([beside, inherited.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(str(CHECKOUT / f) for f in ("plugins", "spark_jobs")),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            # A stage of the samples ends before the second compiler would pay off.
            "SPARK_SUBMIT_OPTS": SHORT_RUNS,
            "GX_ANALYTICS_ENABLED": "false",
            "no_proxy": local,
            "NO_PROXY": local,
            "WAYBILL_DEMO": str(self.home),
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[*]"}',
            "AIRFLOW_CONN_WAYBILL_DRIVER": self._driver_connection(),
            # SQLite lets one process write at a time. On a busy machine some wait longer than its
            # five seconds, after which a scheduler gives up.
            **self._database(_LOCKED),
            "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(CHECKOUT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            # Tasks wait longer for the web server than it does for the database.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            **self._more,
        }


_AIRFLOW = (sys.executable, "-m", "airflow")
_PRELOADED = (sys.executable, "-m", "waybill_airflow.preloaded")
_WAYBILL = (sys.executable, "-m", "waybill.cli")


def _pipe(pipe: Any) -> Any:
    """A pipe of a process that was started with one.

    Raises:
        LocalAirflowError: it was not.
    """
    if pipe is None:
        message = "a process was started without a pipe"
        raise LocalAirflowError(message)
    return pipe
