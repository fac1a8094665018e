"""Where the columns of merged tables come from, one small file for each batch that merged.

`<warehouse>/<migration>/reports/<batch>/origins.json` is an `Origins`. The merge writes it, because
only the merge knows; whoever tells others of the batch reads it without a lake.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from waybill.storage.file_store import file_name, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store

FILE = "origins.json"

VERSION = 1
"""Raised when a field changes its meaning; files of other versions are not read."""


class ColumnOrigin(msgspec.Struct, frozen=True, array_like=True):
    """A column of a merged table: its name in the source, and its name and type in the lake."""

    source: str
    lake: str
    type: str


class TableOrigin(msgspec.Struct, frozen=True):
    """A merged table that a batch has changed.

    Attributes:
        lake: namespace and name of the table in the catalog.
        topics: where its changes have come from so far.
        columns: its columns without those of Waybill's own.
        place: its folder, where only the catalog knows it; empty where it is in the warehouse.
    """

    lake: str
    topics: tuple[str, ...] = ()
    columns: tuple[ColumnOrigin, ...] = ()
    place: str = ""


class Origins(msgspec.Struct, frozen=True):
    """What a batch has changed, by source table."""

    version: int = VERSION
    tables: dict[str, TableOrigin] = {}


def keep_origins(spec: Migration, batch: str, tables: Mapping[str, TableOrigin]) -> None:
    """Write the file of a batch.

    Raises:
        UnavailableError: the lake's store does not answer.
    """
    data = _text(msgspec.to_builtins(Origins(tables=dict(tables))))
    with _store(spec, batch).write(FILE) as stream:
        stream.write(json.dumps(data, ensure_ascii=False).encode())


def read_origins(spec: Migration, batch: str) -> Origins:
    """What `keep_origins` wrote; nothing where there is no such file.

    Raises:
        ConfigurationError: the connection of the lake is not there.
        UnavailableError: the lake's store does not answer.
    """
    content = _store(spec, batch).read(FILE)
    if content is None:
        return Origins()
    try:
        found = msgspec.json.decode(content, type=Origins)
    except msgspec.MsgspecError:
        return Origins()
    return found if found.version == VERSION else Origins()


def _store(spec: Migration, batch: str) -> Store:
    return open_store(f"{spec.reports}/{file_name(batch)}")


def _text(data: object) -> object:
    """The same with names that are text: one may hold half of a surrogate pair."""
    if isinstance(data, dict):
        return {_text(key): _text(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_text(value) for value in data]
    return data.encode("utf-8", "backslashreplace").decode() if isinstance(data, str) else data
