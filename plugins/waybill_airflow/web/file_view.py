"""The migration's file that a batch ran with, and what changed in it."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, NamedTuple

from waybill.overview.files import read_file_text, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.overview.schema import BatchAccount
    from waybill.spec.migration import Migration

KINDS = {"+": "added", "-": "removed", "@": "place"}
"""Lines of a difference by how they begin, as classes of the style sheet."""


class DiffLine(NamedTuple):
    """A line of a difference, and its class in the style sheet."""

    text: str
    kind: str


class FileView(NamedTuple):
    """The file.

    Attributes:
        text: as its last stage ran with it; None where the lake has no text of it.
        digest: of the text.
        before: the batch that it is compared with; empty where there is none with a text.
        same: whether nothing in it changed since then.
        changes: what did, as a unified difference.
        within: what changed while the batch was under way, between its first stage and its last.
    """

    text: str | None
    digest: str
    before: str
    same: bool
    changes: list[DiffLine]
    within: list[DiffLine]


def file_view(spec: Migration, account: BatchAccount) -> FileView | None:
    """The file that a batch ran with; None where its stages did not keep which it was.

    Raises:
        WaybillError: the lake cannot be read.
    """
    digests = account.files
    if not digests:
        return None
    first, last = digests[0], digests[-1]
    text = read_file_text(spec, last)
    before, earlier = _before(spec, account.batch)
    within: list[DiffLine] = []
    if first != last and text is not None:
        began = read_file_text(spec, first)
        within = [] if began is None else list(_diff(began, text, "its first stage", "its last"))
    changes: list[DiffLine] = []
    if earlier not in ("", last) and text is not None:
        known = read_file_text(spec, earlier)
        changes = [] if known is None else list(_diff(known, text, before, account.batch))
    return FileView(text, last, before, earlier == last, changes, within)


def _before(spec: Migration, batch: str) -> tuple[str, str]:
    """The batch before another one whose file is known, and the digest of that."""
    index = read_index(spec)
    names = [line.batch for line in index.batches] if index is not None else []
    if index is None or batch not in names:
        return "", ""
    older = index.batches[names.index(batch) + 1 :]
    return next(((line.batch, line.file) for line in older if line.file), ("", ""))


def _diff(one: str, other: str, name: str, other_name: str) -> Iterator[DiffLine]:
    lines = unified_diff(one.splitlines(), other.splitlines(), name, other_name, lineterm="")
    for line in lines:
        yield DiffLine(line, KINDS.get(line[:1], ""))
