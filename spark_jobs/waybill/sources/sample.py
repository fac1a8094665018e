"""What a look at a source found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class SourceSample(NamedTuple):
    """What a look at a source found.

    Attributes:
        there: whether there are messages.
        text: what there is, for a person.
        details: the same as figures.
        notes: what a person should know.
        batches: messages as rows of the archive; stop taking them when there are enough.
    """

    there: bool
    text: str
    details: dict[str, Any]
    notes: list[str]
    batches: Iterator[pa.RecordBatch]
