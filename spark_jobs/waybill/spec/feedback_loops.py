"""Whether a migration would read what it writes itself, so that every batch made the next one."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from waybill.storage.objects.places import is_object_url, place_of

if TYPE_CHECKING:
    from waybill.spec.endpoints import Source, Target

_BATCH = "20260101T000000Z-0000"
_PUBLISHED = (
    (_BATCH, "manifest.json"),
    (_BATCH, "part-00000-00000000.jsonl"),
    (_BATCH, "part-00000-00000000.parquet"),
)
"""Files below the folder of a target, as they are called."""

_KEPT = (
    ("catalog.db",),
    ("shop", "reports", _BATCH, "gate.json"),
    ("shop", "shop_orders", "data", "00000.parquet"),
    ("shop", "shop_orders", "metadata", "00000.metadata.json"),
    ("shop_log", "changes", "data", "outcome=ok", "00000.parquet"),
)
"""Files below a warehouse, as they are called."""

_MAGIC = frozenset("*?[")
_HIDDEN = (".", "_")
"""What the names of files and folders begin with that a source does not see."""


def own_output(source: Source, targets: list[Target], warehouse: str) -> str | None:
    """A sentence about the first thing that a migration writes where it reads; None if none.

    Args:
        source: where it reads.
        targets: where it publishes.
        warehouse: the folder of its lake.
    """
    return _of_topics(source, targets) or _of_files(source, targets, warehouse)


def _of_topics(reads: Source, targets: list[Target]) -> str | None:
    source = reads.kafka
    for target in targets:
        kafka = target.kafka
        if source is None or kafka is None or kafka.connection != source.connection:
            continue
        for what, topic in (("publishes to", kafka.topic), ("keeps its ledger in", kafka.ledger)):
            if source.takes(topic):
                return (
                    f"the target {target.label!r} {what} the topic {topic}, which source.kafka "
                    "reads: name another topic there, or leave this one out of topics or pattern"
                )
    return None


def _of_files(source: Source, targets: list[Target], warehouse: str) -> str | None:
    if source.files is None:
        return None
    read = source.files.path
    for target in targets:
        if target.files is not None and _found(read, target.files.path, _PUBLISHED):
            return (
                f"the target {target.label!r} publishes files to {target.files.path}, which "
                f"source.files reads ({read}): give it a folder beside the source's"
            )
    if _found(read, warehouse, _KEPT):
        return (
            f"lake.warehouse {warehouse} is inside the folder that source.files reads ({read}): "
            "give the lake a folder beside the source's"
        )
    return None


def _found(source: str, folder: str, files: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a source finds files below a folder."""
    (place, wanted), (other, parts) = _parts(source), _parts(folder)
    if place != other:
        return False
    plain = next((i for i, part in enumerate(wanted) if _MAGIC & set(part)), None)
    if plain is None:
        below = parts[: len(wanted)] == wanted
        return below and not _hidden(parts[len(wanted) :])
    if wanted[-1].startswith(_HIDDEN):
        return any(_matches(wanted, parts + file) for file in files)
    return not _hidden(parts[plain:]) and any(_matches(wanted, parts + file) for file in files)


def _parts(path: str) -> tuple[str, tuple[str, ...]]:
    """Which storage a path is in, and the names of its folders."""
    if is_object_url(path):
        place = place_of(path)
        # A URL that names the usual connection and one that names none are the same place.
        store = f"{place.scheme}://{place.connection_name}@{place.bucket}"
        return store, tuple(filter(None, place.key.split("/")))
    scheme, _, rest = path.rpartition("://")
    if scheme in ("", "file"):
        scheme, rest = "", os.path.realpath(rest)
    return scheme, tuple(filter(None, rest.split("/")))


def _hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(_HIDDEN) for part in parts)


def _matches(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches(pattern[1:], parts) or (bool(parts) and _matches(pattern, parts[1:]))
    same = bool(parts) and fnmatchcase(parts[0], pattern[0])
    return same and _matches(pattern[1:], parts[1:])
