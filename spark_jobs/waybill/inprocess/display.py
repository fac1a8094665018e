"""What the messages of a file are, one entry for each change in them, for people to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import Refusal
from waybill.name_patterns import matches
from waybill.records import ROW_OPERATIONS, Change, Message, refused
from waybill.row_times.typed import check_row

if TYPE_CHECKING:
    from waybill.protocol import Decoder

ONLY = ("changes", "refused", "skipped")
"""What `--only` can ask for."""

SAME, CHANGED, UNKNOWN, NOT_SENT = "same", "changed", "unknown", "not sent"


_BARE = frozenset(
    {"boolean", "date", "time", "timestamp", "timestamptz", "bytes", "bit", "geometry"}
)


class Cell(NamedTuple):
    """One column of a change.

    Attributes:
        name: the column.
        type: what it holds.
        before: text, None for null, UNSET where it was not sent or there is no image.
        after: likewise.
        key: whether it belongs to the key.
        bare: whether its texts cannot be mistaken for a word of ours, such as null.
        mark: `changed`, `same`, `unknown` (one side was not sent), `not sent` (neither was).
    """

    name: str
    type: str
    before: Any
    after: Any
    key: bool
    bare: bool
    mark: str


@dataclass
class DisplayEntry:
    """One change, or one message that holds none.

    Attributes:
        change: it.
        partner: the message with the first half of an update that came as two.
        refusal: why it is refused, also where the decoder took it and the conversion will not: see
            `check_row`.
    """

    change: Change
    partner: Message | None = None
    refusal: Refusal | None = None

    @property
    def message(self) -> Message:
        """The message that it came from."""
        return self.change.message

    @property
    def outcome(self) -> str:
        """changes, refused or skipped."""
        if self.refusal is not None:
            return "refused"
        return "skipped" if self.change.outcome == "skipped" else "changes"

    def cells(self) -> list[Cell]:
        """Its columns side by side, in the order of the table."""
        change, schema = self.change, self.change.schema
        before, after = change.before, change.after
        key = frozenset(schema.key or ())
        cells = []
        for i, column in enumerate(schema.columns):
            was = getattr(before, f"f{i}", UNSET)
            now = getattr(after, f"f{i}", UNSET)
            kind = column.source_type or str(column.type)
            mark = _mark(was, now) if before is not None and after is not None else SAME
            if was is UNSET and now is UNSET:
                mark = NOT_SENT
            bare = column.type.is_number or column.type.kind in _BARE
            cells.append(Cell(column.name, kind, was, now, column.name in key, bare, mark))
        return cells


def _mark(was: Any, now: Any) -> str:
    if was is UNSET or now is UNSET:
        return UNKNOWN
    return SAME if was == now else CHANGED


@dataclass(frozen=True)
class DisplayFilter:
    """Which entries are shown.

    Attributes:
        table: name or pattern of the table, None for all.
        only: one of `ONLY`, None for all.
        first: smallest offset.
        last: largest offset, None without end.
    """

    table: str | None = None
    only: str | None = None
    first: int = 0
    last: int | None = None

    def offset(self, message: Message) -> bool:
        """Whether the message is in the range."""
        return message.offset >= self.first and (self.last is None or message.offset <= self.last)

    def entry(self, entry: DisplayEntry) -> bool:
        """Whether the entry is asked for."""
        if self.only is not None and entry.outcome != self.only:
            return False
        name = entry.change.schema.qualified_name
        return self.table is None or matches(name, self.table)


class DisplayEntries:
    """Turns messages into entries; halves of updates are joined.

    Args:
        decoder: reads them.
        pairs: whether updates may come as two messages.

    Attributes:
        counts: how many entries of each outcome there were, shown or not.
        messages: how many messages were read.
    """

    def __init__(self, decoder: Decoder, pairs: bool) -> None:
        self.decoder = decoder
        self.joiner = PairJoiner() if pairs else None
        self.counts = dict.fromkeys(ONLY, 0)
        self.messages = 0
        self._halves: Bounded[tuple[Any, ...], Message] = Bounded()

    def read(self, messages: Iterable[Message], wanted: DisplayFilter) -> Iterator[DisplayEntry]:
        """The entries that are wanted, in the order of the messages.

        Messages in front of the range are decoded too, because decoders learn from them.
        """
        for message in messages:
            if wanted.last is not None and message.offset > wanted.last:
                continue
            self.messages += 1
            yield from self._counted(self._entries(message), wanted)
        rest = self.joiner.rest() if self.joiner is not None else []
        yield from self._counted(map(DisplayEntry, rest), wanted)

    def _counted(
        self, entries: Iterable[DisplayEntry], wanted: DisplayFilter
    ) -> Iterator[DisplayEntry]:
        for entry in entries:
            self.counts[entry.outcome] += 1
            if wanted.offset(entry.message) and wanted.entry(entry):
                yield entry

    def _entries(self, message: Message) -> Iterator[DisplayEntry]:
        try:
            changes = self.decoder.decode(message)
        except Refusal as refusal:
            yield DisplayEntry(refused(message, refusal), refusal=refusal)
            return
        for change in changes:
            if self.joiner is None or change.half is None or change.outcome != "ok":
                yield _entry(change)
            else:
                yield from self._joined(self.joiner, change)

    def _joined(self, joiner: PairJoiner, half: Change) -> Iterator[DisplayEntry]:
        schema = half.schema
        identity = schema.database, schema.schema, schema.table, half.sequence
        before = half.half == "before"
        settled = joiner.push(half)
        for change in settled:
            entry = _entry(change)
            if not before and change.half is None:
                entry.partner = self._halves.pop(identity, None)
            yield entry
        if before and half.outcome == "ok":
            self._halves[identity] = half.message


def _entry(change: Change) -> DisplayEntry:
    if change.outcome == "refused":
        sentence = change.reason or ""
        return DisplayEntry(
            change, refusal=Refusal(change.reason_kind or "shape", sentence, change.index)
        )
    if change.outcome == "ok" and change.operation in ROW_OPERATIONS:
        try:
            check_row(change)
        except Refusal as refusal:
            return DisplayEntry(change, refusal=refusal)
    return DisplayEntry(change)
