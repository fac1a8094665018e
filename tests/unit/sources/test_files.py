"""Files of a source: which are read, what lines are, what is noticed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from waybill.errors import SourceError
from waybill.lake_columns import ARCHIVE
from waybill.sources import files, listing
from waybill.sources.cursor import FilesCursor, FileState, read_cursor, write_cursor
from waybill.sources.streams import line_lists
from waybill.spec.endpoints import FilesSource

NOTHING = FilesCursor(None, {}, 0, 0)
BOM = b"\xef\xbb\xbf"


def source(path: Path | str, layout: str = "lines", topic: str | None = None) -> FilesSource:
    return FilesSource(path=str(path), layout=layout, topic=topic)


def read(given_source: FilesSource, cursor: FilesCursor = NOTHING):
    """All rows of what is new, and the cursor afterwards."""
    work = files.plan(given_source, cursor)
    states = dict(work.touched)
    rows = []
    empties = {}

    def tell(task, counts) -> None:
        states[task.name] = FileState(
            task.number, task.size, task.token, counts.digest, counts.rows
        )
        empties[task.name] = counts.empty

    for group in files.grouped(work.tasks):
        for batch in files.read_tasks(group, given_source.layout, "b1", tell):
            assert batch.schema.equals(ARCHIVE)
            rows += batch.to_pylist()
    data = write_cursor(cursor, work.base, states, work.next_number, afresh=False)
    after = read_cursor([data]) if data["complete"] else None
    return rows, work, {**cursor.files, **states}, empties, after


def places(rows):
    return [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows]


NASTY = [
    b'{"a":"\xe2\x80\xa8 \xc2\x85 \x0b \x0c \x1c"}',
    b"\xff\xfe not utf-8 \x00 \x80",
    b'{"crlf":1}\r',
    b" ",
    b"\r",
    b"\xef\xbb\xbf{}",
    "😀".encode(),
    b"x" * 100_000,
]


def test_lines_keep_every_byte_and_count_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    content = b"\n".join([*NASTY[:3], b"", *NASTY[3:], b"", b""]) + b"last without feed"
    (tmp_path / "in" / "a.jsonl").write_bytes(content)
    rows, work, states, empties, _ = read(source(tmp_path / "in"))
    numbered = [(i, v) for i, v in enumerate(content.split(b"\n")) if v not in (b"", b"\r")]
    assert places(rows) == [("in", 0, i, value) for i, value in numbered]
    assert empties == {"a.jsonl": 3}
    assert states["a.jsonl"].rows == len(numbered)
    assert {row["batch"] for row in rows} == {"b1"}
    assert work.left_out == []


@given(st.binary(max_size=300), st.integers(1, 7))
def test_line_lists_are_the_split_at_line_feeds(content: bytes, size: int) -> None:
    class Dripping:
        def __init__(self) -> None:
            self.rest = content

        def read(self, _: int) -> bytes:
            head, self.rest = self.rest[:size], self.rest[size:]
            return head

    assume(not content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", BOM)))
    got = [line for lines in line_lists(Dripping(), "x") for line in lines]
    expected = content.split(b"\n")
    assert got == (expected[:-1] if expected[-1] == b"" else expected)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_lines_are_unpacked(tmp_path: Path, suffix: str) -> None:
    content = b"".join(b'{"n":%d}\n' % n for n in range(50_000))
    path = tmp_path / f"a.jsonl{suffix}"
    if suffix == ".gz":
        # Two members, as `cat a.gz b.gz` makes.
        path.write_bytes(gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as out:
            out.write(content)
    rows, *_ = read(source(tmp_path))
    assert [row["value"] for row in rows] == content.splitlines()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"a\.jsonl.*cannot be unpacked"):
        read(source(tmp_path))


def test_a_byte_order_mark_belongs_to_the_file_and_to_no_message(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BOM + b"{}\n" + BOM + b"1\n")
    rows, *_ = read(source(tmp_path))
    assert [(row["offset"], row["value"]) for row in rows] == [(0, b"{}"), (1, BOM + b"1")]


def test_a_packed_file_under_a_plain_name_is_not_read_as_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(b"{}\n" * 9))
    with pytest.raises(SourceError, match=r"a\.jsonl is compressed, .* rename it to end in \.gz"):
        read(source(tmp_path))


def test_partition_numbers_follow_the_order_of_discovery(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"1\n")
    (tmp_path / "z.jsonl").write_bytes(b"2\n")
    rows, _, states, _, cursor = read(source(tmp_path, topic="t"))
    assert places(rows) == [("t", 0, 0, b"1"), ("t", 1, 0, b"2")]
    cursor = FilesCursor(str(tmp_path), states, 2, 0)
    (tmp_path / "a.jsonl").write_bytes(b"3\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.json").write_bytes(b"4")
    rows, work, states, *_ = read(source(tmp_path, topic="t"), cursor)
    assert places(rows) == [("t", 2, 0, b"3"), ("t", 3, 0, b"4")]
    assert work.known == 2
    rows, work, *_ = read(source(tmp_path, topic="t"), FilesCursor(str(tmp_path), states, 4, 0))
    assert (rows, work.known) == ([], 4)


def test_hidden_and_foreign_files_are_left_out_of_a_folder(tmp_path: Path) -> None:
    for name in ("a.jsonl", "_manifest.json", ".b.jsonl.part", "README.md", "_tmp/c.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"1\n")
    rows, work, *_ = read(source(tmp_path))
    assert len(rows) == 1
    assert work.left_out == ["README.md"]


def test_a_glob_and_a_file_take_any_suffix(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.log", "b.log", "c.jsonl"):
        (tmp_path / "in" / name).write_bytes(name.encode())
    rows, *_ = read(source(tmp_path / "in" / "*.log"))
    assert places(rows) == [("in", 0, 0, b"a.log"), ("in", 1, 0, b"b.log")]
    rows, *_ = read(source(tmp_path / "in" / "b.log"))
    assert places(rows) == [("in", 0, 0, b"b.log")]
    odd = tmp_path / "in" / "d[1]*.jsonl"
    odd.write_bytes(b"odd")
    rows, *_ = read(source(odd))
    assert places(rows) == [("in", 0, 0, b"odd")]


def test_links_are_followed_and_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder, far = tmp_path / "in", tmp_path / "far"
    (folder / "sub").mkdir(parents=True)
    (far / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(b"a")
    (far / "b.jsonl").write_bytes(b"b")
    (far / "deep" / "c.jsonl").write_bytes(b"c")
    for name, target in (
        ("b.jsonl", far / "b.jsonl"),
        ("deep", far / "deep"),
        ("latest.jsonl", folder / "a.jsonl"),  # the same messages under another name
        ("nowhere.jsonl", far / "none"),
        ("sub/above", folder),
        ("0.jsonl", folder / "a.jsonl"),
    ):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.jsonl")
    for path, sorted_out in ((folder, True), (folder / "**" / "*.jsonl", False)):
        rows, work, *_ = read(source(path))
        assert [row["value"] for row in rows] == [b"a", b"b", b"c"]
        assert [task.name for task in work.tasks] == ["a.jsonl", "b.jsonl", "deep/c.jsonl"]
        odd = ["0.jsonl", "latest.jsonl", "nowhere.jsonl", "pipe.jsonl"]
        assert work.left_out == odd + ["sub/above"] * sorted_out
    # A link has the times of what it leads to.
    cursor = FilesCursor(str(folder), {}, 0, 0)
    before = {task.name: task.token for task in files.plan(source(folder), cursor).tasks}
    os.utime(far / "b.jsonl", (1, 1))
    after = {task.name: task.token for task in files.plan(source(folder), cursor).tasks}
    assert [name for name in before if before[name] != after[name]] == ["b.jsonl"]


def test_a_name_may_hold_what_means_something_in_urls(tmp_path: Path) -> None:
    (tmp_path / "a::b.jsonl").write_bytes(b"1")
    (tmp_path / "c#%[1].jsonl").write_bytes(b"2")
    assert [row["value"] for row in read(source(tmp_path))[0]] == [b"1", b"2"]
    assert [row["value"] for row in read(source(tmp_path / "a::b.jsonl"))[0]] == [b"1"]
    assert [row["value"] for row in read(source(f"file://{tmp_path}/a::b.jsonl"))[0]] == [b"1"]


def test_a_name_that_is_no_utf_8_is_reported_before_anything_is_read(tmp_path: Path) -> None:
    """No commit can name such a file, so a batch would fail when all of it was read."""
    (tmp_path / "a.jsonl").write_bytes(b"1")
    odd = os.fsencode(tmp_path) + b"/sub\xfe"
    Path(os.fsdecode(odd)).mkdir()
    Path(os.fsdecode(odd + b"/b\xff.csv")).write_bytes(b"2")
    work = files.plan(source(tmp_path), NOTHING)
    assert [task.name for task in work.tasks] == ["a.jsonl"]
    assert work.left_out == ["sub\\udcfe/b\\udcff.csv"]
    files.left_out_sentence(work.left_out).encode()
    Path(os.fsdecode(odd + b"/b\xff.jsonl")).write_bytes(b"2")
    sentence = r"the name of .*/sub\\udcfe/b\\udcff\.jsonl is not UTF-8.*: rename the file"
    with pytest.raises(SourceError, match=sentence) as caught:
        files.plan(source(tmp_path), NOTHING)
    str(caught.value).encode()


def test_a_folder_that_may_not_be_read_is_reported(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "sub").mkdir()
    list_folder = os.scandir

    def refused(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SourceError, match=r"cannot be listed .*Permission denied.*sub"):
        files.plan(source(tmp_path), NOTHING)


def test_keys_that_a_path_would_join_stay_apart(monkeypatch) -> None:
    class Keys:
        protocol = ("s3",)
        keys = ("b/in/a.jsonl", "b/in//a.jsonl", "b/in/x/../a.jsonl", "b/in/./a.jsonl")

        def isfile(self, path: str) -> bool:
            return False

        def exists(self, path: str) -> bool:
            return True

        def find(self, path: str, detail: bool) -> dict[str, dict]:
            return {key: {"type": "file", "size": 1, "ETag": key} for key in self.keys}

        def unstrip_protocol(self, path: str) -> str:
            return f"s3://{path}"

    monkeypatch.setattr(listing, "open_storage", lambda path: (Keys(), "b/in"))
    tasks = files.plan(source("s3://b/in"), NOTHING).tasks
    assert sorted(task.path for task in tasks) == sorted(f"s3://{key}" for key in Keys.keys)
    assert len({task.name for task in tasks}) == len(Keys.keys)


def test_a_place_without_anything_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file or folder .*nowhere"):
        files.plan(source(tmp_path / "nowhere"), NOTHING)
    assert files.plan(source(tmp_path), NOTHING).tasks == []
    assert files.plan(source(tmp_path / "*.jsonl"), NOTHING).tasks == []


def rewritten_longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def rewritten_in_place(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"eno\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (rewritten_longer, r"a\.jsonl has changed since it was read \(had 4 bytes and has 9\)"),
        (rewritten_in_place, r"a\.jsonl has changed since it was read \(has other content\)"),
        (removed, r"a\.jsonl, read before, is no longer among"),
    ],
)
def test_a_file_that_was_read_may_not_change(tmp_path: Path, spoil, sentence: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")
    _, _, states, *_ = read(source(tmp_path))
    spoil(path)
    cursor = FilesCursor(str(tmp_path), states, 1, 0)
    with pytest.raises(SourceError, match=sentence) as caught:
        files.plan(source(tmp_path), cursor)
    assert "mode full (`--full`)" in str(caught.value)
    assert "else give the migration a new name" in str(caught.value)
    afresh = files.plan(source(tmp_path), cursor, afresh=True)
    assert [task.number for task in afresh.tasks] == ([] if spoil is removed else [0])
    assert afresh.other == ([] if spoil is removed else ["a.jsonl"])
    path.write_bytes(b"one\n")
    assert files.plan(source(tmp_path), cursor, afresh=True).other == []


def test_new_times_with_the_same_content_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")
    _, _, states, *_ = read(source(tmp_path))
    os.utime(path, (1, 1))
    work = files.plan(source(tmp_path), FilesCursor(str(tmp_path), states, 1, 0))
    assert work.known == 1
    assert work.touched["a.jsonl"].token != states["a.jsonl"].token


def test_another_folder_is_no_continuation(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    cursor = FilesCursor(str(tmp_path / "one"), {}, 0, 0)
    with pytest.raises(SourceError, match=r"was read from .*one so far and is .*two now"):
        files.plan(source(tmp_path / "two"), cursor)


def test_a_file_written_to_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n" * 10)
    work = files.plan(source(tmp_path), NOTHING)
    batches = files.read_tasks(work.tasks, "lines", "b", lambda *_: None)
    next(batches)
    rewritten_longer(path)
    with pytest.raises(SourceError, match="written to while it was read"):
        list(batches)


def test_small_files_share_a_task_and_large_ones_do_not() -> None:
    def task(n: int, size: int) -> files.FileTask:
        return files.FileTask(f"/{n}", str(n), n, size, "", "t")

    tasks = [task(0, 10), task(1, files.BYTES_PER_TASK), task(2, 10), task(3, 5)]
    tasks += [task(4, files.BYTES_PER_TASK * 9), task(5, 1)]
    groups = files.grouped(tasks)
    assert [[t.number for t in group] for group in groups] == [[0], [1], [2, 3], [4], [5]]
    assert files.grouped([]) == []


def test_cursors_add_up_and_stay_small() -> None:
    history: list[dict] = []
    truth: dict[str, FileState] = {}
    for batch in range(500):
        cursor = read_cursor(reversed(history))
        assert cursor.files == truth
        news = {f"f{batch}-{i}": FileState(batch, 1, "t", "d", 3) for i in range(batch % 3)}
        truth.update(news)
        history.append(write_cursor(cursor, "/base", news, batch, afresh=False))
    named = sum(len(cursor["files"]) for cursor in history)
    assert named < 6 * len(truth)
    # A reader goes back to a commit that names all files, not to the first one.
    last = max(i for i, cursor in enumerate(history) if cursor["complete"])
    assert sum(len(cursor["files"]) for cursor in history[last + 1 :]) <= len(truth) // 4
    fresh = write_cursor(read_cursor(reversed(history)), "/other", {}, 900, afresh=True)
    cursor = read_cursor([fresh, *reversed(history)])
    assert (cursor.base, cursor.files, cursor.next_number) == ("/other", {}, 900)


def test_files_that_were_moved_keep_their_positions_when_they_are_read_afresh(
    tmp_path: Path,
) -> None:
    """Where nothing but the position orders changes, they would be changes of another partition."""
    old, new = tmp_path / "shop", tmp_path / "archive"
    old.mkdir()
    for name in ("a", "b", "c"):
        (old / f"{name}.jsonl").write_bytes(f"{name}\n".encode())
    _, work, states, *_ = read(source(old))
    old.rename(new)
    # One has another name, and one other content.
    (new / "b.jsonl").rename(new / "z.jsonl")
    (new / "c.jsonl").write_bytes(b"d\n")
    cursor = FilesCursor(str(old), states, work.next_number, 0)
    again = files.plan(source(new), cursor, afresh=True)
    placed = {task.name: (task.topic, task.number) for task in again.tasks}
    assert placed == {"a.jsonl": ("shop", 0), "z.jsonl": ("shop", 1), "c.jsonl": ("shop", 2)}
    assert (again.other, again.next_number) == (["c.jsonl"], 3)
    # What comes next has the topic, too, and a topic that is set is taken.
    states = {task.name: states["a.jsonl"]._replace(number=task.number) for task in again.tasks}
    data = write_cursor(cursor, again.base, states, again.next_number, True, again.topic)
    assert read_cursor([data]).topic == "shop"
    assert read_cursor([{**data, "topic": "x"}, data]).topic == "x"
    assert files.plan(source(new), read_cursor([data]), afresh=True).topic == "shop"
    plan = files.plan(source(new, topic="mine"), read_cursor([data]), afresh=True)
    assert {task.topic for task in plan.tasks} == {"mine"}
    assert plan.topic is None
