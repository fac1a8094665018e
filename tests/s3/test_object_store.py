"""Objects are whole or not there, put once, and read as what they were when they were opened."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stack.s3 import S3Server
from tests.s3.faulty import Fault
from waybill.errors import ConfigurationError, SourceError, UnavailableError
from waybill.sources.files import token_of
from waybill.sources.streams import digest_of, line_lists, opened, unpacked
from waybill.storage.file_store import open_store
from waybill.storage.objects.store import PART, ObjectStore
from waybill.storage.open import open_storage

BIG = bytes(range(256)) * (PART // 256) + b"the end"
"""More than a part."""


@pytest.fixture
def store(bucket, connect):
    connect()
    return open_store(f"s3://{bucket}/a/b")


def put(store, name, content=b"x"):
    with store.write(name) as stream:
        stream.write(content)


def test_a_file_is_written_and_read(store, bucket, admin):
    assert isinstance(store, ObjectStore)
    assert store.names() == []
    assert store.read("x") is None
    with store.write("x") as stream:
        stream.write(b"1")
        stream.write(memoryview(b"2"))
    assert store.read("x") == b"12"
    put(store, "empty", b"")
    assert store.read("empty") == b""
    admin.put_object(Bucket=bucket, Key="a/b/folder/y", Body=b"")
    admin.put_object(Bucket=bucket, Key="a/bc", Body=b"")
    assert store.names() == ["empty", "x"]
    assert store.path("x") == f"s3://{bucket}/a/b/x"
    store.remove("x")
    store.remove("x")
    assert store.names() == ["empty"]


def test_a_folder_may_be_the_bucket(connect, bucket):
    connect()
    whole = open_store(f"s3://{bucket}/")
    assert whole.create("m", b"1")
    assert (whole.names(), whole.path("m")) == (["m"], f"s3://{bucket}/m")


def test_the_connection_may_stand_in_the_url(connect, bucket):
    connect("other")
    store = open_store(f"s3://other@{bucket}/f")
    put(store, "x")
    assert store.path("x") == f"s3://other@{bucket}/f/x"
    fs, path = open_storage(store.path("x"))
    assert path == f"{bucket}/f/x"
    assert fs.unstrip_protocol(path) == store.path("x")
    assert list(fs.find(f"{bucket}/f")) == [path]


def test_large_files_go_in_parts(store, bucket, admin, monkeypatch):
    with store.write("big") as stream:
        for start in range(0, len(BIG), 1000_003):
            stream.write(BIG[start : start + 1000_003])
        assert store.names() == []
    assert store.read("big") == BIG
    assert admin.head_object(Bucket=bucket, Key="a/b/big")["ETag"].endswith('-2"')
    assert digest_of(store.path("big")) == hashlib.blake2b(BIG, digest_size=12).hexdigest()


@pytest.mark.parametrize("content", [b"half", BIG])
def test_a_writer_that_fails_leaves_nothing(store, bucket, admin, content):
    def fail():
        with store.write("x") as stream:
            stream.write(content)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.names() == []
    assert admin.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_bytes_that_changed_on_the_way_are_not_kept(store, monkeypatch):
    monkeypatch.setattr("waybill.storage.objects.store.md5", lambda _: "AAAAAAAAAAAAAAAAAAAAAA==")
    with pytest.raises(Exception, match=r"BadDigest|InvalidDigest"):
        put(store, "x")
    assert store.names() == []


# Put if absent


def test_create_puts_a_file_once(store):
    assert store.create("m", b"first")
    assert not store.create("m", b"second")
    assert not store.create("m", b"first")
    assert store.read("m") == b"first"


def test_of_eight_that_race_one_wins(store):
    assert store.create("known", b"")
    stores = [open_store(store.root) for _ in range(8)]
    for round in range(25):
        barrier = threading.Barrier(8)

        def race(i, name=f"m{round}", barrier=barrier):
            barrier.wait()
            return stores[i].create(name, str(i).encode() * 500)

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(race, range(8)))
        assert won.count(True) == 1
        assert store.read(f"m{round}") == str(won.index(True)).encode() * 500


def test_a_put_whose_answer_was_lost_is_known_as_our_own(through_proxy, bucket):
    store = open_store(f"s3://{bucket}/f")
    assert store.create("before", b"")
    through_proxy.spoil(Fault("^PUT .*/f/m$", "lost"))
    assert store.create("m", b"1")
    assert through_proxy.spoiled == [f"lost PUT /{bucket}/f/m"]
    assert not store.create("m", b"1")


@pytest.mark.parametrize("kind", ["unknown", "ignore"])
def test_a_server_without_conditions_is_noticed(through_proxy, bucket, kind, caplog):
    caplog.set_level(logging.WARNING)
    store = open_store(f"s3://{bucket}/f")
    put(store, "old", b"old")
    through_proxy.spoil(Fault("^PUT ", kind, times=0))
    assert not store.create("old", b"new")
    assert store.create("m", b"1")
    assert "under a condition" in caplog.text
    assert not store.create("m", b"2")
    assert store.create("n", b"3")
    assert [store.read(name) for name in ("old", "m", "n")] == [b"old", b"1", b"3"]


def test_a_setting_says_that_the_server_knows_no_conditions(connect, bucket, through_proxy):
    connect(extra={"endpoint_url": through_proxy.endpoint, "conditional_puts": False})
    through_proxy.spoil(Fault("^PUT ", "unknown", times=0))
    store = open_store(f"s3://{bucket}/f")
    assert store.create("m", b"1")
    assert not store.create("m", b"2")
    assert through_proxy.spoiled == []


# Reading


def test_listing_finds_what_a_local_folder_would(connect, bucket, admin, tmp_path):
    connect()
    names = ["in/a.jsonl", "in/b.txt", "in/deep/er/c.jsonl", "in/x[1].jsonl", "in2/d.jsonl", "e"]
    for name in names:
        admin.put_object(Bucket=bucket, Key=name, Body=name.encode())
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    admin.put_object(Bucket=bucket, Key="in/deep/", Body=b"")
    fs, root = open_storage(f"s3://{bucket}")
    local, base = open_storage(str(tmp_path))

    def same(ask):
        ours = [name.removeprefix(root) for name in sorted(ask(fs, root))]
        theirs = [name.removeprefix(base) for name in sorted(ask(local, base))]
        assert ours == [name for name in theirs if (tmp_path / name.lstrip("/")).is_file()]
        assert ours

    same(lambda f, r: f.find(r))
    same(lambda f, r: f.find(f"{r}/in", maxdepth=1))
    same(lambda f, r: f.find(f"{r}/in/deep"))
    same(lambda f, r: f.find(f"{r}/in/a.jsonl"))
    same(lambda f, r: f.glob(f"{r}/in/*.jsonl"))
    same(lambda f, r: f.glob(f"{r}/in/**/*.jsonl"))
    same(lambda f, r: f.glob(f"{r}/in*/*"))
    listed = {entry["name"].removeprefix(root): entry["type"] for entry in fs.ls(f"{root}/in")}
    assert listed.pop("/in/deep") == "directory"
    assert listed == dict.fromkeys(["/in/a.jsonl", "/in/b.txt", "/in/x[1].jsonl"], "file")
    assert fs.ls(f"{root}/e", detail=False) == [f"{root}/e"]
    for path, kind in (("in", "directory"), ("in/a.jsonl", "file"), ("in/deep/er", "directory")):
        assert fs.info(f"{root}/{path}")["type"] == kind
    assert fs.exists(root)
    assert not fs.exists(f"{root}/i")
    assert not fs.isfile(f"{root}/in")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/nowhere")


def test_more_objects_than_a_page_holds(connect, bucket, admin):
    connect()
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda i: admin.put_object(Bucket=bucket, Key=f"in/{i:04d}", Body=b""), range(1003)
            )
        )
    fs, root = open_storage(f"s3://{bucket}/in")
    assert len(fs.find(root)) == 1003
    assert len(open_store(f"s3://{bucket}/in").names()) == 1003


def test_lines_come_whole_from_many_ranges(store, monkeypatch):
    monkeypatch.setattr("waybill.storage.objects.reading.BLOCK", 1000)
    monkeypatch.setattr("waybill.sources.streams.BLOCK", 777)
    lines = [f"{i} " * (i % 50) + "\u2028" for i in range(3000)]
    content = "\n".join(lines).encode()
    put(store, "x.jsonl", content)
    with opened(store.path("x.jsonl")) as stream:
        found = [line for some in line_lists(unpacked(stream, "x"), "x") for line in some]
        assert stream.digest() == hashlib.blake2b(content, digest_size=12).hexdigest()
    assert [line.decode() for line in found] == lines


def test_other_content_is_another_token(store):
    fs, path = open_storage(store.path("x"))
    put(store, "x", b"one")
    first = token_of(fs.info(path))
    put(store, "x", b"eno")
    assert token_of(fs.info(path)) != first
    put(store, "x", b"one")
    assert token_of(fs.info(path)) == first
    assert token_of(fs.find(path, detail=True)[path]) == first


def test_an_object_that_changes_while_it_is_read_is_an_error(store, monkeypatch):
    monkeypatch.setattr("waybill.storage.objects.reading.BLOCK", 1000)
    put(store, "x", b"1" * 10_000)
    fs, path = open_storage(store.path("x"))
    with fs.open(path, "rb") as file:
        assert file.read(10) == b"1" * 10
        put(store, "x", b"2" * 10_000)
        with pytest.raises(SourceError, match=r"/x was written to while it was read"):
            file.read()
    with fs.open(path, "rb") as file:
        file.read(10)
        store.remove("x")
        with pytest.raises(FileNotFoundError):
            file.read()


# What may pass


@pytest.mark.parametrize("kind", ["busy", "broken", "cut", "lost"])
def test_what_passes_is_not_noticed(through_proxy, bucket, kind):
    store = open_store(f"s3://{bucket}/f")
    assert store.create("before", b"")
    through_proxy.spoil(
        Fault("^PUT ", kind, 2),
        Fault("^POST .*uploadId", kind),
        Fault("^GET .*/big", kind, 2),
        Fault("^GET .*list-type", kind),
        Fault("^HEAD ", kind),
    )
    put(store, "big", BIG)
    assert store.create("m", b"m")
    assert store.names() == ["before", "big", "m"]
    assert store.read("big") == BIG
    assert digest_of(store.path("big")) == hashlib.blake2b(BIG, digest_size=12).hexdigest()
    assert len(through_proxy.spoiled) == 7


def test_half_an_answer_is_asked_for_again(through_proxy, bucket):
    store = open_store(f"s3://{bucket}/f")
    put(store, "x", BIG)
    through_proxy.spoil(Fault("^GET .*/x", "half", 2))
    assert store.read("x") == BIG
    through_proxy.spoil(Fault("^GET .*/x", "half", 2))
    assert digest_of(store.path("x")) == hashlib.blake2b(BIG, digest_size=12).hexdigest()
    assert len(through_proxy.spoiled) == 2


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("busy", r"keeps failing \(SlowDown\)"), ("cut", r"cannot be reached \(it closes the conn")],
)
def test_what_does_not_pass_is_reported(through_proxy, bucket, monkeypatch, kind, sentence):
    monkeypatch.setattr("time.sleep", lambda _: None)
    store = open_store(f"s3://{bucket}/f")
    through_proxy.spoil(Fault(".", kind, times=0))
    with pytest.raises(UnavailableError, match=sentence):
        put(store, "x")
    with pytest.raises(UnavailableError, match=sentence):
        store.read("x")
    assert len(through_proxy.seen) == 12


# What is wrong for good


def wrong(connect, what):
    if what == "key":
        connect(login="nobody")
    elif what == "secret":
        connect(password="wrong-secret-text")
    elif what == "endpoint":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            connect(extra={"endpoint_url": f"http://127.0.0.1:{probe.getsockname()[1]}"})
    else:
        connect()


@pytest.mark.parametrize(
    ("what", "kind", "sentence"),
    [
        ("key", ConfigurationError, r"does not take the key of the connection aws_default"),
        ("secret", ConfigurationError, r"does not take the key of the connection aws_default"),
        ("bucket", ConfigurationError, r"there is no bucket no-such-bucket at http://127"),
        ("endpoint", UnavailableError, r"cannot be reached \(no server answers there\)"),
    ],
)
def test_what_is_wrong_is_one_sentence_soon(connect, bucket, what, kind, sentence):
    from waybill.storage.objects.client import check_bucket
    from waybill.storage.objects.places import access_to, place_of

    wrong(connect, what)
    place = place_of(f"s3://{'no-such-bucket' if what == 'bucket' else bucket}/f")
    started = time.monotonic()
    with pytest.raises(kind, match=sentence) as caught:
        check_bucket(place, access_to(place))
    assert time.monotonic() - started < 10
    output = str(caught.value)
    assert "\n" not in output
    assert "wrong-secret-text" not in output
    if what != "endpoint":  # the same is said wherever it is met
        store = open_store(place.url)
        for meet in (lambda: put(store, "x"), lambda: store.read("x"), store.names):
            with pytest.raises(kind, match=sentence):
                meet()
        with pytest.raises(kind):
            store.create("x", b"")


def test_buckets_in_the_hosts_name(connect, tmp_path, monkeypatch):
    """As OSS demands it; names below localhost are not known everywhere."""
    asked = []
    resolve = socket.getaddrinfo

    def known(host, *rest, **more):
        asked.append(host)
        return resolve("127.0.0.1" if str(host).endswith("localhost") else host, *rest, **more)

    monkeypatch.setattr("socket.getaddrinfo", known)
    with S3Server(tmp_path, host="localhost") as server:
        connect(
            "oss_default",
            login=server.key_id,
            password=server.secret,
            extra={"endpoint_url": f"http://localhost:{server.port}", "config_kwargs": {}},
        )
        (tmp_path / "objects" / "bucket").mkdir()
        store = open_store("oss://bucket/f")
        put(store, "x", b"1")
        assert store.create("m", b"2")
        assert not store.create("m", b"3")
        assert store.names() == ["m", "x"]
        assert store.path("x") == "oss://bucket/f/x"
    assert set(asked) == {"bucket.localhost"}


def test_the_server_wants_signatures(store, server, bucket):
    """Else the tests of wrong keys would prove nothing."""
    import urllib.error
    import urllib.request

    put(store, "x")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{server.endpoint}/{bucket}/a/b/x")
