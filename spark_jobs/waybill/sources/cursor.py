"""What the snapshot has read so far, file by file, kept in the archive's commits.

Each commit names the files that it brought. Now and then one names all, so that neither the
metadata grows with the square of the batches nor the whole history has to be read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class FileState(NamedTuple):
    """One file as it was when it was read.

    Attributes:
        number: how many files were known before it.
        size: bytes.
        token: what the storage says changes with the content.
        digest: of its bytes.
        rows: messages in it.
    """

    number: int
    size: int
    token: str
    digest: str
    rows: int


class FilesCursor(NamedTuple):
    """Every file that was read, by its name below `base`.

    Attributes:
        base: folder that the names are relative to; None before the first batch.
        files: the files.
        next_number: the number that the next new file gets.
        loose: files named by commits since the last one that named all.
        topic: what the topic is called since a folder was moved whose name it has; None where it
            has the name of its folder, or one that is set.
    """

    base: str | None
    files: dict[str, FileState]
    next_number: int
    loose: int
    topic: str | None = None


def read_cursor(newest_first: Iterable[dict[str, Any]]) -> FilesCursor:
    """The state that the cursors of the archive's commits add up to."""
    base = topic = None
    files: dict[str, FileState] = {}
    next_number = loose = 0
    for cursor in newest_first:
        if base is None:
            # Empty in a replay that came before anything was read.
            base, topic = cursor["base"] or None, cursor.get("topic")
        next_number = max(next_number, cursor["next"])
        for name, state in cursor["files"].items():
            files.setdefault(name, FileState(*state))
        if cursor["complete"]:
            break
        loose += len(cursor["files"])
    return FilesCursor(base, files, next_number, loose, topic)


def write_cursor(
    before: FilesCursor,
    base: str,
    news: dict[str, FileState],
    next_number: int,
    afresh: bool,
    topic: str | None = None,
) -> dict[str, Any]:
    """The cursor of a commit that brings `news`.

    Args:
        before: the state that the batch started from.
        base: folder of the source.
        news: files that were read, or whose token has changed.
        next_number: the number of the next new file.
        afresh: the batch read the source from its beginning; what it did not find is forgotten.
        topic: see `FilesCursor`.
    """
    complete = afresh or before.loose + len(news) > max(64, len(before.files) // 4)
    files = news if afresh or not complete else {**before.files, **news}
    kept = {} if topic is None else {"topic": topic}
    return {
        **kept,
        "base": base,
        "next": next_number,
        "complete": complete,
        "files": {name: list(state) for name, state in sorted(files.items())},
    }
