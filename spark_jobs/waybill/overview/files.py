"""Where the overview of a migration is, and how it is read back.

Whoever only reads it loads none of what a lake needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.overview.schema import BatchAccount, Index, decoded
from waybill.storage.file_store import file_name, open_store

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store

ACCOUNT = "waybill.json"
INDEX = "_index.json"
"""No batch can have this name, which would be a folder beside it."""


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


def read_account(spec: Migration, batch: str) -> BatchAccount | None:
    """The account of a batch; see `read_index`."""
    content = open_store(f"{reports(spec)}/{file_name(batch)}").read(ACCOUNT)
    return None if content is None else decoded(content, BatchAccount)


def index_in(store: Store) -> Index | None:
    """The index that a folder of reports has; see `read_index`."""
    content = store.read(INDEX)
    return None if content is None else decoded(content, Index)
