"""A topic in files: which there are, which are new, and how they are read in Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from posixpath import basename
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, SourceError
from waybill.sources import kcat, lines, parquet, whole
from waybill.sources.listing import listed, token_of
from waybill.sources.streams import digest_of, opened
from waybill.sources.tasks import FileCounts, FileTask
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.sources.cursor import FilesCursor, FileState
    from waybill.sources.listing import Listing
    from waybill.spec.endpoints import FilesSource

LAYOUTS: dict[str, Any] = {"lines": lines, "parquet": parquet, "kcat": kcat, "whole": whole}
"""Modules that read a file, by the name of their layout."""

BYTES_PER_TASK = 64 << 20
"""Small files are read together up to this size."""

_AFRESH = (
    "run with mode full (`--full`) to read the source from its beginning if the envelope has "
    "sequence ids, else give the migration a new name"
)
"""Where the position is the only order, the same positions must not get other messages."""

_MOVED = (
    "run with mode full (`--full`) if the files were only moved or the envelope has sequence ids, "
    "else give the migration a new name"
)
"""Files that were moved keep their positions; see `plan`."""


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """What one batch reads.

    Attributes:
        base: folder that names are relative to.
        tasks: files to read, in order.
        known: how many files were read before and are as they were.
        touched: files with new times and the same content, by name.
        next_number: the number of the next new file.
        left_out: names of files whose suffix is not the layout's, of links that lead to no file or
            to one that is read under another name, and of devices.
        other: names of files that are read again at the positions of other content.
        topic: see `FilesCursor`.
    """

    base: str
    tasks: list[FileTask]
    known: int
    touched: dict[str, FileState]
    next_number: int
    left_out: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    topic: str | None = None


def plan(source: FilesSource, cursor: FilesCursor, afresh: bool = False) -> FilesPlan:
    """Compare the files with what was read before.

    Read afresh, files that were moved keep their positions, and their topic its name: where the
    position is the only order, nothing else would tell which changes are the same.

    Args:
        source: where the files are.
        cursor: what was read before.
        afresh: read everything again, changed or not.

    Raises:
        SourceError: there is nothing at the path, or a file that was read has changed or is gone.
    """
    listing = _listed(source)
    base, found = listing.base, listing.files
    left_out = sorted([*listing.left_out, *listing.doubled])
    if not afresh:
        _check_present(source, cursor, base, found)
    kept = _kept_topic(source, cursor, base) if afresh else cursor.topic
    topic = source.topic or kept or _named(base)
    moved = _moved(cursor, found) if afresh else {}
    tasks, known, touched, number, other = [], 0, {}, cursor.next_number, []
    for name in sorted(found):
        path, info = found[name]
        size, token, state = int(info["size"]), token_of(info), cursor.files.get(name)
        if state is None:
            tasks.append(FileTask(path, name, moved.get(name, number), size, token, topic))
            number += name not in moved
        elif afresh:
            tasks.append(FileTask(path, name, state.number, size, token, topic))
            if state.size != size or (state.token != token and state.digest != digest_of(path)):
                other.append(name)
        elif (state.size, state.token) == (size, token):
            known += 1
        elif state.size == size and state.digest == digest_of(path):
            known += 1
            touched[name] = state._replace(token=token)
        else:
            raise SourceError(_changed(path, state.size, size), code=Code.SOURCE_CHANGED)
    return FilesPlan(base, tasks, known, touched, number, left_out, other, kept)


def unread_files(source: FilesSource, cursor: FilesCursor) -> list[dict[str, Any]]:
    """What the storage says of each file that is there and was not read.

    Raises:
        SourceError: there is nothing at the path, or it cannot be listed.
    """
    found = _listed(source).files
    return [info for name, (_, info) in found.items() if name not in cursor.files]


def _listed(source: FilesSource) -> Listing:
    listing = listed(source.path, LAYOUTS[source.layout].SUFFIXES)
    if not listing.there:
        message = (
            f"there is no file or folder {source.path}: fix source.files.path, or put it there"
        )
        raise SourceError(message, code=Code.SOURCE_MISSING)
    return listing


def _kept_topic(source: FilesSource, cursor: FilesCursor, base: str) -> str | None:
    """The name that the topic of a moved folder keeps; None where nothing has to be kept."""
    before = cursor.topic or (None if cursor.base is None else _named(cursor.base))
    return None if source.topic is not None or before == _named(base) else before


def _named(base: str) -> str:
    """The name of a folder."""
    return basename(base.rstrip("/")) or "files"


def _moved(cursor: FilesCursor, found: dict[str, Any]) -> dict[str, int]:
    """The numbers of files that were read before under names that are gone, by their names now."""
    gone: dict[int, list[FileState]] = {}
    for name, state in cursor.files.items():
        if name not in found:
            gone.setdefault(state.size, []).append(state)
    numbers = {}
    for name in sorted(set(found) - cursor.files.keys()):
        path, info = found[name]
        known = gone.get(int(info["size"]))
        digest = digest_of(path) if known else None
        same = next((state for state in known or () if state.digest == digest), None)
        if known and same is not None:
            known.remove(same)
            numbers[name] = same.number
    return numbers


def _check_present(
    source: FilesSource, cursor: FilesCursor, base: str, found: dict[str, Any]
) -> None:
    if cursor.base is not None and cursor.base != base:
        message = (
            f"the source was read from {cursor.base} so far and is {base} now: put the path back, "
            f"or {_MOVED}"
        )
        raise SourceError(message, code=Code.SOURCE_CHANGED)
    gone = sorted(set(cursor.files) - set(found))
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        message = (
            f"{_joined(base, gone[0])}{more}, read before, is no longer among the files of "
            f"{source.path}: put it back, or {_MOVED}"
        )
        raise SourceError(message, code=Code.SOURCE_CHANGED)


def _changed(path: str, before: int, now: int) -> str:
    how = f"had {before} bytes and has {now}" if before != now else "has other content"
    return (
        f"{path} has changed since it was read ({how}): restore it and write new messages into a "
        f"new file, or {_AFRESH}"
    )


def left_out_sentence(names: list[str]) -> str:
    """What a person should know of names that were left out."""
    return (
        f"{len(names)} left out, e.g. {names[0]}: files of another suffix, links to no file or to "
        "one that is read under another name"
    )


def _joined(base: str, name: str) -> str:
    return f"{base.rstrip('/')}/{name}"


def grouped(tasks: list[FileTask]) -> list[list[FileTask]]:
    """Files by Spark task: in order, small ones together."""
    groups: list[list[FileTask]] = []
    room = 0
    for task in tasks:
        if not groups or task.size > room:
            groups.append([])
            room = BYTES_PER_TASK
        groups[-1].append(task)
        room -= task.size
    return groups


def read_tasks(
    tasks: Iterable[FileTask],
    layout: str,
    batch_id: str,
    tell: Callable[[FileTask, FileCounts], None],
) -> Iterator[pa.RecordBatch]:
    """Rows of the archive for every message of the files, in bounded memory.

    Args:
        tasks: the files.
        layout: how they are laid out.
        batch_id: the batch that brings them.
        tell: gets what was in a file after its last row.

    Raises:
        SourceError: a file cannot be read, or changed since the batch was planned.
    """
    for task in tasks:
        counts = FileCounts()
        with opened(task.path) as stream:
            yield from LAYOUTS[layout].read(task, stream, counts, batch_id)
            counts.digest = stream.digest()
        _check_untouched(task, stream.bytes)
        tell(task, counts)


def _check_untouched(task: FileTask, size: int) -> None:
    fs, name = open_storage(task.path)
    if size != task.size or token_of(fs.info(name)) != task.token:
        message = (
            f"{task.path} was written to while it was read: rename files to their final name when "
            "they are complete, then run the batch again"
        )
        raise SourceError(message, code=Code.SOURCE_GROWING)
