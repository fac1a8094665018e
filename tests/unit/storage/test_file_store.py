"""Files that appear whole or not at all, also when writers are killed or race."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from waybill.errors import Code, ConfigurationError, ConflictError
from waybill.storage.file_store import TEMPORARY, LocalStore, UrlStore, file_name, open_store


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "local":
        return open_store(str(tmp_path / "a/b"))
    return open_store(f"memory://{uuid.uuid4().hex}/b")


def test_the_kind_of_store_follows_the_path(tmp_path):
    assert isinstance(open_store(str(tmp_path)), LocalStore)
    assert isinstance(open_store(f"file://{tmp_path}"), LocalStore)
    assert isinstance(open_store("memory://x"), UrlStore)


def test_a_file_is_written_and_read(store):
    assert store.names() == []
    assert store.read("x") is None
    with store.write("x") as stream:
        stream.write(b"1")
        stream.write(b"2")
    assert store.read("x") == b"12"
    assert store.names() == ["x"]
    assert store.path("x").endswith("/b/x")
    store.remove("x")
    store.remove("x")
    assert store.names() == []


def test_create_puts_a_file_once(store):
    assert store.create("m", b"first")
    assert not store.create("m", b"second")
    assert store.read("m") == b"first"
    assert store.names() == ["m"]


def half(store):
    with store.write("x") as stream:
        stream.write(b"half")
        raise RuntimeError


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    store = open_store(str(tmp_path))
    with pytest.raises(RuntimeError):
        half(store)
    assert store.names() == []


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(tmp_path):
    store = open_store(str(tmp_path))
    assert store.create("x", b"old")
    with pytest.raises(RuntimeError):
        half(store)
    assert store.read("x") == b"old"


def test_a_writer_whose_file_was_tidied_away_says_so(tmp_path):
    store = open_store(str(tmp_path))

    def robbed():
        with store.write("x") as stream:
            stream.write(b"1")
            for name in store.names():
                store.remove(name)

    with pytest.raises(ConflictError, match="run again"):
        robbed()


WRITER = """
import sys, time
from waybill.storage.file_store import open_store
with open_store(sys.argv[1]).write("part") as stream:
    stream.write(b"x" * 1000)
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_no_file_under_the_name(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    names = open_store(str(tmp_path)).names()
    assert len(names) == 1
    assert names[0].startswith(TEMPORARY)


RACER = """
import os, sys, time
from waybill.storage.file_store import open_store
store, start = open_store(sys.argv[1]), float(sys.argv[2])
won = []
for round in range(50):
    while time.time() < start + round * 0.02:
        pass
    won.append(store.create(f"m{round}", f"{os.getpid()}".encode() * 500))
print(*map(int, won))
"""


def test_of_several_processes_exactly_one_puts_a_file(tmp_path):
    start = str(time.time() + 1.5)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), start], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    results = []
    for racer in racers:
        output, _ = racer.communicate(timeout=60)
        results.append([bool(int(word)) for word in output.split()])
    store = open_store(str(tmp_path))
    for round in range(50):
        winners = [r.pid for r, won in zip(racers, results, strict=True) if won[round]]
        assert len(winners) == 1
        assert store.read(f"m{round}") == str(winners[0]).encode() * 500
    assert len(store.names()) == 50


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("20260101T000000Z-ab12", "20260101T000000Z-ab12"),
        ("a.b_c=d", "a.b_c=d"),
    ],
)
def test_plain_names_stay(text, name):
    assert file_name(text) == name


def test_other_names_become_safe_and_stay_apart():
    nasty = [
        "manual__2026-01-01T00:00:00+00:00",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "é",
        "e",
        "a b",
        "\n",
    ]
    names = [file_name(text) for text in nasty]
    assert len(set(names)) == len(nasty)
    for name in names:
        assert name
        assert not name.startswith(".")
        assert "/" not in name
        assert os.fsencode(name).isascii()


def test_a_folder_that_takes_no_files_is_not_taken_for_one_that_was_removed():
    """`/proc` is there, and making a file in it fails as if it were not."""
    store = open_store("/proc")
    with pytest.raises(ConfigurationError, match=r"/proc takes no files .*; name a folder"):
        store.create("x", b"")
    with pytest.raises(ConfigurationError, match="takes no files"), store.write("x"):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_in_which_no_file_may_be_made_is_named(tmp_path, monkeypatch, number):
    """It is there already, as a run of another user has left it."""
    store = open_store(str(tmp_path))

    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    message = f"{tmp_path} takes no files .*{os.strerror(number)}.*; name a folder to write"
    for put in (half, lambda store: store.create("x", b"1")):
        with pytest.raises(ConfigurationError, match=message) as caught:
            put(store)
        assert caught.value.code is Code.PLACE_NOT_WRITABLE


def test_a_file_system_without_hard_links_is_named(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))

    def refused(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(ConfigurationError, match=r"has no hard links .*: name a folder") as caught:
        store.create("manifest.json", b"{}")
    assert caught.value.code is Code.PLACE_NOT_WRITABLE
    assert store.names() == []
