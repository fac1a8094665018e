"""Whether sessions in MySQL are encrypted, and which of its errors may pass."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from waybill.connections import Connection
from waybill.errors import Code, ConfigurationError, UnreachableError
from waybill.verify.mysql import MySQL
from waybill.verify.mysql_tls import tls_of

GREETING = (
    b"\x0a9.7.4\0" + b"\x01\0\0\0" + b"12345678\0"
    # All that a server can but TLS (bit 11) and compression.
    + b"\xff\xf7" + b"\xff" + b"\x02\0" + b"\xff\x81" + b"\x15" + b"\0" * 10
    + b"123456789012\0" + b"caching_sha2_password\0"
)  # fmt: skip
REFUSED = b"\xff\x15\x04#28000Access denied"


class Plain:
    """A server without TLS that notes what it is sent, and lets nobody in."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.received: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client:
                client.sendall(len(GREETING).to_bytes(3, "little") + b"\0" + GREETING)
                self.received.append(client.recv(4096))
                if self.received[-1]:
                    client.sendall(len(REFUSED).to_bytes(3, "little") + b"\x02" + REFUSED)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def plain() -> Iterator[Plain]:
    server = Plain()
    yield server
    server.close()


def asked(port: int, **extra: Any) -> MySQL:
    login = {"host": "127.0.0.1", "port": port, "login": "reader", "password": "a word"}
    return MySQL(Connection("source", "mysql", extra=extra, **login))


@pytest.mark.parametrize("said", [True, "true", {}, "{}", {"check_hostname": False}])
def test_who_asks_for_encryption_sends_nothing_to_a_server_that_cannot(plain, said):
    with pytest.raises(ConfigurationError, match="SSL is required") as error:
        asked(plain.port, ssl=said)._open()
    assert error.value.code == Code.DATABASE_REFUSED
    assert b"reader" not in b"".join(plain.received)


@pytest.mark.parametrize("said", [None, "", False, "false"])
def test_who_does_not_goes_on_in_the_clear(plain, said):
    with pytest.raises(ConfigurationError, match="Access denied"):
        asked(plain.port, ssl=said)._open()
    assert b"reader" in b"".join(plain.received)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("REQUIRED", "is a text that is no JSON"),
        (1.5, "is 1.5"),
        ("[1]", r"is \[1\]"),
        ({"ca": "/a", "ssl_ca": "/b"}, "has the unknown ssl_ca"),
        ({"ca": "/nowhere/ca.pem"}, r"cannot be used \(.*No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(plain, said, sentence):
    with pytest.raises(ConfigurationError, match=sentence) as error:
        asked(plain.port, ssl=said)._open()
    assert error.value.code == Code.CONNECTION_INVALID
    assert "the connection source" in str(error.value)
    assert plain.received == []


NO_FILES = {"check_hostname": False, "verify_mode": False}
OF_CA = {"ca": "/a", "check_hostname": False, "verify_mode": True}


@pytest.mark.parametrize(
    ("mode", "said", "given"),
    [
        ("DISABLED", None, {"ssl_disabled": True}),
        ("disabled", False, {"ssl_disabled": True}),
        ("DISABLED", {}, {"ssl_disabled": True}),
        ("PREFERRED", None, {}),
        ("PREFERRED", "", {}),
        ("REQUIRED", None, {"ssl": NO_FILES}),
        ("REQUIRED", True, {"ssl": NO_FILES}),
        ("REQUIRED", {"cert": "/c", "key": "/k"}, {"ssl": NO_FILES | {"cert": "/c", "key": "/k"}}),
        ("REQUIRED", '{"ca": "/a"}', {"ssl": OF_CA}),
        ("REQUIRED", {"ca": "/a", "verify_mode": False}, {"ssl": OF_CA | {"verify_mode": False}}),
        ("VERIFY_CA", {"ca": "/a"}, {"ssl": OF_CA}),
        ("VERIFY_CA", {"ca": "/a", "check_hostname": False}, {"ssl": OF_CA}),
        ("VERIFY_IDENTITY", {"ca": "/a"}, {"ssl": OF_CA | {"check_hostname": True}}),
    ],
)
def test_the_mode_of_a_connection_of_airflow(mode, said, given):
    connection = Connection("source", "mysql", extra={"ssl_mode": mode, "ssl": said})
    assert tls_of(connection) == given


@pytest.mark.parametrize(
    ("mode", "said", "sentence"),
    [
        ("VERIFY", None, "is 'VERIFY': give DISABLED, PREFERRED, REQUIRED, VERIFY_CA"),
        (True, None, "is True: give DISABLED"),
        ("DISABLED", True, "is DISABLED, and ssl asks for something else"),
        ("DISABLED", {"ca": "/a"}, "is DISABLED, and ssl asks for something else"),
        ("PREFERRED", {"cert": "/c"}, "is PREFERRED, and ssl asks for something else"),
        ("PREFERRED", False, "is PREFERRED, and ssl asks for something else"),
        ("REQUIRED", False, "is REQUIRED, and ssl asks for something else"),
        ("VERIFY_CA", None, "is VERIFY_CA, and ssl names no ca or capath"),
        ("VERIFY_IDENTITY", {"ca": None, "cert": "/c"}, "ssl names no ca or capath"),
        ("VERIFY_IDENTITY", {"ca": "/a", "check_hostname": False}, "asks for something else"),
        ("VERIFY_CA", {"ca": "/a", "verify_mode": "none"}, "asks for something else"),
        ("REQUIRED", {"ssl_ca": "/a"}, "has the unknown ssl_ca"),
    ],
)
def test_a_mode_that_cannot_be_meant_is_refused(plain, mode, said, sentence):
    with pytest.raises(ConfigurationError, match=sentence) as error:
        asked(plain.port, ssl_mode=mode, ssl=said)._open()
    assert error.value.code == Code.CONNECTION_INVALID
    assert "the connection source: ssl" in str(error.value)
    assert plain.received == []


def test_a_mode_decides_what_a_server_is_sent(plain):
    with pytest.raises(ConfigurationError, match="SSL is required"):
        asked(plain.port, ssl_mode="REQUIRED")._open()
    assert b"reader" not in b"".join(plain.received)
    for mode in ("DISABLED", "PREFERRED", ""):
        plain.received.clear()
        with pytest.raises(ConfigurationError, match="Access denied"):
            asked(plain.port, ssl_mode=mode)._open()
        assert b"reader" in b"".join(plain.received)


def test_an_object_of_a_text_is_taken_as_it_is():
    given = Connection("source", "mysql", extra={"ssl": '{"ca": "/a", "cert": "/b", "key": "/c"}'})
    assert tls_of(given) == {"ssl": {"ca": "/a", "cert": "/b", "key": "/c"}}


@pytest.mark.parametrize(
    ("number", "passes"),
    [
        (1213, True),  # A deadlock.
        (1412, True),  # An ALTER TABLE since the view was taken.
        (1317, True),  # KILL QUERY.
        (3024, True),  # max_execution_time of MySQL
        (1969, True),  # and max_statement_time of MariaDB.
        (2013, True),  # The server went away.
        (1045, False),  # A wrong password.
        (3118, False),  # A locked account of MySQL
        (4151, False),  # and of MariaDB.
        (3159, False),  # The server takes encrypted sessions only.
        (2026, False),  # The client does, and the server cannot.
    ],
)
def test_which_errors_may_pass(number, passes):
    expected = UnreachableError if passes else ConfigurationError
    with pytest.raises(expected) as error, asked(1)._plainly():
        raise pymysql.err.OperationalError(number, "so it said")
    assert str(error.value).endswith(f"could not be read: {number} so it said")
