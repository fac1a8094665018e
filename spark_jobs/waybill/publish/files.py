"""Publishes messages as files: parts under fixed names, then a manifest, put only if absent.

    <path>/<batch>/part-00000-1f9e0c3a.jsonl …
    <path>/<batch>/manifest.json

The folder is that of the batch that made the messages, whichever batch sends them. Whoever reads it
reads the manifest and the parts it lists. It comes last, so its presence says that the batch is
whole. Parts and manifest are the same however often a batch is published, also when the target has
another layout by then; parts that a manifest lists are never touched again. The end of their names
tells who published them, so that two who share a path by mistake do not write over each other: the
second manifest finds the first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, ConflictError
from waybill.lake.task_rows import TaskRows
from waybill.publish import parts as cutting
from waybill.publish.outcome import Published, PublishedPart
from waybill.publish.part_files import KAFKA_COLUMNS, SUFFIXES, WRITTEN_PARTS, FilePart, PartWriter
from waybill.publish.part_rows import parts_in_row_groups
from waybill.storage.file_store import TEMPORARY, Store, file_name, open_store

if TYPE_CHECKING:
    from waybill.publish.outgoing import Outgoing
    from waybill.spec.endpoints import FilesTarget

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the manifest's layout."""

NO_LINE = "a null value cannot be a line"
"""Why a tombstone is left out of files of lines."""


class Sender(NamedTuple):
    """Who publishes.

    Attributes:
        migration: its name.
        target: the target's name.
        envelope: the envelope of the messages.
    """

    migration: str
    target: str
    envelope: str

    @property
    def mark(self) -> str:
        """What its parts have in their names."""
        return hashlib.sha256(f"{self.migration}/{self.target}".encode()).hexdigest()[:8]


def publish_files(
    messages: Outgoing,
    target: FilesTarget,
    sender: Sender,
    batches: Sequence[str],
    progress: Callable[..., Any],
    part_messages: int = cutting.PART_MESSAGES,
) -> Published:
    """Write the messages of each batch into a folder of its own and put its manifest.

    Messages belong to the batch that made them: should its run be killed after the manifest, the
    next batch finds it there and sends nothing twice.

    Args:
        messages: what is to be sent, of one batch or of several.
        target: where to.
        sender: who publishes.
        batches: batches in their order; those that are not named go first.
        progress: gets what was done.
        part_messages: about how many messages make a part.

    Raises:
        ConfigurationError: somebody else publishes to this path, or a message cannot be a line.
        ConflictError: a batch was published before, with other messages.
    """
    found = _parts_of(messages, part_messages)
    order = {batch: number for number, batch in enumerate(batches)}
    written: list[tuple[Store, list[FilePart]]] = []
    for batch in sorted(found, key=lambda batch: (order.get(batch, -1), batch)):
        store, files = _publish_batch(found[batch], target, sender, batch)
        written.append((store, files))
        progress(
            "publish: %s: %s in %s under %s",
            sender.target,
            counted(sum(file.messages for file in files), "message"),
            counted(len(files), "part"),
            store.root,
        )
    return _outcome(written)


def _parts_of(messages: Outgoing, part_messages: int) -> dict[str, TaskRows]:
    """The messages of each batch, cut into parts, for tasks that write whole parts."""
    if messages.groups is not None:
        found = {
            batch: parts_in_row_groups(messages, batch, KAFKA_COLUMNS, part_messages)
            for batch in sorted({group.low[0] for group in messages.groups if group.rows})
        }
        rows_of_batches = {batch: rows for batch, rows in found.items() if rows is not None}
        if len(rows_of_batches) == len(found):
            return rows_of_batches
    return {
        batch: TaskRows.of(
            cutting.with_part(
                messages.rows.where(F.col("batch") == batch), cutting.cut(ranges, part_messages)
            ).select("part", *cutting.ORDER, *KAFKA_COLUMNS)
        )
        for batch, ranges in cutting.ranges_of(messages.rows).items()
    }


def _publish_batch(
    parts: TaskRows, target: FilesTarget, sender: Sender, batch: str
) -> tuple[Store, list[FilePart]]:
    """Write the messages that one batch made; returns its folder and what is in it."""
    folder = f"{target.path.rstrip('/')}/{file_name(batch)}"
    store = open_store(folder)
    listed = store.read(MANIFEST)
    layout: str = target.layout
    if listed is not None:
        check_sender(store, listed, sender)
        layout = layout_of(listed) or layout
    # A listed part is there for good: what would be written is held against it and thrown away.
    writer = PartWriter(folder, layout, sender.mark, keep=listed is None)
    found = parts.collected(writer.write_all, from_arrow_schema(WRITTEN_PARTS))
    written = sorted(FilePart(**row) for row in found)
    put_manifest(store, manifest_of(written, sender, batch, layout), sender, listed)
    tidy(store, written, sender)
    return store, written


def _outcome(written: list[tuple[Store, list[FilePart]]]) -> Published:
    """The account of a target, whose parts are counted through all batches."""
    files = [(store, file) for store, own in written for file in own]
    parts = [
        PublishedPart(
            number,
            store.path(file.file),
            file.messages,
            file.bytes,
            file.sha256,
            file.first,
            file.last,
            store.path(MANIFEST),
        )
        for number, (store, file) in enumerate(files)
    ]
    details = {
        "messages": sum(part.messages for part in parts),
        "parts": len(parts),
        "bytes": sum(part.bytes for part in parts),
        "manifests": [store.path(MANIFEST) for store, _ in written],
    }
    outcome = Published(parts, details)
    tombstones = sum(file.tombstones for _, file in files)
    if tombstones:
        outcome.skipped[NO_LINE] = tombstones
    return outcome


def manifest_of(parts: list[FilePart], sender: Sender, batch: str, layout: str) -> bytes:
    """The manifest's text, which depends on nothing but what was published."""
    data = {
        "format": FORMAT,
        "batch": batch,
        **sender._asdict(),
        "layout": layout,
        "messages": sum(part.messages for part in parts),
        "bytes": sum(part.bytes for part in parts),
        "tombstones_left_out": sum(part.tombstones for part in parts),
        # Always 0, because such a message stops its batch; a rerun compares the whole text.
        "refused": 0,
        "parts": [
            {
                "file": part.file,
                "messages": part.messages,
                "bytes": part.bytes,
                "sha256": part.sha256,
                "first": part.first,
                "last": part.last,
            }
            for part in parts
        ],
    }
    return (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode()


def check_sender(store: Store, manifest: bytes, sender: Sender) -> None:
    """See that a manifest is the sender's own.

    Raises:
        ConfigurationError: somebody else put it.
    """
    try:
        known = json.loads(manifest)
        other = known["migration"], known["target"]
    except (ValueError, LookupError, TypeError):
        return  # no manifest of ours, and so none that could be the same
    if other != (sender.migration, sender.target):
        message = (
            f"{store.path(MANIFEST)} was put by the migration {other[0]} for its target "
            f"{other[1]}, so {sender.migration} published nothing there for {sender.target}: give "
            "every target of every migration a path of its own"
        )
        raise ConfigurationError(message, code=Code.TARGET_TAKEN)


def layout_of(manifest: bytes) -> str | None:
    """The layout that a folder was published with, whatever its target has by now."""
    try:
        layout = json.loads(manifest)["layout"]
    except (ValueError, LookupError, TypeError):
        return None  # no manifest of ours, and so none that could be the same
    return layout if layout in SUFFIXES else None


def put_manifest(
    store: Store, manifest: bytes, sender: Sender, listed: bytes | None = None
) -> None:
    """Put the manifest if there is none; one that is there must say the same.

    Raises:
        ConfigurationError: somebody else put one.
        ConflictError: it says something else.
    """
    if listed is None:
        if store.create(MANIFEST, manifest):
            return
        listed = store.read(MANIFEST)
    if listed != manifest:
        check_sender(store, listed or b"", sender)
        message = (
            f"{store.path(MANIFEST)} lists other messages than this run would publish: the batch "
            "was published before from another outbox; publish under another path or remove it"
        )
        raise ConflictError(message, code=Code.PUBLISHED_DIFFERENTLY)


def tidy(store: Store, parts: list[FilePart], sender: Sender) -> None:
    """Remove what killed runs of the sender left beside the listed parts."""
    listed = {part.file for part in parts}
    for name in store.names():
        part = name.startswith((TEMPORARY, "part-")) and f"-{sender.mark}." in name
        if (part and name not in listed) or name.startswith(TEMPORARY + MANIFEST):
            store.remove(name)
