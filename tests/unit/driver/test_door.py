"""What a driver does with requests that are not an order of its own Airflow: no Spark is needed."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from waybill.driver import door, work
from waybill.driver.server import application, listening
from waybill.driver.work import MOST_ORDERS, Work

TOKEN = "the token of the tests"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}

# Each request would read all certificates of this machine anew, although none here needs one.
CERTIFICATES = httpx.create_ssl_context()
get = partial(httpx.get, verify=CERTIFICATES)
post = partial(httpx.post, verify=CERTIFICATES)


class Context:
    """Stands for a Spark that answers."""

    def __init__(self) -> None:
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))

    def setJobGroup(self, *_given: Any) -> None:
        pass

    def cancelJobGroup(self, *_given: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Address of a driver for the migrations of a folder."""
    stages = Work(SimpleNamespace(sparkContext=Context()), folder)  # type: ignore[arg-type]
    server = uvicorn.Server(listening(application(stages, TOKEN, pytest.fail), "127.0.0.1", 0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "migrations"
    made.mkdir()
    (made / "demo.yaml").write_text(
        "name: demo\nsource: {files: {path: in}, envelope: canal}\n"
        "publish: [{envelope: canal, files: {path: out}}]\n"
    )
    return made


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


@pytest.fixture
def order(folder: Path) -> dict[str, Any]:
    return {"stage": "snapshot", "migration": str(folder / "demo.yaml"), "batch": "b1"}


@pytest.fixture
def stage(monkeypatch) -> Callable[[Callable[[], dict[str, Any]]], None]:
    """Puts a function in the place of every stage."""

    def put(run: Callable[[], dict[str, Any]]) -> None:
        monkeypatch.setattr(work, "result_of", lambda *_given: run())

    return put


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def test_a_long_body_without_the_token_is_neither_read_nor_kept(url) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with connected(url) as client:
        client.sendall(b"POST /stages HTTP/1.1\r\nHost: h\r\nContent-Length: 600000000\r\n\r\n")
        with suppress(OSError):  # the driver has hung up
            for _ in range(600):
                client.sendall(b"x" * 1_000_000)
        with suppress(OSError):
            assert client.recv(100).startswith(b"HTTP/1.1 401 ")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 50_000, "kilobytes"


def test_the_token_is_asked_for_before_anything_is_said_of_the_body(url) -> None:
    for body in (b"{", b"[]", b"{}", b"\xff"):
        answer = post(f"{url}/stages", content=body)
        assert answer.status_code == 401
        assert answer.json() == {"detail": "this is not the driver's token"}
        assert post(f"{url}/stages", content=body, headers=ALLOWED).status_code == 422
    for path in ("/", "/docs", "/nowhere"):
        assert get(f"{url}{path}").status_code == 401


@pytest.mark.parametrize("declared", [True, False])
def test_an_order_has_a_bounded_length(url, declared) -> None:
    body = b" " * (door.MOST_BYTES + 1)
    content = body if declared else iter([body[:1000], body[1000:]])
    with suppress(httpx.WriteError, httpx.ReadError):  # the driver has hung up
        answer = post(f"{url}/stages", content=content, headers=ALLOWED)
        assert answer.status_code == 413


def test_an_order_that_stays_on_its_way_is_given_up(url, monkeypatch) -> None:
    monkeypatch.setattr(door, "BODY_SECONDS", 0.3)
    head = f"POST /stages HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n"
    with connected(url) as client:
        client.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("sent", [b"", b"POST /stages HTTP/1.1\r\nHost"])
def test_a_connection_without_a_request_is_closed(url, monkeypatch, sent) -> None:
    monkeypatch.setattr(door, "REQUEST_SECONDS", 0.5)
    with connected(url) as client:
        client.sendall(sent)
        for _ in range(4):  # a byte now and then keeps nothing open
            time.sleep(0.2)
            with suppress(OSError):
                client.sendall(b"x" if sent else b"")
        with suppress(ConnectionResetError):
            assert client.recv(1000) == b""


def test_an_answer_may_take_longer_than_a_request(url, order, stage, monkeypatch) -> None:
    monkeypatch.setattr(door, "REQUEST_SECONDS", 0.2)

    def slow() -> dict[str, Any]:
        time.sleep(1)
        return {"report": {}}

    stage(slow)
    answer = post(f"{url}/stages", json=order, headers=ALLOWED)
    assert json.loads(answer.text.splitlines()[-1]) == {"result": {"report": {}}}


def test_orders_wait_in_a_bounded_queue_and_health_answers_meanwhile(url, order, stage) -> None:
    go = threading.Event()

    def waiting() -> dict[str, Any]:
        assert go.wait(60)
        return {"report": {}}

    stage(waiting)
    with ThreadPoolExecutor(90) as clients:
        try:
            asked = [
                clients.submit(post, f"{url}/stages", json=order, headers=ALLOWED, timeout=60)
                for _ in range(90)
            ]
            while sum(one.done() for one in asked) < 90 - MOST_ORDERS:
                time.sleep(0.05)
            started = time.monotonic()
            assert get(f"{url}/health").json() == {"status": "busy"}
            assert time.monotonic() - started < 2
            refused = [one.result() for one in asked if one.done()]
        finally:
            go.set()
        assert {answer.status_code for answer in refused} == {503}
        assert all("orders wait" in answer.json()["detail"] for answer in refused)
        done = [one.result() for one in asked if one.result().status_code == 200]
    assert len(done) == MOST_ORDERS
    # There is room again.
    assert post(f"{url}/stages", json=order, headers=ALLOWED).status_code == 200


def test_only_migrations_of_the_folder_are_run(url, order, folder, tmp_path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text("s3cret: hidden\n")
    (folder / "link.yaml").symlink_to(outside)
    (folder / "notes.txt").write_text("hidden")
    for path in (
        "/etc/passwd",
        str(outside),
        str(folder / ".." / "outside.yaml"),
        str(folder / "link.yaml"),
        str(folder / "notes.txt"),
        "/nowhere/at/all.yaml",
        "a\0b.yaml",
    ):
        answer = post(f"{url}/stages", json={**order, "migration": path}, headers=ALLOWED)
        assert answer.status_code == 403
        assert "below the driver's folder of migrations" in answer.json()["detail"]
        assert "hidden" not in answer.text


def test_nothing_of_a_file_comes_back_in_errors(url, order, folder) -> None:
    (folder / "demo.yaml").write_text("root_x_0_0: hidden\nname: [\n")
    answer = post(f"{url}/stages", json=order, headers=ALLOWED)
    result = json.loads(answer.text.splitlines()[-1])["result"]
    assert result["error"]["message"].startswith("demo.yaml cannot be used as a migration")
    (folder / "demo.yaml").write_text("root_x_0_0: hidden\nname: {hidden: 1}\n")
    answer = post(f"{url}/stages", json=order, headers=ALLOWED)
    assert "hidden" not in answer.text
    assert "root_x" not in answer.text


@pytest.mark.parametrize("name", ["a=b", "", "a\0b"])
def test_connections_that_no_environment_holds_leave_nothing_in_it(url, order, name) -> None:
    connections = {"good": "secret", name: "x"}
    before = dict(os.environ)
    answer = post(f"{url}/stages", json={**order, "connections": connections}, headers=ALLOWED)
    assert answer.status_code == 422
    assert "secret" not in answer.text
    assert dict(os.environ) == before


def test_an_environment_that_refuses_a_connection_is_left_as_it_was() -> None:
    before = dict(os.environ)
    with (
        pytest.raises(ValueError, match="environment"),
        work._environment({"good": "secret", "a=b": "x"}),
    ):
        pytest.fail("nothing runs")
    assert dict(os.environ) == before
