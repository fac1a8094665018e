"""Messages of files to judge a source by: from the beginning of some, and from the end of the last.

What is read is bounded, whatever the size of the files: so many messages, and so many bytes of
each file.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from waybill.cli.output import printable
from waybill.errors import ConfigurationError
from waybill.inprocess.topic_file import TopicFile
from waybill.sources.streams import PACKED, opened
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    from waybill.inprocess.layouts import FileLayout
    from waybill.records import Message
    from waybill.sources.tasks import FileTask

FILES = 20
"""Files that are opened; of more, these stand evenly among them."""

LARGEST = 64 << 20
"""Bytes of the largest message that is looked at."""

HEAD_BYTES = 8 << 20
"""Bytes of messages of one file that are looked at from its beginning."""

TO_THE_END = 32 << 20
"""Bytes of the largest file that is read to its end; of a larger one only the end is."""

PACKED_TO_THE_END = 256 << 20
"""Bytes, packed, of the largest packed file that is read to its end, for which there is no other
way to it."""

TAIL_BYTES = 1 << 20
"""Bytes that are read of the end of a large file."""

SUFFIXES = dict(zip(("gzip", "zstd"), PACKED, strict=True))
"""How the names of packed files end."""

Advance = Callable[[int], None]
"""Gets how many bytes were read since its last call."""


class SampledMessages(NamedTuple):
    """Messages of some files.

    Attributes:
        head: from the beginning of each file.
        tail: from the end of the last one.
        whole: whether they are all messages that there are.
        seen_to_end: whether the end of the last file was looked at.
    """

    head: list[Message]
    tail: list[Message]
    whole: bool
    seen_to_end: bool


class FileKind(NamedTuple):
    """What a file is.

    Attributes:
        layout: how it is laid out, and what tells it.
        foreign: what it is if it holds no messages in any layout.
    """

    layout: FileLayout
    foreign: str | None


def kind_of(path: str) -> FileKind:
    """How a file is laid out.

    Raises:
        ConfigurationError: it cannot be read, or its name does not say how it is packed.
        SourceError: it cannot be opened.
    """
    with opened(path) as stream:
        file = _topic_file(path, stream, None)
        _check_name(path, file)
        return FileKind(file.layout, file.foreign)


def _topic_file(path: str, stream: object, layout: str | None) -> TopicFile:
    return TopicFile(printable(path), cast("IO[bytes]", stream), layout, LARGEST)


def _check_name(path: str, file: TopicFile) -> None:
    """See that a file is packed as its name says, which is what the source goes by."""
    named = next((suffix for suffix in PACKED if path.endswith(suffix)), None)
    suffix = None if file.packing is None else SUFFIXES[file.packing]
    if suffix is not None and named != suffix:
        message = (
            f"{printable(path)} is packed with {file.packing} but its name does not show it: "
            f"rename it to end in {suffix}"
        )
        raise ConfigurationError(message)
    if named is not None and suffix is None:
        message = f"{printable(path)} is not packed, whatever its name says: take {named} off it"
        raise ConfigurationError(message)


def chosen(tasks: Sequence[FileTask]) -> list[FileTask]:
    """The files that are opened: the first, the last, and others evenly between them."""
    if len(tasks) <= FILES:
        return list(tasks)
    last = len(tasks) - 1
    return [tasks[round(i * last / (FILES - 1))] for i in range(FILES)]


def bytes_to_read(tasks: Sequence[FileTask]) -> int:
    """About how many bytes a look at these files reads, for the progress bar."""
    *others, last = chosen(tasks)
    most = PACKED_TO_THE_END if last.path.endswith(PACKED) else TO_THE_END
    end = last.size if last.size <= most else HEAD_BYTES
    return end + sum(min(task.size, HEAD_BYTES) for task in others)


def read_files(
    tasks: Sequence[FileTask], layout: str, count: int, advance: Advance | None = None
) -> SampledMessages:
    """Messages of files; errors as those of a batch that reads them.

    Args:
        tasks: the files of the source, in order.
        layout: how they are laid out.
        count: how many messages are looked at.
        advance: see `Advance`.
    """
    picked = chosen(tasks)
    at_end = count // 4
    if layout in ("parquet", "whole"):
        head, whole = _in_batches(picked, layout, count, advance)
        return SampledMessages(head, [], whole and len(picked) == len(tasks), whole)
    share = max(1, -(-(count - at_end) // len(picked)))
    head, whole, tail, seen = [], len(picked) == len(tasks), [], True
    for task in picked:
        last = task is picked[-1]
        wanted = at_end if last else 0
        found = _of_file(task, layout, share, wanted, advance)
        head += found.head
        whole = whole and found.whole
        if last:
            tail, seen = found.tail, found.seen_to_end
    return SampledMessages(head, tail, whole, seen)


def _in_batches(
    picked: list[FileTask], layout: str, count: int, advance: Advance | None
) -> tuple[list[Message], bool]:
    """Messages of files that are read by the batch, and whether they are all of these files'."""
    from waybill.batches.messages import messages_of
    from waybill.sources.files import read_tasks

    share, found, whole = max(1, -(-count // len(picked))), [], True
    for task in picked[:count]:
        batches = read_tasks([task], layout, "", lambda task, counts: None)
        every = (message for batch in batches for message in messages_of(batch))
        size = 0
        for message in islice(every, share):
            found.append(message)
            size += len(message.value or b"")
            if size >= HEAD_BYTES:
                break
        whole = whole and next(every, None) is None
        if advance is not None:
            advance(min(task.size, HEAD_BYTES))
    return found, whole and len(picked) <= count


def _of_file(
    task: FileTask, layout: str, share: int, at_end: int, advance: Advance | None
) -> SampledMessages:
    with opened(task.path) as stream:
        file = _topic_file(task.path, stream, layout)
        _check_name(task.path, file)
        every = _placed(_reporting(file, stream, advance), task, layout)
        head, size = [], 0
        for message in every:
            head.append(message)
            size += len(message.value or b"")
            if len(head) >= share or size >= HEAD_BYTES:
                break
        packed = file.packing is not None
        if task.size <= (PACKED_TO_THE_END if packed else TO_THE_END) and at_end:
            tail: deque[Message] = deque(maxlen=at_end)
            skipped = 0
            for message in every:
                skipped += len(tail) == at_end
                tail.append(message)
            return SampledMessages(head, list(tail), not skipped, True)
        if next(every, None) is None:
            return SampledMessages(head, [], True, True)
    if packed or not at_end:
        return SampledMessages(head, [], False, False)
    return SampledMessages(head, _last(task, layout, at_end), False, True)


def _reporting(file: TopicFile, stream: object, advance: Advance | None) -> Iterator[Message]:
    """The messages of a file; tells how much of it was read."""
    before = 0
    for message in file.messages():
        read = getattr(stream, "bytes", 0)
        if advance is not None and read > before:
            advance(read - before)
            before = read
        yield message


def _placed(messages: Iterator[Message], task: FileTask, layout: str) -> Iterator[Message]:
    """Messages at the places that the source gives them."""
    for message in messages:
        if layout == "lines":
            message.topic, message.partition = task.topic, task.number
        yield message


def _last(task: FileTask, layout: str, count: int) -> list[Message]:
    """The last messages of a large file; offsets of lines are larger than any, and not true."""
    fs, name = open_storage(task.path)
    with fs.open(name, "rb") as stream:
        begin = max(0, task.size - TAIL_BYTES)
        stream.seek(begin)
        end = stream.read(TAIL_BYTES)
    _, feed, lines = end.partition(b"\n")
    if not feed:
        return []
    file = _topic_file(task.path, io.BytesIO(lines), layout)
    found = deque(_placed(file.messages(), task, layout), maxlen=count)
    for message in found if layout == "lines" else ():
        message.offset += begin
    return list(found)
