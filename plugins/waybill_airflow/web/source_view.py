"""What pages say of the source: how much waits there, since when, and when that was true."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from waybill_airflow.web.formatting import length, moment

if TYPE_CHECKING:
    from waybill.overview.schema import Index, PartitionLook, SourceLook


class SourceView(NamedTuple):
    """The source when it was asked last.

    Attributes:
        at: when that was; None where it has never answered.
        unread: how much waited.
        unit: of what, `messages` or `files`.
        behind: how long what had waited longest had waited by then; empty where nothing had, or it
            is not known.
        earlier: whether a batch has been archived since, so that some of it waits no more.
        gone: messages deleted before they were read.
        bytes: of the files that wait.
        partitions: in which most waits.
        problem: why it did not answer when it was asked since then, empty where it did.
        failed: when that was.
    """

    at: datetime | None
    unread: int
    unit: str
    behind: str
    earlier: bool
    gone: int
    bytes: int | None
    partitions: list[PartitionLook]
    problem: str
    failed: datetime | None

    @property
    def what(self) -> str:
        """The unit in the right number."""
        return self.unit.removesuffix("s") if self.unread == 1 else self.unit


def source_view(look: SourceLook | None, index: Index | None) -> SourceView | None:
    """What a page says of the source; None where it was never asked."""
    if look is None:
        return None
    behind = look.behind(look.looked)
    return SourceView(
        at=moment(look.looked),
        unread=look.unread,
        unit=look.unit,
        behind=length(behind) if behind else "",
        earlier=index is not None and look.archive != index.archived,
        gone=look.gone,
        bytes=look.bytes,
        partitions=look.partitions,
        problem=look.problem,
        failed=moment(look.failed),
    )
