"""Rows of transactions that a mapping leaves out.

The end of a transaction says how many rows it had at the source. So those that are left out of a
table that is read are counted, too: their row of `changes` keeps its transaction, and a digest by
which a second delivery is known. The digest is made of what readers may see of a row.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from waybill.mapping.table import ChangeContext

if TYPE_CHECKING:
    from waybill.mapping.table import MappedTable

LEFT_OUT_ROW = "left_out_row"
"""The field of `extra` with the digest of a row that is left out."""

OF_EMPTIED = "of_emptied_table"
"""The field of `extra` that says of a change that it was made of the statement that emptied one of
several joined tables: no source has counted it."""


class ChangeTexts(NamedTuple):
    """The images of a change as `changes` has them, before they are mapped."""

    key: str | None
    old_key: str | None
    before: str | None
    after: str | None


def digest_of(mapped: MappedTable, operation: str, row: ChangeTexts) -> str:
    """What tells a row that is left out from the others of its sequence id.

    Args:
        mapped: its table.
        operation: what happened to it.
        row: its images.
    """
    keys = [
        None if key is None else mapped.key_text(key).decode() for key in (row.key, row.old_key)
    ]
    images: list[str | None] = []
    if row.key is None:
        event = ChangeContext(operation, None, None)
        images = [
            None if image is None else mapped.image_text(image, event).decode()
            for image in (row.before, row.after)
        ]
    parts = [mapped.source.qualified_name, operation, *keys, *images]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def with_digest(extra: str | None, digest: str) -> str:
    """What is kept beside a row that is left out, with its digest."""
    kept = {} if extra is None else json.loads(extra)
    return json.dumps({**kept, LEFT_OUT_ROW: digest})
