"""Where the overview of a migration is, and how it is read back.

Whoever only reads it loads none of what a lake needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from waybill.overview.schema import (
    VERSION,
    BatchAccount,
    BatchLine,
    Index,
    SourceLook,
    StageFailure,
    decoded,
)
from waybill.storage.file_store import LocalStore, file_name, open_store

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store

ACCOUNT = "waybill.json"
INDEX, SOURCE, FAILURE = "_index.json", "_source.json", "_failure.json"
"""No batch can have these names, which would be folders beside them."""

FILES = "_files"
"""The folder of the texts of the migration's file, by digest; no batch can have this name."""


Stamp = tuple[tuple[int, ...], tuple[int, ...]]
"""See `outline_stamp`."""


def reports(spec: Migration) -> str:
    """The folder of all reports of a migration."""
    return spec.reports


def read_index(spec: Migration) -> Index | None:
    """The index of a migration; None where there is none that this version can read.

    Raises:
        ConfigurationError: the connection of the lake is not there.
        UnavailableError: the lake's store does not answer.
    """
    return index_in(open_store(reports(spec)))


def read_outline(spec: Migration, newest: int) -> Index | None:
    """The index with its newest batches only, and without its tables; see `read_index`."""
    content = open_store(reports(spec)).read(INDEX)
    return None if content is None else outlined(content, newest)


class _Outline(Index, frozen=True):
    """An index whose long lists are not looked into: a page of many migrations needs little."""

    batches: list[msgspec.Raw]  # type: ignore[assignment]
    tables: list[msgspec.Raw] = msgspec.field(default_factory=list)  # type: ignore[assignment]


def outlined(content: bytes, newest: int) -> Index | None:
    """An index with its newest batches only, and without its tables; see `decoded`.

    Args:
        content: of the file.
        newest: how many batches.
    """
    try:
        outline = msgspec.json.decode(content, type=_Outline, strict=False)
        lines = [
            msgspec.json.decode(line, type=BatchLine, strict=False)
            for line in outline.batches[:newest]
        ]
    except msgspec.MsgspecError:
        return None
    if outline.version != VERSION:
        return None
    fields = {name: getattr(outline, name) for name in Index.__struct_fields__}
    return Index(**{**fields, "batches": lines, "tables": []})


def outline_stamp(spec: Migration) -> Stamp | None:
    """Which files `read_outline` and `read_source` would read now; None where no disk has them.

    Files are written beside their names and renamed, so another content is another file.
    """
    store = open_store(reports(spec))
    if not isinstance(store, LocalStore):
        return None
    return store.stamp(INDEX), store.stamp(SOURCE)


def read_account(spec: Migration, batch: str) -> BatchAccount | None:
    """The account of a batch; see `read_index`."""
    content = open_store(f"{reports(spec)}/{file_name(batch)}").read(ACCOUNT)
    return None if content is None else decoded(content, BatchAccount)


def index_in(store: Store) -> Index | None:
    """The index that a folder of reports has; see `read_index`."""
    content = store.read(INDEX)
    return None if content is None else decoded(content, Index)


def read_source(spec: Migration) -> SourceLook | None:
    """What the source held when it was asked last; None where it was not. See `read_index`."""
    return source_in(open_store(reports(spec)))


def source_in(store: Store) -> SourceLook | None:
    """The same of a folder of reports."""
    content = store.read(SOURCE)
    return None if content is None else decoded(content, SourceLook)


def read_failure(spec: Migration) -> StageFailure | None:
    """Why the last stage that failed did so; None where none has. See `read_index`."""
    content = open_store(reports(spec)).read(FAILURE)
    return None if content is None else decoded(content, StageFailure)


def read_file_text(spec: Migration, digest: str) -> str | None:
    """The text of the migration's file that stages ran with; None where it was not kept.

    Args:
        spec: the migration.
        digest: see `StageAccount.file`.
    """
    content = open_store(f"{reports(spec)}/{FILES}").read(f"{file_name(digest)}.txt")
    return None if content is None else content.decode()
