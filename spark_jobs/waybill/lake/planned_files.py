"""Which data files of a snapshot can hold the requested rows, according to its manifests.

Format: Iceberg specification, "Manifests" and "Manifest Lists"; bounds as in "Single-value
serialization".
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from waybill.lake.avro_records import read_container
from waybill.lake.file_memory import FileMemory

Where = Mapping[str, Sequence[str | int]]
"""The values that rows have in some columns."""

DELETED, DATA, POSITIONS = 2, 0, 1
PATH_ID = 2**31 - 102
"""Field of a file of deletes that names a data file (section "Position Delete Files")."""
FILE_BYTES = 1500
"""What a listed file takes in memory, about."""
PLACE_BYTES = 100
"""What it takes in the list of a snapshot, where the list of its manifest is kept, too."""

_NUMBERS = ("int", "long")
"""Types whose bounds are numbers."""


class Planned(NamedTuple):
    """A data file.

    Attributes:
        path: where it is.
        size: its bytes.
        where: what is left to ask of its rows; the file's partition answers the rest.
        least: no row of it comes before this (`waybill.lake.history.in_order`).
        gone: places of rows that were deleted, counted from 0.
    """

    path: str
    size: int
    where: Where
    least: tuple[tuple[bool, Any], ...] = ()
    gone: frozenset[int] = frozenset()


class ScanPlan(NamedTuple):
    """What has to be read.

    Attributes:
        files: data files.
        deletes: files that name deleted rows by the path of the data file and the place in it.
    """

    files: list[Planned]
    deletes: list[Planned]


def planned_files(
    manifest_list: str,
    read: Callable[[str], bytes],
    where: Where,
    by: Sequence[str] = (),
    memory: FileMemory | None = None,
) -> ScanPlan | None:
    """The files of a snapshot that can hold rows with some values.

    Args:
        manifest_list: of the snapshot.
        read: reads a file of the lake.
        where: the values that rows have in some columns.
        by: columns that rows are to be sorted by.
        memory: what manifests and lists of them have said before.

    Returns:
        None where rows were deleted in another way than by their places in Parquet files.

    Raises:
        ValueError: a file is not a manifest.
    """
    memory = FileMemory() if memory is None else memory
    key = (manifest_list, frozenset(where), tuple(by))
    listed: _Snapshot | None = memory.get(key)
    if listed is None:
        listed = _snapshot(key, read, memory)
        memory.keep(key, listed, listed.size)
    if not listed.is_known:
        return None
    found = [file for listing in listed.data for file in listing.files(where)]
    paths = sorted(file.path.encode() for file in found)
    about = [
        Planned(file.path, file.size, {}) for file in listed.deletes if _names_one(file, paths)
    ]
    return ScanPlan(found, about)


class _Deletes(NamedTuple):
    """A file of deletes as its manifest lists it, with the paths that bound those that it names."""

    path: str
    size: int
    is_known: bool
    lower: bytes | None
    upper: bytes | None


class _Snapshot(NamedTuple):
    """The files of a snapshot, with what is known of the columns that are asked for.

    Attributes:
        data: data files; those of manifests that tell the same together.
        deletes: files of deletes.
        is_known: whether all of these name rows by their places, in Parquet files.
        size: bytes that it takes in memory, about, beside what is kept of manifests.
    """

    data: list[_KnownFiles]
    deletes: list[_Deletes]
    is_known: bool
    size: int


def _snapshot(
    key: tuple[str, frozenset[str], tuple[str, ...]],
    read: Callable[[str], bytes],
    memory: FileMemory,
) -> _Snapshot:
    """What a list of manifests and the manifests say; those are of many snapshots."""
    manifest_list, *columns = key
    wanted = {"manifest_path": None, "content": None}
    data: dict[_AskedColumns, list[_Listed]] = {}
    deletes: list[_Deletes] = []
    size = PLACE_BYTES
    for listed in read_container(read(manifest_list), wanted).records:
        place = listed["manifest_path"]
        kept = True
        if listed.get("content", DATA) == DATA:
            manifest = memory.get((place, *columns))
            if manifest is None:
                manifest = _data(read(place), key[1], key[2])
                kept = memory.keep((place, *columns), manifest, FILE_BYTES * len(manifest[1]))
            asked, files = manifest
            size += (PLACE_BYTES if kept else FILE_BYTES) * len(files)
            data.setdefault(asked, []).extend(files)
        else:
            live = memory.get((place,))
            if live is None:
                live = [*_deletes(read(place))]
                kept = memory.keep((place,), live, FILE_BYTES * len(live))
            deletes += live
            size += (PLACE_BYTES if kept else FILE_BYTES) * len(live)
    listings = [_KnownFiles(asked, files) for asked, files in data.items()]
    return _Snapshot(listings, deletes, all(file.is_known for file in deletes), size)


def _deletes(manifest: bytes) -> Iterator[_Deletes]:
    """The files of deletes that are still part of the table."""
    file = ("content", "file_path", "file_format", "file_size_in_bytes")
    wanted = dict.fromkeys((*file, "lower_bounds", "upper_bounds"))
    for entry in read_container(manifest, {"status": None, "data_file": wanted}).records:
        if entry["status"] == DELETED:
            continue
        found = entry["data_file"]
        lower, upper = (
            next((one["value"] for one in found[name] or () if one["key"] == PATH_ID), None)
            for name in ("lower_bounds", "upper_bounds")
        )
        is_known = found["content"] == POSITIONS and found["file_format"] == "PARQUET"
        yield _Deletes(found["file_path"], found["file_size_in_bytes"], is_known, lower, upper)


def _names_one(file: _Deletes, paths: list[bytes]) -> bool:
    """Whether a file of deletes can name one of some data files, whose paths are sorted."""
    if file.lower is None or file.upper is None:
        return True
    at = bisect_left(paths, file.lower)
    return at < len(paths) and paths[at] <= file.upper


class _AskedColumns(NamedTuple):
    """What manifests tell of the columns that are asked for.

    Attributes:
        partition: those that files are partitioned by, and what the partition calls them.
        bounded: others that files may have bounds of, and their ids.
    """

    partition: tuple[tuple[str, str], ...]
    bounded: tuple[tuple[str, int], ...]


class _Listed(NamedTuple):
    """A data file as its manifest lists it.

    Attributes:
        partition: its values of `_AskedColumns.partition`.
        lower: its lower bounds of `_AskedColumns.bounded`; None where it has none.
        upper: its upper bounds.
        least: see `Planned`.
    """

    path: str
    size: int
    partition: tuple[Any, ...]
    lower: tuple[bytes | int | None, ...]
    upper: tuple[bytes | int | None, ...]
    least: tuple[tuple[bool, Any], ...]


class _KnownFiles:
    """Data files that the same is known of.

    Args:
        asked: of which columns something is known.
        files: them.
    """

    def __init__(self, asked: _AskedColumns, files: list[_Listed]) -> None:
        self._asked, self._files = asked, files
        self._parts: dict[tuple[Any, ...], list[int]] = {}
        for at, file in enumerate(files):
            self._parts.setdefault(file.partition, []).append(at)
        self._lower = [*zip(*(file.lower for file in files), strict=True)]
        self._upper = [*zip(*(file.upper for file in files), strict=True)]

    def files(self, where: Where) -> Iterator[Planned]:
        """Those that can hold rows with some values of the columns that are asked for."""
        parted = [column for column, _ in self._asked.partition]
        found = [
            at
            for part, places in self._parts.items()
            if all(value in where[name] for name, value in zip(parted, part, strict=True))
            for at in places
        ]
        for number, (name, _) in enumerate(self._asked.bounded):
            if found:
                values = sorted(_as_bound(value) for value in where[name])
                found = _within(found, self._lower[number], self._upper[number], values)
        left = {name: values for name, values in where.items() if name not in parted}
        for at in found:
            file = self._files[at]
            yield Planned(file.path, file.size, left, file.least)


def _within(
    places: list[int], lower: Sequence[Any], upper: Sequence[Any], values: list[Any]
) -> list[int]:
    """Those of some places at which any of the values lies between the bounds, if both are known.

    Texts compare as their bytes; an upper bound may be cut, and is counted up then.
    """
    if len(values) == 1:
        (value,) = values
        return [
            at
            for at in places
            if (low := lower[at]) is None or (high := upper[at]) is None or low <= value <= high
        ]

    def any_between(low: Any, high: Any) -> bool:
        at = bisect_left(values, low)
        return at < len(values) and bool(values[at] <= high)

    return [
        at
        for at in places
        if lower[at] is None or upper[at] is None or any_between(lower[at], upper[at])
    ]


def _as_bound(value: str | int) -> bytes | int:
    return value.encode() if isinstance(value, str) else value


def _data(
    manifest: bytes, asked: frozenset[str], by: Sequence[str]
) -> tuple[_AskedColumns, list[_Listed]]:
    """The data files that a manifest lists and that are still part of the table.

    Its header tells the table's columns and how it is partitioned.

    Args:
        manifest: the whole file.
        asked: columns whose values are asked for.
        by: columns that rows are to be sorted by.
    """
    header = read_container(manifest, {}).metadata
    columns = {
        field["name"]: field
        for field in json.loads(header["schema"])["fields"]
        if field["name"] in asked or field["name"] in by
    }
    names = {field["id"]: name for name, field in columns.items()}
    partition = {
        names[field["source-id"]]: field["name"]
        for field in json.loads(header["partition-spec"])
        if field["transform"] == "identity" and names.get(field["source-id"]) in asked
    }
    known = {n: f for n, f in columns.items() if f["type"] in ("string", *_NUMBERS)}
    bounded = {
        name: field["id"]
        for name, field in known.items()
        if name in asked and name not in partition
    }
    types = {field["id"]: field["type"] for field in known.values()}
    sorted_by = [known.get(name, {"id": None})["id"] for name in by]
    file = ["file_path", "file_size_in_bytes", "partition"]
    file += ["lower_bounds", "upper_bounds"] if bounded else []
    file += ["lower_bounds", "null_value_counts"] if by else []
    container = read_container(manifest, {"status": None, "data_file": dict.fromkeys(file)})

    def listed(file: dict[str, Any]) -> _Listed:
        lower = _bounds(file.get("lower_bounds"), types)
        upper = _bounds(file.get("upper_bounds"), types)
        return _Listed(
            file["file_path"],
            file["file_size_in_bytes"],
            tuple(file["partition"][part] for part in partition.values()),
            tuple(lower.get(id_) for id_ in bounded.values()),
            tuple(upper.get(id_) for id_ in bounded.values()),
            _least(lower, file, sorted_by) if by else (),
        )

    live = (e["data_file"] for e in container.records if e["status"] != DELETED)
    files = [listed(file) for file in live]
    return _AskedColumns(tuple(partition.items()), tuple(bounded.items())), files


def _bounds(entries: list[dict[str, Any]] | None, types: Mapping[int, str]) -> dict[int, Any]:
    """Bounds by the column's id."""
    return {
        one["key"]: one["value"]
        if types[one["key"]] == "string"
        else int.from_bytes(one["value"], "little", signed=True)
        for one in entries or ()
        if one["key"] in types
    }


def _least(
    lower: dict[int, Any], file: dict[str, Any], by: Sequence[int | None]
) -> tuple[tuple[bool, Any], ...]:
    """What no row of a file comes before; where no bound is stated, or null is, the very first."""
    nulls = {one["key"]: one["value"] for one in file["null_value_counts"] or ()}
    least: list[tuple[bool, Any]] = []
    for id_ in by:
        bound = None if id_ is None else lower.get(id_)
        if bound is None or nulls.get(id_) != 0:
            least.append((False, 0))
            continue
        # A cut may go through a character.
        text = bound.decode(errors="ignore") if isinstance(bound, bytes) else bound
        least.append((True, text))
    return tuple(least)
