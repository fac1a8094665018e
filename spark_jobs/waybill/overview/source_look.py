"""Asks what the source holds that the archive does not have, and keeps the answer with its time.

Nothing of it follows from the lake. A snapshot has asked when it planned, and its report says so;
`<migration>_watch` asks in between.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.errors import WaybillError
from waybill.overview.files import SOURCE, reports, source_in
from waybill.overview.schema import VERSION, PartitionLook, SourceLook, encoded
from waybill.report import SEEN
from waybill.storage.file_store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.lake.history import History
    from waybill.overview.commits import Commits
    from waybill.spec.endpoints import FilesSource, KafkaSource
    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store

SHOWN = 100
"""How many partitions a look names."""

MESSAGES, FILES = "messages", "files"


def keep_planned(spec: Migration, store: Store, commits: Commits) -> None:
    """Keep what the newest snapshot saw when it planned, unless the source was asked since."""
    newest = next(commits.archive.of("snapshot"), None)
    seen = None if newest is None else newest.report["details"].get(SEEN)
    if newest is None or seen is None:
        return
    before = source_in(store)
    if before is not None and before.archive == newest.snapshot:
        return
    look = SourceLook(
        VERSION,
        spec.name,
        seen["at"],
        _unit(spec),
        seen["left"],
        archive=newest.snapshot,
    )
    _keep(store, look)


def look_at_source(spec: Migration, lake: History) -> SourceLook:
    """Ask the source, and keep what it says.

    A source that does not answer is not an error here: what it said before stays, with its time,
    and with the sentence that says why there is nothing newer.

    Args:
        spec: the migration.
        lake: its lake.

    Raises:
        ConfigurationError: the lake's folder cannot be written.
        UnavailableError: its store does not answer.
    """
    store = open_store(reports(spec))
    archive = lake.log("archive")
    newest = lake.last(archive, "snapshot") if lake.exists(archive) else None
    commits = () if newest is None else lake.commits(archive)
    cursors = (commit.cursor for commit in commits if commit.stage == "snapshot")
    asked = int(time.time() * 1000)
    compared = None if newest is None else newest.snapshot
    look = SourceLook(VERSION, spec.name, asked, _unit(spec), archive=compared)
    try:
        if spec.source.kafka is not None:
            look = _of_topics(look, spec.source.kafka, cursors)
        elif spec.source.files is not None:
            look = _of_files(look, spec.source.files, cursors)
    except WaybillError as error:
        known = source_in(store) or msgspec.structs.replace(look, looked=0)
        look = msgspec.structs.replace(known, failed=asked, problem=str(error))
    _keep(store, look)
    return look


def _unit(spec: Migration) -> str:
    return FILES if spec.source.kafka is None else MESSAGES


def _keep(store: Store, look: SourceLook) -> None:
    with store.write(SOURCE) as stream:
        stream.write(encoded(look))


def _of_topics(
    look: SourceLook, source: KafkaSource, cursors: Iterable[dict[str, Any]]
) -> SourceLook:
    from waybill.sources.kafka.waiting import waiting_in

    found = waiting_in(source, (cursor for cursor in cursors if "topics" in cursor))
    waiting = sorted((one for one in found if one.unread), key=lambda one: -one.unread)
    return msgspec.structs.replace(
        look,
        unread=sum(one.unread for one in waiting),
        oldest=min((one.oldest for one in waiting if one.oldest is not None), default=None),
        gone=sum(one.missing for one in found),
        partitions=[
            PartitionLook(one.topic, one.partition, one.start, one.end, one.oldest)
            for one in waiting[:SHOWN]
        ],
    )


def _of_files(
    look: SourceLook, source: FilesSource, cursors: Iterable[dict[str, Any]]
) -> SourceLook:
    from waybill.sources.cursor import read_cursor
    from waybill.sources.files import unread_files

    known = read_cursor(cursor for cursor in cursors if "files" in cursor)
    waiting = unread_files(source, known)
    times = [changed for info in waiting if (changed := _changed(info)) is not None]
    return msgspec.structs.replace(
        look,
        unread=len(waiting),
        bytes=sum(int(info["size"]) for info in waiting),
        oldest=min(times, default=None),
    )


def _changed(info: dict[str, Any]) -> int | None:
    """When a file was changed last, in milliseconds since 1970, as its storage says."""
    changed = info.get("mtime", info.get("LastModified", info.get("last_modified")))
    if isinstance(changed, datetime):
        return int(changed.timestamp() * 1000)
    return int(changed * 1000) if isinstance(changed, int | float) else None
