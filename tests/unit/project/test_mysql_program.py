"""Which program of a machine is taken for its MySQL server."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.mysql import MISSING, NAMED, MySQLServer, mysqld
from stack.server import ServerError

MYSQL = "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"
MARIADB = "mysqld  Ver 11.4.5-MariaDB for Linux on x86_64 (MariaDB Server)"


def program(folder: Path, says: str, code: int = 0) -> Path:
    """A script with the server's name, as a wrapper may be one."""
    folder.mkdir(exist_ok=True)
    path = folder / "mysqld"
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing(monkeypatch, tmp_path: Path):
    monkeypatch.delenv(NAMED, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("stack.mysql.SBIN", str(tmp_path / "sbin"))


def test_a_machine_without_one(tmp_path: Path):
    assert mysqld() is None
    with pytest.raises(ServerError, match=NAMED) as error:
        MySQLServer()
    assert str(error.value) == MISSING


@pytest.mark.parametrize("place", ["path", "sbin"])
def test_one_on_the_path(tmp_path: Path, place):
    there = program(tmp_path / place, MYSQL)
    assert mysqld() == str(there)


def test_a_mariadb_of_the_same_name_is_none(tmp_path: Path):
    program(tmp_path / "path", MARIADB)
    assert mysqld() is None


def test_the_one_that_is_named_goes_before_the_path(tmp_path: Path, monkeypatch):
    program(tmp_path / "path", MYSQL)
    named = program(tmp_path / "named", MYSQL)
    monkeypatch.setenv(NAMED, str(named))
    assert mysqld() == str(named)


@pytest.mark.parametrize("says", [MARIADB, "", "usage: mysqld"])
def test_one_that_is_named_and_is_none_is_an_error_and_no_reason_to_skip(
    tmp_path: Path, monkeypatch, says
):
    program(tmp_path / "path", MYSQL)
    monkeypatch.setenv(NAMED, str(program(tmp_path / "named", says)))
    with pytest.raises(ServerError, match="is no MySQL server"):
        mysqld()
    monkeypatch.setenv(NAMED, str(tmp_path / "nowhere"))
    with pytest.raises(ServerError, match="No such file"):
        mysqld()


def test_a_server_that_cannot_be_made_leaves_no_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerError):
        MySQLServer()
    assert list(tmp_path.iterdir()) == []
