"""Counts of one conversion, such that what came in equals what went out and what was left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waybill.made_ids import MADE_IDS, MadeIds
from waybill.report import StageReport

if TYPE_CHECKING:
    from waybill.records import Message


@dataclass(slots=True)
class Account:
    """Counts of messages; those of several workers are added with `add`.

    Attributes:
        over_limit: refused messages that are more than a setting allows.
        first_refused: where the first refused message is, and why it is refused.
    """

    messages: int = 0
    written: int = 0
    extra: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    made_ids: MadeIds = field(default_factory=MadeIds)
    bytes_in: int = 0
    bytes_out: int = 0
    over_limit: int = 0
    first_refused: str | None = None

    def add(self, other: Account) -> None:
        """Take over the counts of another account."""
        self.messages += other.messages
        self.written += other.written
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.extra.update(other.extra)
        self.refused.update(other.refused)
        self.skipped.update(other.skipped)
        self.losses.update(other.losses)
        self.over_limit += other.over_limit
        self.first_refused = self.first_refused or other.first_refused
        self.made_ids.add(other.made_ids)

    def tell(self, names: Iterable[str], topic: str, partition: int, changes: int = 1) -> None:
        """Count what an encoder reported of changes: what they gave up, and ids that were made.

        Args:
            names: the names, the same for each change.
            topic: the topic that the changes came from.
            partition: their partition.
            changes: how many there are.
        """
        # `Counter.update` takes longer than most messages have losses.
        for name in names:
            if name in MADE_IDS:
                self.made_ids.count(name, topic, partition, changes)
            else:
                self.losses[name] += changes

    @property
    def flawed(self) -> bool:
        """Whether anything was refused or lost."""
        return bool(self.refused or self.losses)

    @property
    def all_refused(self) -> bool:
        """Whether all that could have been written was refused; control messages do not count."""
        return bool(self.refused) and not self.written

    def report(self, target: str, seconds: float) -> StageReport:
        """The counts as the report of a stage.

        Raises:
            ReconciliationError: the counts do not add up.
        """
        made = self.made_ids.counts()
        report = StageReport(
            stage="convert",
            batch="",
            rows_in=self.messages,
            extra_in=dict(self.extra),
            rows_out=self.written,
            refused=dict(self.refused),
            skipped=dict(self.skipped),
            losses={target: dict(self.losses)} if self.losses else {},
            made_ids={target: made} if made else {},
            details={"bytes_in": self.bytes_in, "bytes_out": self.bytes_out},
            seconds=seconds,
        )
        report.reconcile()
        return report


class Notes:
    """What the encoder noted of written changes and is not counted yet: the same of each.

    Nearly every change of a topic notes what the one before it did, and to see that takes far less
    time than to count each by itself.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._topic, self._partition, self._changes = "", 0, 0

    def take(self, names: list[str], message: Message, account: Account) -> None:
        """Take what was noted of a change, and empty the list.

        Args:
            names: what was noted.
            message: where the change came from.
            account: where earlier changes are counted if this one differs from them.
        """
        if (
            names == self._names
            and message.partition == self._partition
            and message.topic == self._topic
        ):
            self._changes += 1
        else:
            self.count(account)
            self._names, self._changes = names.copy(), 1
            self._topic, self._partition = message.topic, message.partition
        names.clear()

    def count(self, account: Account) -> None:
        """Count everything that was taken."""
        if self._changes:
            account.tell(self._names, self._topic, self._partition, self._changes)
            self._names, self._changes = [], 0
