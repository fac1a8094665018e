"""The way of one message: decoded, halves joined, keys checked, encoded, counted.

This is what `convert` does in Spark (`batches.message_rows`), without Arrow and without a lake
between decoding and encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.pairs import DUPLICATE, PairJoiner, identity, join, says_the_same
from waybill.errors import ConfigurationError, LimitRefusal, Refusal, WaybillError
from waybill.inprocess.counts import Account, Notes
from waybill.mapping.masks import WITHHELD
from waybill.records import ROW_OPERATIONS, Change, Message, TableSchema
from waybill.row_times.typed import Check, times_check
from waybill.row_times.zoned import count_zones, gives_up_zones

if TYPE_CHECKING:
    from waybill.mapping.changes import ChangeMapper
    from waybill.protocol import Encoded, Envelope, Settings
    from waybill.tables import TableRules

Refuse = Callable[[Message, int, str, str], None]
"""Takes a refused message: the message, the row in it, the kind and the sentence."""

JOINED = "first half of an update, joined"
TOMBSTONE = "a null value cannot be a line"
NOT_IN_TARGET = "the target has no word for it"


class Converter:
    """Converts messages of one envelope into another, one after the other.

    Args:
        source: the envelope that is read.
        target: the envelope that is written.
        rules: declared tables.
        decode_settings: settings of the source.
        encode_settings: settings of the target.
        refuse: what happens to a refused message.
        keep_halves: leave halves of updates whose partner is not here to the caller, in
            `open_halves`.
        wait: leave rows after whose row before has not come there, and join them when it comes:
            then they are halves no longer (`waybill.inprocess.held_output`).
        mappings: what becomes of changes before they are written, one after the other.

    Without either a row after whose row before has not come is an update without one.
    """

    def __init__(
        self,
        source: Envelope,
        target: Envelope,
        rules: TableRules,
        decode_settings: Settings,
        encode_settings: Settings,
        refuse: Refuse,
        keep_halves: bool = False,
        wait: bool = False,
        mappings: Sequence[ChangeMapper] = (),
    ) -> None:
        self._mappings = mappings
        self._hides = any(mapper.rules.masks for mapper in mappings)
        if source.decoder is None:
            raise ConfigurationError(f"{source.name!r} cannot be read; see `waybill envelopes`")
        if target.encoder is None:
            raise ConfigurationError(f"{target.name!r} cannot be written; see `waybill envelopes`")
        self.decoder = source.decoder(decode_settings, rules)
        self.encoder = target.encoder(encode_settings.for_source(source, decode_settings))
        self.joiner = PairJoiner() if source.pairs else None
        self.account = Account()
        self.open_halves: list[tuple[int, Change]] = []
        """Halves that the last messages left open, with how much had been written before each."""
        self._keeps_halves, self._waits = keep_halves, wait
        self._afters: dict[tuple[object, ...], Change] = {}
        self._refuse = refuse
        self._losses: list[str] = []
        self._notes = Notes()
        self._fits = _RowsFit()

    def convert(
        self, messages: Iterable[Message], out: list[Encoded], origins: list[Message]
    ) -> None:
        """Append what `messages` become to `out`.

        Args:
            messages: what is read.
            out: takes the written messages, in order.
            origins: takes for each of them the message that it was made from.
        """
        convert = self._convert_mapped if self._mappings else self._convert
        convert(messages, out, origins)
        self._notes.count(self.account)

    def _convert(
        self, messages: Iterable[Message], out: list[Encoded], origins: list[Message]
    ) -> None:
        """Convert messages whose changes stay as they are; see `convert`."""
        decode, plain, losses = self.decoder.decode, self.encoder.encode, self._losses
        encode = plain
        add, add_origin = out.append, origins.append
        schema: TableSchema | None = None
        present: Callable[[Change], None] | None = None
        notes = self._notes
        for message in messages:
            change = None
            try:
                changes = decode(message)
                if len(changes) == 1:
                    # The way of nearly every message: one change, one message.
                    change = changes[0]
                    if change.outcome == "ok" and change.half is None:
                        if change.schema is not schema:
                            present = self._fits[change.schema]
                            schema = change.schema
                            encode = self._encode_zoned if gives_up_zones(schema) else plain
                        if present is not None and change.operation in ROW_OPERATIONS:
                            present(change)
                        written = encode(change, losses)
                        if losses:
                            notes.take(losses, message, self.account)
                        if len(written) == 1:
                            add(written[0])
                            add_origin(message)
                        else:
                            self._take_written(written, message, out, origins)
                        continue
            except Refusal as refusal:
                losses.clear()
                self._take_refusal(message, refusal, 0 if change is None else change.index)
                continue
            except Exception as error:
                doing = "reading" if change is None else "writing"
                raise self._broken(doing, message, error) from error
            self._several(changes, out, origins)

    def _convert_mapped(
        self, messages: Iterable[Message], out: list[Encoded], origins: list[Message]
    ) -> None:
        """Convert messages whose changes become others; see `convert`."""
        for message in messages:
            try:
                changes = self.decoder.decode(message)
            except Refusal as refusal:
                self._take_refusal(message, refusal)
                continue
            except Exception as error:
                raise self._broken("reading", message, error) from error
            self._several(changes, out, origins)

    def _mapped(self, change: Change) -> Change | None:
        """What a change becomes; None, and counted, where it is left out.

        Raises:
            Refusal: it cannot be determined what it becomes.
        """
        for mapper in self._mappings:
            found, why, sentence, _ = mapper.map(change)
            if found is None:
                if sentence is not None:
                    raise Refusal(why or "where", sentence, change.index)
                self.account.skipped[why or "not selected"] += 1
                return None
            change = found
        return change

    def _several(self, changes: list[Change], out: list[Encoded], origins: list[Message]) -> None:
        """The changes of a message that has not exactly one ordinary change."""
        if len(changes) > 1:
            self.account.extra["further rows of a message"] += len(changes) - 1
        elif not changes:
            self.account.skipped["no change"] += 1
        for change in changes:
            if change.outcome == "ok" and change.half is None:
                self._write(change, out, origins)
            else:
                self._settle(change, out, origins)

    @property
    def waiting(self) -> set[tuple[object, ...]]:
        """What identifies each half that waits for its partner."""
        return {*self._afters, *(() if self.joiner is None else self.joiner.waiting)}

    def settle_half(
        self, message: Message, index: int, out: list[Encoded], origins: list[Message]
    ) -> None:
        """Go on with a half that another converter left open; the message is counted already."""
        for change in self.decoder.decode(message):
            if change.index == index and change.half is not None:
                self._settle(change, out, origins)
        self._notes.count(self.account)

    def finish(self) -> list[Change]:
        """The rows before still waiting for their partner; refused unless `keep_halves`."""
        rest = self.joiner.rest() if self.joiner is not None else []
        if not self._keeps_halves:
            for half in rest:
                self._take_refusal(half.message, _alone(half))
        return rest

    def refuse_written(self, message: Message, sentence: str) -> None:
        """Refuse a message for what it became in the target."""
        self._take_refusal(message, Refusal("encoding", sentence))

    def write(self, change: Change, out: list[Encoded], origins: list[Message]) -> None:
        """Append what a whole change becomes to `out`; see `convert`."""
        self._write(change, out, origins)
        self._notes.count(self.account)

    def _write(self, change: Change, out: list[Encoded], origins: list[Message]) -> None:
        try:
            if change.operation in ROW_OPERATIONS:
                self._fits[change.schema](change)
            mapped = self._mapped(change) if self._mappings else change
            if mapped is None:
                return
            written = self._encode_zoned(mapped, self._losses)
        except Refusal as refusal:
            self._losses.clear()
            self._take_refusal(change.message, refusal, change.index)
            return
        except Exception as error:
            raise self._broken("writing", change.message, error) from error
        if self._losses:
            self._notes.take(self._losses, change.message, self.account)
        self._take_written(written, change.message, out, origins)

    def _encode_zoned(self, change: Change, losses: list[str]) -> list[Encoded]:
        """What a change becomes; zones are counted that its times have named and lost."""
        written = self.encoder.encode(change, losses)
        if written:
            count_zones(change, losses)
        return written

    def _take_written(
        self, written: list[Encoded], origin: Message, out: list[Encoded], origins: list[Message]
    ) -> None:
        out += written
        origins += [origin] * len(written)
        if len(written) > 1:
            self.account.extra["further messages of a change"] += len(written) - 1
        elif not written:
            self.account.skipped[NOT_IN_TARGET] += 1

    def _settle(self, change: Change, out: list[Encoded], origins: list[Message]) -> None:
        """A change that is refused, skipped or half of an update."""
        if change.outcome == "refused":
            refusal = Refusal(change.reason_kind or "shape", change.reason or "", change.index)
            self._take_refusal(change.message, refusal)
        elif change.outcome == "skipped":
            self.account.skipped[change.reason_kind or "no change"] += 1
        elif self.joiner is None:
            self._lone_half(change, out, origins)
        elif change.half == "before" and (after := self._afters.pop(identity(change), None)):
            self.account.skipped[JOINED] += 1
            join(change, after)
        else:
            for settled in self.joiner.push(change):
                if settled.outcome != "ok":
                    self._settle(settled, out, origins)
                elif settled.half is None:
                    self.account.skipped[JOINED] += 1
                    self._write(settled, out, origins)
                else:
                    self._lone_half(settled, out, origins)

    def _lone_half(self, half: Change, out: list[Encoded], origins: list[Message]) -> None:
        if self._keeps_halves:
            self.open_halves.append((len(out), half))
        elif half.half == "before":
            self._take_refusal(half.message, _alone(half))
        elif self._waits:
            self._wait(half, out, origins)
        else:
            self._write_late(half, out, origins)

    def _wait(self, half: Change, out: list[Encoded], origins: list[Message]) -> None:
        """A row after whose row before may still come."""
        earlier = self._afters.setdefault(identity(half), half)
        if earlier is half:
            self.open_halves.append((len(out), half))
        elif says_the_same(earlier, half):
            self.account.skipped[DUPLICATE] += 1
        else:
            # No row before can belong to both.
            half.half = None
            self._write(half, out, origins)

    def write_late(self, change: Change, out: list[Encoded], origins: list[Message]) -> None:
        """Write a row after that was left open, joined by now or alone; see `convert`.

        The row as it is now is all that a reader needs: alone it is an update without row before.
        """
        self._write_late(change, out, origins)
        self._notes.count(self.account)

    def _write_late(self, change: Change, out: list[Encoded], origins: list[Message]) -> None:
        if change.half is not None:
            self._afters.pop(identity(change), None)
            change.half = None
        self._write(change, out, origins)

    def _take_refusal(self, message: Message, refusal: Refusal, index: int = 0) -> None:
        if self._hides:
            # The bytes are in the input; a file that is handed on must not show what is masked.
            refusal = Refusal(refusal.kind, WITHHELD, refusal.index)
            message = Message(message.topic, message.partition, message.offset, None, None, None)
        account = self.account
        account.refused[refusal.kind] += 1
        account.over_limit += isinstance(refusal, LimitRefusal)
        if account.first_refused is None:
            place = f"{message.topic}/{message.partition}/{message.offset}"
            account.first_refused = f"{place}, {refusal.sentence}"
        at = index if refusal.index is None else refusal.index
        self._refuse(message, at, refusal.kind, refusal.sentence)

    def _broken(self, doing: str, message: Message, error: Exception) -> WaybillError:
        if isinstance(error, WaybillError):
            return error
        place = f"{message.topic}, partition {message.partition}, offset {message.offset}"
        return WaybillError(
            f"{doing} the message at {place} failed with {type(error).__name__}: {error}; "
            "this is a defect in the envelope's code, not in the message: please report it"
        )


class _RowsFit(Bounded[TableSchema, "Callable[[Change], None]"]):
    """For each schema a check that a row tells which one it is, and times of the right types.

    See `Change.key_image` and `row_times.typed.times_check`.
    """

    def __missing__(self, schema: TableSchema) -> Callable[[Change], None]:
        check, times = _key_check(schema), times_check(schema)
        if times is not None:
            check = _both(check, times)
        self[schema] = check
        return check


def _both(one: Check, other: Check) -> Check:
    def check(change: Change) -> None:
        one(change)
        other(change)

    return check


def _key_check(schema: TableSchema) -> Callable[[Change], None]:
    if not schema.key:
        return Change.key_image
    fields = schema.key_fields
    get: Callable[[Any], Any] = attrgetter(*fields)

    if len(fields) == 1:

        def one(change: Change) -> None:
            image = change.before if change.after is None else change.after
            if image is not None and get(image) is UNSET:
                change.key_image()  # says which column is not there

        return one

    def several(change: Change) -> None:
        image = change.before if change.after is None else change.after
        if image is not None and UNSET in get(image):
            change.key_image()

    return several


def _alone(half: Change) -> Refusal:
    sentence = "the input has no row after this update"
    return Refusal("pair", sentence, half.index)
