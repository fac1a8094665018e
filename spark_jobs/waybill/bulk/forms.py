"""Reads messages of known forms at once.

A form is everything of a message but the values that an envelope says may differ. It is learnt
from one message, which the envelope's decoder reads too; it is taken only if both agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.bounded import Bounded
from waybill.bulk import kernels
from waybill.bulk.block import JSON, Block, Scanned, Scanner
from waybill.bulk.candidates import Candidates
from waybill.bulk.notations import TEXT, numbers
from waybill.bulk.readings import BulkReader, Cell, Count, Reading, Sample
from waybill.bulk.rows import Columns, Extra, Rows, Value, bad_rows
from waybill.bulk.skeleton import Place, Skeleton, values
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask, Places, Texts
    from waybill.envelopes.protocol import Decoder
    from waybill.records import Change

MOST_FORMS = 200
"""Messages that look alike may have so many forms, e.g. one for each table."""
LEAD = 256
"""So many messages tell most forms of a topic."""
FEWEST = 8
"""Fewer messages of a block that are alike are sooner done one by one."""
_LONGEST = 4000
"""Digits of a number that is carried on; decoders refuse numbers that are a little longer."""
MOST_TRIES = 20
"""After so many messages in vain nothing more is learnt from those that look like them."""


class Form(Skeleton):
    """Messages that differ in nothing but the values that may."""

    def __init__(self, sample: Sample, reading: Reading) -> None:
        self.reading = reading
        allowed = [1 << kind for kind in sample.kinds]
        for cells in (reading.before, reading.after):
            for cell in cells or ():
                if cell is not None:
                    allowed[cell.slot] = cell.take.kinds
        if isinstance(reading.transaction, Cell):
            allowed[reading.transaction.slot] = reading.transaction.take.kinds
        for slot, wanted in reading.free.items():
            allowed[slot] = wanted
        super().__init__(sample.place, allowed, self._claimed())
        self.key: Skeleton | None = None
        """The form of the message keys, where that decides anything."""

    def _claimed(self) -> set[int]:
        """The values that may differ."""
        reading = self.reading
        claimed = set(reading.free)
        for cells in (reading.before, reading.after):
            claimed |= {cell.slot for cell in cells or () if cell is not None}
        counts = (*(reading.sequence or ()), reading.source_time)
        claimed |= {count.slot for count in counts if count is not None}
        claimed |= {slot for slot in reading.extra.values() if isinstance(slot, int)}
        if reading.transaction is not None:
            told = reading.transaction
            claimed.add(told.slot if isinstance(told, Cell) else told)
        return claimed

    def read(self, block: Block, texts: Scanned, places: Places) -> tuple[Rows, Places]:
        """The changes of messages of this form, and those messages that need a closer look.

        Args:
            block: the messages.
            texts: what has the form: the block itself, or its keys.
            places: which messages.
        """
        reading = self.reading
        values = _Values(texts, places)
        transaction = values.text(reading.transaction)
        extra = None if reading.carry is None else reading.carry(block, places)
        if reading.family:
            extra = Extra.of(reading.family, self._fields(values))
        rows = Rows(
            block,
            places,
            reading.schema,
            reading.operation,
            values.image(reading.before),
            values.image(reading.after),
            None
            if reading.sequence is None
            else tuple(values.count(told) for told in reading.sequence),
            reading.rank,
            reading.full_row,
            reading.half,
            None,
            None if reading.source_time is None else values.count(reading.source_time),
            transaction,
            extra,
        )
        bad = values.bad | bad_rows(rows)
        if extra is not None:
            for value in extra.fields.values():
                if isinstance(value, Value):
                    bad |= ~value.texts.good
                    if not value.quoted:
                        bad |= value.texts.lengths > _LONGEST
        if transaction is not None:
            bad |= transaction.lengths < 1
        if reading.check is not None:
            bad |= reading.check(rows)
        if not bad.any():
            return rows, places[:0]
        return rows.take(~bad), places[bad]

    def _fields(self, values: _Values) -> dict[str, Value | bytes]:
        """What is carried on."""
        fields: dict[str, Value | bytes] = {}
        for name, told in self.reading.extra.items():
            if isinstance(told, bytes):
                fields[name] = told
            else:
                quoted = bool(self.allowed[told] & TEXT)
                fields[name] = Value(values.of(told), quoted)
        return fields


class _Values:
    """The values of some messages of one form.

    Attributes:
        bad: which messages have a number that needs a closer look.
    """

    def __init__(self, block: Scanned, places: Places) -> None:
        self._block, self._places = block, places
        self._known: dict[Cell, Texts] = {}
        self.bad: Mask = np.zeros(len(places), np.bool_)

    def of(self, slot: int) -> Texts:
        """One value of each."""
        return values(self._block, self._places, slot)

    def text(self, told: int | Cell | None) -> Texts | None:
        """One value of each, None where there is none to be read."""
        if isinstance(told, Cell):
            return self._column(told)
        return None if told is None else self.of(told)

    def count(self, told: Count) -> Places:
        """One number of each."""
        texts = self.of(told.slot)
        if told.convert is not None:
            texts = told.convert(self._block.arena, texts)
        found, _, lengths = numbers(self._block.arena, texts)
        self.bad |= (lengths < 0) | (found < told.lowest) | (found > told.highest)
        return found * told.factor

    def image(self, cells: tuple[Cell | None, ...] | None) -> Columns | None:
        """The columns of an image of each."""
        return None if cells is None else tuple(self._column(cell) for cell in cells)

    def _column(self, cell: Cell | None) -> Texts | None:
        if cell is None:
            return None
        texts = self._known.get(cell)
        if texts is None:
            texts = cell.take.read(self._block.arena, self.of(cell.slot))
            self._known[cell] = texts
        return texts


_Look = tuple[bool, int]
"""Whether a form is one of values, and its hash."""


class Forms:
    """The forms of an envelope's messages.

    Args:
        decoder: reads one message exactly.
        reader: says what values mean.
        fewest: fewer messages of a block that look alike are not worth the trouble.
    """

    def __init__(self, decoder: Decoder, reader: BulkReader, fewest: int = FEWEST) -> None:
        self._decoder, self._reader = decoder, reader
        self._remembers = reader.learner() is not None
        self.lead = LEAD if self._remembers else 0
        """So many messages are best read apart at first: blocks with new forms are not."""
        self._fewest = 1 if self._remembers else fewest
        self._candidates = Candidates()
        by_form = reader.scanner is JSON
        self._scanner: Scanner = self._candidates if by_form else reader.scanner
        self._known: Bounded[_Look, list[Form]] = Bounded()
        self._tries: Bounded[_Look, int] = Bounded()

    def read(self, block: Block) -> tuple[list[Rows], Places]:
        """The changes of messages that are read at once, and the numbers of all other messages."""
        read, slow = self._read(block)
        if self._remembers and not self._harmless(block, slow):
            return [], np.arange(block.size)
        return read, slow

    def _harmless(self, block: Block, slow: Places) -> bool:
        return all(self._reader.harmless(block.message(number)) for number in slow.tolist())

    def _read(self, block: Block) -> tuple[list[Rows], Places]:
        read: list[Rows] = []
        block.scan_by(self._scanner)
        if block.keys is not None and (self._reader.reads_keys or self._reader.keys_alone):
            block.keys.scan_by(self._reader.key_scanner)
        slow: list[Places] = []
        counts = block.counts
        if block.known is not None:
            counts = self._recognized(block, block.known, read, slow)
        self._grouped(block, block, counts, read, slow)
        apart = block.counts < 0
        if self._reader.keys_alone and block.keys is not None:
            gone = apart & (block.begins < 0)
            if gone.any():
                counts = np.where(gone, block.keys.counts, np.int32(-1))
                self._grouped(block, block.keys, counts, read, slow)
                apart &= counts < 0
        slow.append(np.flatnonzero(apart))
        return read, np.sort(np.concatenate(slow))

    def _recognized(self, block: Block, known: Places, read: list[Rows], slow: list[Places]) -> Any:
        """Messages whose form was found when they were scanned; the `counts` of all others."""
        counts = np.where(known >= 0, np.int32(-1), block.counts)
        forms, order, ends = kernels.grouped(known.astype(np.uint64), known)
        start = 0
        for number, end in zip(forms.tolist(), ends.tolist(), strict=True):
            places = order[start:end]
            start = end
            if len(places) < self._fewest:
                slow.append(places)
                continue
            form = self._candidates.forms[number]
            everyone = np.ones(len(places), np.bool_)
            rest = self._through(form, block, block, places, read, slow, everyone)
            counts[rest] = block.counts[rest]
        return counts

    def _grouped(
        self, block: Block, texts: Scanned, counts: Any, read: list[Rows], slow: list[Places]
    ) -> None:
        """Messages whose `counts` are not below zero, by what they look like."""
        forms, order, ends = kernels.grouped(texts.forms, counts)
        start = 0
        for form, end in zip(forms.tolist(), ends.tolist(), strict=True):
            self._alike(block, texts, (texts is block, form), order[start:end], read, slow)
            start = end

    def _alike(
        self,
        block: Block,
        texts: Scanned,
        look: _Look,
        rest: Places,
        read: list[Rows],
        slow: list[Places],
    ) -> None:
        """Messages that differ in values only, and in what these mean."""
        if len(rest) < self._fewest:
            slow.append(rest)
            return
        for form in self._known.get(look, ()):
            rest = self._through(form, block, texts, rest, read, slow)
            if not len(rest):
                return
        while len(rest):
            known = self._known.get(look, [])
            tried = self._tries.get(look, 0) >= MOST_TRIES
            if len(rest) < self._fewest or len(known) >= MOST_FORMS or tried:
                slow.append(rest)
                return
            learnt = self._learn(block, texts, int(rest[0]))
            if learnt is None:
                self._tries[look] = self._tries.get(look, 0) + 1
                slow.append(rest[:1])
                rest = rest[1:]
                continue
            self._known[look] = [*known, learnt]
            if texts is block:
                self._candidates.add(learnt, look[1])
            rest = self._through(learnt, block, texts, rest, read, slow)

    def _through(
        self,
        form: Form,
        block: Block,
        texts: Scanned,
        rest: Places,
        read: list[Rows],
        slow: list[Places],
        fits: Mask | None = None,
    ) -> Places:
        if fits is None:
            fits = form.fits(texts, rest)
        if self._reader.reads_keys and texts is block:
            if block.keys is None:
                fits &= form.key is None
            elif form.key is None:
                fits &= block.keys.begins[rest] < 0
            else:
                fits &= block.keys.counts[rest] >= 0
                fits[fits] = form.key.fits(block.keys, rest[fits])
        ready = form.reading.ready
        if ready is not None and fits.any() and not ready():
            slow.append(rest[fits])
        elif fits.any():
            rows, left = form.read(block, texts, rest[fits])
            if len(rows):
                read.append(rows)
            slow.append(left)
        return rest[~fits]

    def _learn(self, block: Block, texts: Scanned, number: int) -> Form | None:
        """The form of a message; None if it is to be read on its own."""
        message = block.message(number)
        try:
            sample = Sample(texts, number, message)
        except ValueError:
            return None  # e.g. a number of more digits than can be looked at
        if not sample.plain:
            return None
        try:
            changes = (self._reader.learner() or self._decoder).decode(message)
        except Refusal:
            return None
        if len(changes) != 1 or changes[0].outcome != "ok" or not _has_key(changes[0]):
            return None
        change = changes[0]
        reading = self._reader.reading(sample, change)
        if reading is None:
            return None
        form = Form(sample, reading)
        if self._reader.reads_keys and message.key is not None and texts is block:
            if block.keys is None or block.keys.counts[number] < 0:
                return None
            key = Place(block.keys, number)
            form.key = Skeleton(key, [1 << kind for kind in key.kinds], range(len(key.kinds)))
        place = np.array([number])
        if not form.fits(texts, place).all():
            return None
        rows, _ = form.read(block, texts, place)
        return form if len(rows) and rows.change(0) == change else None


def _has_key(change: Change) -> bool:
    """Whether the columns of the key are in the row; what has none is refused on its own."""
    try:
        change.key_image()
    except Refusal:
        return False
    return True
