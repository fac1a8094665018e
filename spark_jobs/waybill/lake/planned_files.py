"""Which data files of a snapshot can hold the rows that are asked for, told by its manifests.

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


class Plan(NamedTuple):
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
) -> Plan | None:
    """The files of a snapshot that can hold rows with some values.

    Args:
        manifest_list: of the snapshot.
        read: reads a file of the lake.
        where: the values that rows have in some columns.
        by: columns that rows are to be sorted by.
        memory: what manifests have said before.

    Returns:
        None where rows were deleted in another way than by their places in Parquet files.

    Raises:
        ValueError: a file is no manifest.
    """
    memory = FileMemory() if memory is None else memory
    wanted = {"manifest_path": None, "content": None}
    columns = (frozenset(where), tuple(by))
    found: list[Planned] = []
    deletes: list[dict[str, Any]] = []
    for listed in read_container(read(manifest_list), wanted).records:
        place = listed["manifest_path"]
        if listed.get("content", DATA) == DATA:
            manifest = memory.get((place, *columns))
            if manifest is None:
                manifest = _Manifest(read(place), *columns)
                memory.keep((place, *columns), manifest, FILE_BYTES * len(manifest.live))
            found += manifest.files(where)
        else:
            live = memory.get((place,))
            if live is None:
                live = [*_deletes(read(place))]
                memory.keep((place,), live, FILE_BYTES * len(live))
            deletes += live
    if any(file["content"] != POSITIONS or file["file_format"] != "PARQUET" for file in deletes):
        return None
    paths = sorted(file.path.encode() for file in found)
    about = [
        Planned(file["file_path"], file["file_size_in_bytes"], {})
        for file in deletes
        if _names_one(file, paths)
    ]
    return Plan(found, about)


def _deletes(manifest: bytes) -> Iterator[dict[str, Any]]:
    """The files of deletes that are still part of the table."""
    file = ("content", "file_path", "file_format", "file_size_in_bytes")
    wanted = dict.fromkeys((*file, "lower_bounds", "upper_bounds"))
    for entry in read_container(manifest, {"status": None, "data_file": wanted}).records:
        if entry["status"] != DELETED:
            yield entry["data_file"]


def _names_one(file: dict[str, Any], paths: list[bytes]) -> bool:
    """Whether a file of deletes can name one of some data files, whose paths are sorted."""
    lower, upper = (
        next((one["value"] for one in file[name] or () if one["key"] == PATH_ID), None)
        for name in ("lower_bounds", "upper_bounds")
    )
    if lower is None or upper is None:
        return True
    at = bisect_left(paths, lower)
    return at < len(paths) and paths[at] <= upper


class _Listed(NamedTuple):
    """A data file as its manifest lists it, with what is known of some columns."""

    path: str
    size: int
    partition: dict[str, Any]
    lower: dict[int, Any]
    upper: dict[int, Any]
    least: tuple[tuple[bool, Any], ...]


class _Manifest:
    """One list of files; its header tells the table's columns and how it is partitioned.

    Args:
        data: the whole file.
        asked: columns whose values are asked for.
        by: columns that rows are to be sorted by.

    Attributes:
        live: the files that are still part of the table.
    """

    def __init__(self, data: bytes, asked: frozenset[str], by: Sequence[str]) -> None:
        header = read_container(data, {}).metadata
        columns = {
            field["name"]: field
            for field in json.loads(header["schema"])["fields"]
            if field["name"] in asked or field["name"] in by
        }
        names = {field["id"]: name for name, field in columns.items()}
        self._partition = {
            field["name"]: names[field["source-id"]]
            for field in json.loads(header["partition-spec"])
            if field["transform"] == "identity" and names.get(field["source-id"]) in asked
        }
        known = {n: f for n, f in columns.items() if f["type"] in ("string", *_NUMBERS)}
        self._bounded = {
            name: field["id"]
            for name, field in known.items()
            if name in asked and name not in self._partition.values()
        }
        self._by = [known.get(name, {"id": None}) for name in by]
        file = ["file_path", "file_size_in_bytes", "partition"]
        file += ["lower_bounds", "upper_bounds"] if self._bounded else []
        file += ["lower_bounds", "null_value_counts"] if by else []
        self._types = {field["id"]: field["type"] for field in known.values()}
        container = read_container(data, {"status": None, "data_file": dict.fromkeys(file)})
        live = (e["data_file"] for e in container.records if e["status"] != DELETED)
        self.live = [self._listed(file) for file in live]

    def files(self, where: Where) -> Iterator[Planned]:
        """Its files that can hold rows with some values of the columns that are asked for."""
        left = {k: v for k, v in where.items() if k not in self._partition.values()}
        bounded = [
            (id_, sorted(_as_bound(value) for value in where[name]))
            for name, id_ in self._bounded.items()
        ]
        for file in self.live:
            in_part = all(
                file.partition[part] in where[name] for part, name in self._partition.items()
            )
            if in_part and _within(file, bounded):
                yield Planned(file.path, file.size, left, file.least)

    def _listed(self, file: dict[str, Any]) -> _Listed:
        lower = self._bounds(file.get("lower_bounds"))
        return _Listed(
            file["file_path"],
            file["file_size_in_bytes"],
            {part: file["partition"][part] for part in self._partition},
            lower,
            self._bounds(file.get("upper_bounds")),
            self._least(lower, file),
        )

    def _bounds(self, entries: list[dict[str, Any]] | None) -> dict[int, Any]:
        """Bounds by the column's id."""
        return {
            one["key"]: one["value"]
            if self._types[one["key"]] == "string"
            else int.from_bytes(one["value"], "little", signed=True)
            for one in entries or ()
            if one["key"] in self._types
        }

    def _least(self, lower: dict[int, Any], file: dict[str, Any]) -> tuple[tuple[bool, Any], ...]:
        """What no row of a file comes before; where nothing is told, or null is, the very first."""
        if not self._by:
            return ()
        nulls = {one["key"]: one["value"] for one in file["null_value_counts"] or ()}
        least: list[tuple[bool, Any]] = []
        for field in self._by:
            bound = lower.get(field["id"])
            if bound is None or nulls.get(field["id"]) != 0:
                least.append((False, 0))
                continue
            # A cut may go through a character.
            text = bound.decode(errors="ignore") if isinstance(bound, bytes) else bound
            least.append((True, text))
        return tuple(least)


def _within(file: _Listed, bounded: list[tuple[int, list[Any]]]) -> bool:
    """Whether any of the values lies between the bounds of its column.

    Texts compare as their bytes; an upper bound may be cut, and is counted up then.
    """
    for id_, values in bounded:
        if id_ not in file.lower or id_ not in file.upper:
            continue
        at = bisect_left(values, file.lower[id_])
        if at == len(values) or values[at] > file.upper[id_]:
            return False
    return True


def _as_bound(value: str | int) -> bytes | int:
    return value.encode() if isinstance(value, str) else value
