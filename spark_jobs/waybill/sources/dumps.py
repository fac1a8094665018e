"""Full loads in the snapshot: which dumps are new, and their rows as messages of the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, ConfigurationError, SourceError
from waybill.full_load import HEADER, TOPIC, FullLoad
from waybill.sources.dump_rows import FORMATS, dump_rows, dump_types, format_of
from waybill.sources.listing import Listing, listed, token_of
from waybill.sources.streams import digest_of, opened
from waybill.sources.tasks import FileCounts, archive_batch
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.spec.migration import Dump

Known = dict[str, list[list[Any]]]
"""By topic of a load: name, size and token of each of its files, and the digest of its content once
it was read. Entries of earlier versions have no digest."""


@dataclass(frozen=True, slots=True)
class DumpTask:
    """One file of a full load.

    Attributes:
        path: where it is.
        number: which of the load's files it is: the partition of its messages.
        size: bytes when the run was planned.
        token: what the storage says changes with the content.
        load: what its rows are.
    """

    path: str
    number: int
    size: int
    token: str
    load: FullLoad

    @property
    def name(self) -> str:
        """What names it in counts."""
        return f"{self.load.topic}/{self.number}"


def plan_dumps(full: dict[str, Dump], known: Known) -> tuple[list[DumpTask], Known]:
    """The files to load, and everything that is loaded after them.

    Args:
        full: dumps by table.
        known: what was loaded before.

    Raises:
        SourceError: a dump is not there, is not what was loaded, or would be loaded in part.
        ConfigurationError: a table is loaded once more without saying as of when.
    """
    tasks: list[DumpTask] = []
    after = dict(known)
    for table, dump in sorted(full.items()):
        load = FullLoad(table, dump.sequence)
        listing = listed(dump.path, tuple(FORMATS))
        files = _files_of(dump.path, listing)
        before = known.get(load.topic)
        if before is not None and _same_content(before, files):
            # Times of the same content may be new.
            after[load.topic] = [
                [*new[:3], *old[3:]] for old, new in zip(before, files, strict=True)
            ]
            continue
        if before is not None and _share_names(before, files):
            message = (
                f"{dump.path} has changed since it was loaded as the full data of {table}: restore "
                "it, or remove it from full:, or list the new dump with an as_of of its own"
            )
            raise SourceError(message, code=Code.DUMP_CHANGED)
        if listing.left_out:
            message = (
                f"{listing.left_out[0]} in the dump {dump.path} is not a file or has another "
                f"suffix, and may contain rows: rename it to end in {', '.join(FORMATS)}, or "
                f"remove it"
            )
            raise SourceError(message, code=Code.DUMP_UNREADABLE)
        plain = f"{TOPIC}{table}"
        loaded = any(topic == plain or topic.startswith(f"{plain}@") for topic in known)
        if before is not None or (loaded and load.as_of is None):
            suffix = "" if load.as_of is None else " with the same as_of"
            message = (
                f"{table} was loaded in full before{suffix}: to load {dump.path} over it, say "
                f"under full: {{{table}: {{as_of: ...}}}} up to which sequence id of the source "
                "it is complete"
            )
            raise ConfigurationError(message, code=Code.DUMP_LOADED_BEFORE)
        after[load.topic] = files
        for number, (name, size, token) in enumerate(files):
            types = dump_types(name)
            tasks.append(DumpTask(name, number, size, token, FullLoad(table, load.as_of, types)))
    return tasks, after


def with_digests(known: Known, tasks: list[DumpTask], digests: dict[str, str]) -> Known:
    """What is loaded, with the content of the files that were read just now.

    Args:
        known: everything that is loaded.
        tasks: the files that were read.
        digests: of their bytes, by the tasks' names.
    """
    after = {topic: [list(file) for file in files] for topic, files in known.items()}
    for task in tasks:
        after[task.load.topic][task.number].append(digests[task.name])
    return after


def _files_of(path: str, listing: Listing) -> list[list[Any]]:
    """Name, size and token of every file of a dump, in the order of their numbers."""
    if not listing.files:
        message = f"there is no dump at {path}: put it there, or fix the path under full:"
        raise SourceError(message, code=Code.SOURCE_MISSING)
    return [
        [place, int(info["size"]), token_of(info)]
        for place, info in sorted(listing.files.values(), key=lambda file: file[0])
    ]


def _same_content(before: list[list[Any]], now: list[list[Any]]) -> bool:
    """Whether the files of a dump are those that were loaded, wherever they are now."""
    return len(before) == len(now) and all(map(_has_same_content, before, now))


def _share_names(before: list[list[Any]], now: list[list[Any]]) -> bool:
    """Whether a dump has a file that was loaded, so that it is that dump and no other one."""
    return not {name for name, *_ in before}.isdisjoint(name for name, *_ in now)


def _has_same_content(before: list[Any], now: list[Any]) -> bool:
    (size, token, *digest), (place, new_size, new_token) = before[1:], now
    if size != new_size:
        return False
    return token == new_token or (bool(digest) and digest[0] == digest_of(place))


def read_dumps(
    tasks: list[DumpTask], batch_id: str, tell: Callable[[DumpTask, FileCounts], None]
) -> Iterator[pa.RecordBatch]:
    """Rows of the archive for every row of the dumps, in bounded memory.

    Raises:
        SourceError: a dump cannot be read, or changed since the batch was planned.
    """
    import pyarrow as pa

    for task in tasks:
        format_of(task.path)
        load, counts = task.load, FileCounts()
        header = [(HEADER, load.to_header())]
        offset = 0
        if load.as_of is not None and task.number == 0:
            # What the reload does not have is gone.
            none: Any = pa.array([None], pa.binary())
            yield archive_batch(batch_id, none, load.topic, 0, range(1), headers=[_structs(header)])
            counts.rows, offset = 1, 1
        with opened(task.path) as stream:
            for rows in dump_rows(task.path, stream):
                first, offset = offset, offset + len(rows)
                counts.rows += len(rows)
                yield archive_batch(
                    batch_id,
                    pa.array(rows, pa.binary()),
                    load.topic,
                    task.number,
                    range(first, offset),
                    headers=[_structs(header)] * len(rows),
                )
            counts.digest = stream.digest()
        fs, name = open_storage(task.path)
        info = fs.info(name)
        if int(info["size"]) != task.size or token_of(info) != task.token:
            message = f"{task.path} was written to while it was loaded: run the batch again"
            raise SourceError(message, code=Code.SOURCE_GROWING)
        tell(task, counts)


def _structs(headers: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in headers]
