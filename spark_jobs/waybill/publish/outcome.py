"""What became of a batch at one target, in the same words for files and for Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class PublishedPart(NamedTuple):
    """Messages that were sent together: all of them are there, or none.

    Attributes:
        part: its number in the batch, from 0.
        place: where it is: the file, or the topic and its offsets.
        messages: how many messages it holds.
        bytes: size of the file, or of keys, values and headers.
        sha256: checksum of the file, or of what was sent.
        first: change of the first message, as topic/partition/offset/index.
        last: change of the last message.
        record: what says that it is complete: the manifest, or the entry of the ledger.
    """

    part: int
    place: str
    messages: int
    bytes: int
    sha256: str
    first: str | None
    last: str | None
    record: str | None


@dataclass
class Published:
    """What became of a batch for one target.

    Attributes:
        parts: what was sent, in order, also by an earlier run that was killed.
        details: figures of the target for its people.
        skipped: messages that were left out on purpose, by reason.
    """

    parts: list[PublishedPart]
    details: dict[str, Any]
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """How many messages were sent."""
        return sum(part.messages for part in self.parts)
