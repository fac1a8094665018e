"""A started web server of Airflow, with its plugins, and questions to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

from waybill_airflow.free_ports import free_port
from waybill_airflow.rest import Client, RestError

PASSWORDS = {"admin": "open", "viewer": "look"}
"""Who may log in: one who may do everything, and one who may see."""


@contextmanager
def web_server(home: Path, environment: Mapping[str, str], path: str = "") -> Iterator[Client]:
    """Start it over a migrated database.

    Args:
        home: Airflow's.
        environment: further variables of the server.
        path: that it is served under, with a slash before.

    Returns:
        A client in which the admin is logged in.
    """
    port = free_port()
    base = f"http://127.0.0.1:{port}{path}"
    said = home / f"server-{port}.log"
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    everything = {
        **os.environ,
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        **environment,
    }
    log = said.open("wb")
    command = ["airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=everything,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    client = Client(base)
    try:
        limit = time.monotonic() + 300
        while True:
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < limit, "the web server does not come up"
            try:
                client.log_in("admin", PASSWORDS["admin"])
                break
            except RestError:
                time.sleep(0.3)
        yield client
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        log.close()


def ask(
    server: Client,
    path: str,
    *,
    token: str | None = None,
    cookie: str | None = None,
    method: str = "GET",
) -> tuple[int, Message, str]:
    """Status, headers and text of an answer."""
    headers = {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if cookie:
        headers["Cookie"] = f"_token={cookie}"
    request = urllib.request.Request(server.base_url + path, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def token_of(server: Client, user: str, password: str) -> str:
    """What somebody gets who logs in."""
    client = Client(server.base_url)
    client.log_in(user, password)
    assert client._token is not None
    return client._token
