"""Sequence ids of written messages, for targets that order changes by one number.

The ids of a topic order the changes of every key as the source's order does, whatever order they
arrive in. So

- a true id of one integer is written as it is;
- one of several parts becomes one integer by the layout that its source declares
  (`sequence_layout`), or that `sequence_digits` tells;
- where several changes share an id, their positions stand behind it;
- a full row has none: the target's own mark of full data is written;
- where the source has no ids, or ones that the target has no room for, ids are made from the
  position. Whether there is room is decided by the layout, never by a value, so that one topic
  never holds both kinds;
- a row without an id among others that have one is refused: a made one cannot be compared with
  those. Events (TRUNCATE, DDL) stay without, where a made id could stand above later rows.

Ids from the position are a second since 1970 in ten digits and a counter of a fixed number of
digits, as the tools make them that write these envelopes:

- 9 digits of counter in DataWorks' messages (DataHub message formats, the samples of both kinds of
  topic: 1605339516000000004 to 1605339516000000035 for changes of three quarters of an hour, so the
  second is the one in which the task began). What documents no form of its own follows it:
  Databus's windows and `scn` of OMS DataWorks 2.0.
- 5 digits in OMS Default, DefaultExtendColumnType and SharePlex: "timestamp + sequence number",
  where the number "does not exceed five digits" (OMS data formats, `storeDataSequence`, `scn`).
  All digits are written, so that no two ids look the same or change places.

The counter is partition, offset, and five digits of the index in the message. Nothing has to be
remembered, so an id is the same on every rerun and in every task. Inside a partition the ids grow;
between partitions they say nothing, as positions do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import structs
from pydantic import Field, PrivateAttr

from waybill.envelopes.moved_rows import standing_alone
from waybill.errors import Refusal
from waybill.made_ids import ACROSS_PARTITIONS, WITHIN_PARTITION
from waybill.order import position_number
from waybill.protocol import Settings
from waybill.records import ROW_OPERATIONS
from waybill.sequence_layout import WIDE, SequenceLayout, pack, placed

if TYPE_CHECKING:
    from waybill.protocol import Envelope
    from waybill.records import Change

FIRST_SECOND, LAST_SECOND = 1_000_000_000, 4_000_000_000
"""The first second of ten digits, and one that leaves room for the counter in 64 bits."""

DATAWORKS_DIGITS, OMS_DIGITS = 9, 5
"""Digits of the counter."""

UNSIGNED, SIGNED = 2**64 - 1, 2**63 - 1
"""The largest ids of targets that hold 64 bits."""

POSITIONS = (
    "ids of a source that has none are made from the position in its topic, and order changes "
    "inside a partition only"
)
"""What is said of every target with ids."""

_KEPT = (b'{"streamx":', b'{"oms":', b'{"canal":{"commitTs":null')
"""How `extra` begins of sources where events may lack the number that rows have."""
_OF_IDS = ("sequence_digits", "sequence_start", "sequence_from")
_CONNECTOR = re.compile(rb'"connector":\s*"([^"]*)"')


def came_without(change: Change) -> bool:
    """Whether a change has no number although its source has them.

    DataHub's document asks for `sequenceId` in row changes only ("DML operations"); OMS has
    `storeDataSequence` only where `sequenceEnabled` is true. What is written as TiCDC's messages
    has statements without `commitTs` where they came from such sources.
    """
    extra = change.extra
    return change.sequence is None and extra is not None and extra.startswith(_KEPT)


def goes_without(change: Change) -> bool:
    """Whether an event stays without a number because a made one could stand above later rows.

    A TRUNCATE there would take away rows that were written after it.
    """
    return change.operation not in ROW_OPERATIONS and came_without(change)


class PackedSettings(Settings):
    """Settings for writing one number for the source's sequence ids."""

    sequence_digits: tuple[int, ...] | None = Field(
        default=None,
        description="Decimal digits of each part of the source's sequence id after the first, if "
        "several parts become one number: each is written as its value plus one. 0 leaves "
        "out a part that is always 0. Left out: what the source declares (see docs/order.md). "
        "Keep it for the lifetime of the topic.",
    )
    _declared: tuple[SequenceLayout, ...] = PrivateAttr(default=())
    _expected: str | None = PrivateAttr(default=None)

    def of_ids(self) -> dict[str, Any]:
        """See `Settings.of_ids`."""
        plain = self.model_dump(mode="json")
        return {name: plain[name] for name in _OF_IDS if name in plain}

    def for_source(self, source: Envelope, read_settings: Settings) -> Self:
        """Settings of an encoder that writes what messages of this envelope tell."""
        made = super().for_source(source, read_settings)
        made._declared = source.layouts
        made._expected = source.name if source.layouts and read_settings.has_ids else None
        return made

    @property
    def layouts(self) -> tuple[SequenceLayout, ...]:
        """How ids become one number; none where nothing is known of the source."""
        declared = self._declared
        if self.sequence_digits is None:
            return declared
        shared = any(layout.shared for layout in declared)
        below_zero = any(layout.below_zero for layout in declared)
        parts = max((layout.parts for layout in declared), key=len, default=())
        # Nothing is known of the first part: what does not fit is an error when it comes.
        return (SequenceLayout(parts, self.sequence_digits, 0, shared, below_zero),)

    @property
    def expected(self) -> str | None:
        """The name of the source, if its changes have ids."""
        return self._expected


class SequenceSettings(PackedSettings):
    """Settings for writing sequence ids where the source may have none."""

    sequence_start: int = Field(
        default=FIRST_SECOND,
        ge=FIRST_SECOND,
        le=LAST_SECOND,
        description="The second (since 1970) at which sequence ids begin that are made because "
        "the source has none, or none that the target has room for. Keep it for the lifetime of "
        "the topic; to continue a topic of another tool, set a second later than its ids.",
    )
    sequence_from: Literal["source", "position"] = Field(
        default="source",
        description="`source` writes the source's own ids where it has them, and refuses a row "
        "that has none among others. `position` makes all ids from the position in the source's "
        "topic, which orders changes inside a partition only: for topics whose producer was not "
        "set to write positions (Maxwell, GoldenGate, DMS), or wrote them in part.",
    )

    @property
    def expected(self) -> str | None:
        """See `PackedSettings.expected`."""
        return None if self.sequence_from == "position" else super().expected


class PackedSequence:
    """One number for the sequence ids of a source.

    Args:
        settings: the layouts.
        largest: the largest number that the target holds; None where it is digits of any length.
        positions: whether the target needs ids that differ where changes of the source share one.
    """

    def __init__(
        self, settings: PackedSettings, largest: int | None = None, positions: bool = True
    ) -> None:
        self.largest = largest
        self.layouts = settings.layouts
        if not positions:
            self.layouts = tuple(structs.replace(x, shared=False) for x in self.layouts)
        self._passed_over = getattr(settings, "sequence_from", "source") == "position"
        self.by_connector = any(layout.connector for layout in self.layouts)
        self._generic: dict[int, SequenceLayout] = {}

    def layout(self, extra: bytes | None, parts: int) -> SequenceLayout:
        """How an id of so many parts becomes one number.

        Args:
            extra: that of the change.
            parts: how many it has.
        """
        if not self.layouts:
            # Nothing is known of the source: wide enough for whatever a part may be.
            found = self._generic.get(parts)
            if found is None:
                found = self._generic[parts] = SequenceLayout((), (WIDE,) * (parts - 1))
            return found
        if not self.by_connector:
            return self.layouts[0]
        match = self.connector_in(extra or b"")
        name = match[1].decode() if match else ""
        for layout in self.layouts:
            if name in layout.connector or not layout.connector:
                return layout
        return self.layouts[-1]

    @staticmethod
    def connector_in(extra: bytes) -> re.Match[bytes] | None:
        """Where what is carried on names the connector, which is the first group."""
        return _CONNECTOR.search(extra)

    def has_room(self, layout: SequenceLayout) -> bool:
        """Whether the target holds the ids of a layout."""
        if self._passed_over:
            return False
        return self.largest is None or layout.fits(self.largest)

    def of(self, change: Change, losses: list[str]) -> int | None:
        """The number; None where the change has no id, or the target no room for such ids.

        One that is made of several parts is reported as a made id (`made_ids`).

        Raises:
            Refusal: kind `encoding`, when a number is beyond its digits, or beyond the target.
        """
        sequence = change.sequence
        if sequence is None:
            return None
        layout = self.layout(change.extra, len(sequence))
        if not self.has_room(layout):
            return None
        if sequence[0] < 0 and layout.below_zero:
            raise Refusal(
                "encoding",
                f"this {change.operation} belongs to an initial load, whose position is below "
                "every id that can be written; only rows that are there have a mark for it",
            )
        number = pack(sequence, layout)
        if layout.shared:
            message = change.message
            number = placed(number, message.partition, message.offset, change.index)
        if self.largest is not None and number > self.largest and not layout.keeps(sequence):
            raise Refusal(
                "encoding",
                f"the sequence id {'.'.join(map(str, sequence))} becomes {number}, and the target "
                f"holds numbers up to {self.largest}: set fewer digits in sequence_digits of the "
                "target, for the whole topic, or publish an envelope with longer ids",
            )
        if not layout.keeps(sequence):
            losses.append(ACROSS_PARTITIONS)
        return number

    def is_load(self, change: Change) -> bool:
        """Whether a row is of an initial load, whose id is below all that can be written."""
        sequence = change.sequence
        return (
            sequence is not None
            and sequence[0] < 0
            and change.operation in ("insert", "read", "upsert")
            and any(layout.below_zero for layout in self.layouts)
        )

    def as_own_message(
        self, change: Change, losses: list[str], counts_gaps: bool = False
    ) -> Change:
        """A change as a message of its own has to tell it.

        A row of an initial load is older than every change and so becomes a full row; a row whose
        old key is removed by another message is an insert, see `moved_rows.standing_alone`.

        Args:
            change: the change.
            losses: gets what is given up.
            counts_gaps: see `moved_rows.standing_alone`.
        """
        if change.moved_from is not None:
            change = standing_alone(change, losses, counts_gaps)
        if not self.is_load(change):
            return change
        losses.append("sequence_id")
        return structs.replace(change, operation="read", full_row=True, sequence=None)


class WrittenSequence:
    """The ids of one target: the source's own as one number, or made from positions.

    Args:
        settings: layouts, and where ids begin that are made.
        digits: digits of the counter of made ids.
        largest: see `PackedSequence`.
        positions: see `PackedSequence`.
        largest_made: the largest id that may be made from a position; None where that is `largest`.
    """

    def __init__(
        self,
        settings: SequenceSettings,
        digits: int,
        largest: int | None = None,
        positions: bool = True,
        largest_made: int | None = None,
    ) -> None:
        self.packed = PackedSequence(settings, largest, positions)
        self.largest_made = largest if largest_made is None else largest_made
        self.start: int = settings.sequence_start * 10**digits
        self.expected = settings.expected

    def of(self, change: Change, losses: list[str]) -> int:
        """The id of a change that is no full row.

        One that is made is noted (`made_ids`), and counted as lost where it takes the place of the
        source's own.

        Raises:
            Refusal: kind `encoding`; see `PackedSequence.of`; or a row has none where others of
                its source have one; or the message holds more changes than an id can tell apart;
                or an id from the position is beyond the target.
        """
        number = self.packed.of(change, losses)
        return self.made(change, losses) if number is None else number

    def made(self, change: Change, losses: list[str]) -> int:
        """An id from the position: it grows with that, and differs between partitions.

        Raises:
            Refusal: see `of`.
        """
        if change.sequence is not None or came_without(change):
            losses.append("sequence_id")
        elif self.expected is not None and change.operation in ROW_OPERATIONS:
            raise Refusal(
                "encoding",
                f"this {change.operation} has no sequence id, and changes of {self.expected} may "
                "have one that a made one cannot be compared with: where the order of the topic "
                "is that of its positions, set sequence_from: position in the target's settings",
            )
        message = change.message
        number = self.start + position_number(message.partition, message.offset, change.index)
        if self.largest_made is not None and number > self.largest_made:
            raise Refusal(
                "encoding",
                f"the sequence id made from partition {message.partition}, offset {message.offset} "
                f"is {number}, and the target holds numbers up to {self.largest_made}: publish an "
                "envelope with longer ids, such as oms-dataworks or datahub-blob, or read the "
                "source in fewer partitions (each file is one) under a new migration name",
            )
        losses.append(WITHIN_PARTITION)
        return number
