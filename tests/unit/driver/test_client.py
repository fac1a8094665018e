"""What stands between Airflow and a driver that stays: addresses, tokens, other servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from waybill.cli.driver import TOKEN, DriverOptions, driver_command
from waybill.driver.client import ask
from waybill.errors import ConfigurationError, DriverError

SECRET = "s3cret-token-0123456789"


@contextmanager
def server(body: bytes, status: int = 200) -> Iterator[str]:
    """Address of something that answers every order with the same bytes."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def refused(call: Callable[..., Any], *given: Any) -> str:
    """The sentence of an error that asking again does not help, and that keeps the token."""
    with pytest.raises(DriverError) as caught:
        call(*given)
    assert not caught.value.transient
    # What is shown with a traceback counts too.
    shown: BaseException | None = caught.value
    while shown is not None:
        assert "s3cret" not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__cause__ or shown.__context__
    return str(caught.value)


@pytest.mark.parametrize("token", ["", " ", f"{SECRET}\n", f"{SECRET} ", f"{SECRET}ä", "a\rs3cret"])
def test_a_token_that_no_request_can_carry_is_refused_and_not_shown(token) -> None:
    assert "the token of the driver at http://h:8190 is empty" in refused(
        ask, "http://h:8190", token, {}, print
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://http://driver.example:8190",
        "http://::1:8190",
        "http://:8190",
        "http://h",
        "http://h:many",
        "ftp://h:8190",
        "http://h/x:8190",
        "http://a..b:8190",
    ],
)
def test_what_is_no_address_is_said(url) -> None:
    assert "is not the address of a driver" in refused(ask, url, SECRET, {}, print)


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[]", b"\xff"])
def test_another_server_is_not_taken_for_a_driver(body) -> None:
    with server(body) as url:
        assert "is not a driver but a proxy or another server" in refused(
            ask, url, SECRET, {}, print
        )


def test_an_answer_that_ends_in_a_line_may_be_asked_for_again() -> None:
    with (
        server(b'{"alive": null}\n{"resu') as url,
        pytest.raises(DriverError, match="broke off") as caught,
    ):
        ask(url, SECRET, {}, print)
    assert caught.value.transient


def test_a_token_of_words_is_carried() -> None:
    with server(b'{"result": {"report": {}}}\n') as url:
        assert ask(url, "words and words", {}, print) == {"report": {}}


@pytest.mark.parametrize("token", ["", "short\n", " " * 20, f"{SECRET}ä"])
def test_a_driver_does_not_start_with_a_token_that_nobody_can_show(monkeypatch, token) -> None:
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(ConfigurationError, match="16 characters of printable ASCII") as caught:
        driver_command("127.0.0.1", 0, None, DriverOptions())
    assert "s3cret" not in str(caught.value)


def test_a_driver_takes_its_token_without_the_end_of_the_line(monkeypatch, tmp_path) -> None:
    served: list[Any] = []
    monkeypatch.setenv(TOKEN, f"{SECRET}\n")
    monkeypatch.setattr("waybill.driver.server.serve", lambda *given: served.append(given))
    monkeypatch.setattr("waybill.lake.session.start_session", lambda **_given: Stopped())
    driver_command("127.0.0.1", 8190, None, DriverOptions(migrations=tmp_path))
    ((_spark, token, folder, host, port),) = served
    assert (token, folder, host, port) == (SECRET, tmp_path, "127.0.0.1", 8190)


def test_a_driver_does_not_start_without_its_folder_of_migrations(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="nowhere: name the folder of the migrations"):
        driver_command("127.0.0.1", 0, None, DriverOptions())


def test_secret_settings_come_from_a_file_alone(monkeypatch, tmp_path) -> None:
    started: list[dict[str, str]] = []

    def command(given: DriverOptions) -> None:
        monkeypatch.setenv(TOKEN, SECRET)
        driver_command("127.0.0.1", 0, None, given)

    monkeypatch.setattr("waybill.driver.server.serve", lambda *_given: None)

    def start(name: str, settings: dict[str, str]) -> Stopped:
        started.append(settings)
        return Stopped()

    monkeypatch.setattr("waybill.lake.session.start_session", start)
    for name in ("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key"):
        with pytest.raises(ConfigurationError, match="no place on a command line") as caught:
            command(DriverOptions([f"{name}=hidden"], None, tmp_path))
        assert "hidden" not in str(caught.value)
    file = tmp_path / "settings"
    file.write_text("# ours\n\nspark.hadoop.fs.s3a.secret.key = a=b\nspark.cores.max=3\n")
    command(DriverOptions(["spark.cores.max=1"], file, tmp_path))
    assert started == [{"spark.hadoop.fs.s3a.secret.key": "a=b", "spark.cores.max": "1"}]
    file.write_text("fs.s3a.secret.key=hidden\n")
    with pytest.raises(ConfigurationError, match="settings: line 1: write it as") as caught:
        command(DriverOptions([], file, tmp_path))
    assert "hidden" not in str(caught.value)


class Stopped:
    """Stands for a session."""

    def stop(self) -> None:
        pass
