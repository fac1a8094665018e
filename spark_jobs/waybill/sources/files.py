"""A topic in files: which there are, which are new, and how they are read in Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from posixpath import basename, dirname, relpath
from typing import TYPE_CHECKING, Any

from waybill.errors import SourceError
from waybill.sources import kcat, lines, parquet, whole
from waybill.sources.streams import PACKED, digest_of, opened
from waybill.sources.tasks import FileCounts, FileTask
from waybill.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.sources.cursor import FilesCursor, FileState
    from waybill.spec import FilesSource

LAYOUTS: dict[str, Any] = {"lines": lines, "parquet": parquet, "kcat": kcat, "whole": whole}
"""Modules that read a file, by the name of their layout."""

BYTES_PER_TASK = 64 << 20
"""Small files are read together up to this size."""

_AFRESH = (
    "run with mode full to read the source from its beginning where the envelope has sequence ids, "
    "else give the migration a new name"
)
"""Where the position is the only order, the same positions must not get other messages."""

_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one batch reads.

    Attributes:
        base: folder that names are relative to.
        tasks: files to read, in order.
        known: how many files were read before and are as they were.
        touched: files with new times and the same content, by name.
        next_number: the number of the next new file.
        left_out: names of files whose suffix is not the layout's.
        other: names of files that are read anew at the positions of other content.
    """

    base: str
    tasks: list[FileTask]
    known: int
    touched: dict[str, FileState]
    next_number: int
    left_out: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def plan(source: FilesSource, cursor: FilesCursor, afresh: bool = False) -> Plan:
    """Compare the files with what was read before.

    Args:
        source: where the files are.
        cursor: what was read before.
        afresh: read everything again, changed or not.

    Raises:
        SourceError: there is nothing at the path, or a file that was read has changed or is gone.
    """
    base, found, left_out = _listed(source)
    if not afresh:
        _check_present(source, cursor, base, found)
    topic = source.topic or basename(base.rstrip("/")) or "files"
    tasks, known, touched, number, other = [], 0, {}, cursor.next_number, []
    for name in sorted(found):
        path, info = found[name]
        size, token, state = int(info["size"]), token_of(info), cursor.files.get(name)
        if state is None:
            tasks.append(FileTask(path, name, number, size, token, topic))
            number += 1
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
            raise SourceError(_changed(path, state.size, size))
    return Plan(base, tasks, known, touched, number, left_out, other)


def _check_present(
    source: FilesSource, cursor: FilesCursor, base: str, found: dict[str, Any]
) -> None:
    if cursor.base is not None and cursor.base != base:
        message = (
            f"the source was read from {cursor.base} so far and is {base} now: put the path back, "
            f"or {_AFRESH}"
        )
        raise SourceError(message)
    gone = sorted(set(cursor.files) - set(found))
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        message = (
            f"{_joined(base, gone[0])}{more}, read before, is no longer among the files of "
            f"{source.path}: put it back, or {_AFRESH}"
        )
        raise SourceError(message)


def _changed(path: str, before: int, now: int) -> str:
    how = f"had {before} bytes and has {now}" if before != now else "has other content"
    return (
        f"{path} has changed since it was read ({how}): put it back and bring new messages in a "
        f"new file, or {_AFRESH}"
    )


def token_of(info: dict[str, Any]) -> str:
    """What the storage says that changes with a file's content."""
    for name in ("ETag", "etag", "md5Hash", "version_id"):
        if info.get(name):
            return str(info[name]).strip('"')
    # A local file's time of change ("created" here) cannot be set back by those who set its times.
    times = [info.get(name) for name in ("mtime", "created", "LastModified", "last_modified")]
    return "/".join(str(time) for time in times if time is not None)


def _listed(source: FilesSource) -> tuple[str, dict[str, tuple[str, dict[str, Any]]], list[str]]:
    """Folder, files by name below it, and the names of those with another layout's suffix."""
    fs, path = open_storage(source.path)
    path = path.rstrip("/") or "/"
    suffixes = LAYOUTS[source.layout].SUFFIXES
    if fs.isfile(path):
        return dirname(path), {basename(path): (_url(fs, path), fs.info(path))}, []
    pattern = not fs.exists(path) and bool(_MAGIC & set(path))
    if not pattern and not fs.exists(path):
        message = (
            f"there is no file or folder {source.path}: mend source.files.path, or put it there"
        )
        raise SourceError(message)
    base = _folder_of(path) if pattern else path
    listing = fs.glob(path, detail=True) if pattern else fs.find(path, detail=True)
    hidden = (".", "_")
    if pattern and basename(path).startswith(hidden):
        hidden = ()  # type: ignore[assignment]
    found, left_out = {}, []
    for file, info in listing.items():
        name = relpath(file, base)
        if info.get("type") != "file" or any(part.startswith(hidden) for part in name.split("/")):
            continue
        if pattern or _unpacked_name(name).endswith(suffixes):
            found[name] = (_url(fs, file), info)
        else:
            left_out.append(name)
    return base, found, sorted(left_out)


def listed_dump(path: str, suffixes: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The files of a dump, what the storage says of each by its path.

    Args:
        path: a file, a folder or a pattern.
        suffixes: those of files that count in a folder.

    Raises:
        SourceError: there is none.
    """
    fs, place = open_storage(path)
    if fs.isfile(place):
        return {_url(fs, place): fs.info(place)}
    pattern = bool(_MAGIC & set(place)) and not fs.exists(place)
    listing = fs.glob(place, detail=True) if pattern else fs.find(place, detail=True)
    found = {
        _url(fs, file): info
        for file, info in listing.items()
        if info.get("type") == "file"
        and not basename(file).startswith((".", "_"))
        and (pattern or _unpacked_name(file).endswith(suffixes))
    }
    if not found:
        message = f"there is no dump at {path}: put it there, or mend the path under full:"
        raise SourceError(message)
    return found


def _folder_of(pattern: str) -> str:
    parts = pattern.split("/")
    plain = next(i for i, part in enumerate(parts) if _MAGIC & set(part))
    return "/".join(parts[:plain]) or "/"


def _unpacked_name(name: str) -> str:
    return name[: name.rfind(".")] if name.endswith(PACKED) else name


def _url(fs: Any, path: str) -> str:
    protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
    return path if protocol in ("file", "local") else str(fs.unstrip_protocol(path))


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
        tell: is told what was in a file after its last row.

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
            f"{task.path} was written to while it was read: bring files under their name when they "
            "are whole, then run the batch again"
        )
        raise SourceError(message)
