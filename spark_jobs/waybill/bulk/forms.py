"""Reads messages of known forms in bulk.

A form is everything of a message but the values that an envelope says may differ. It is learnt
from one message, which the envelope's decoder reads too, the exact way alone (`exactly`); it is
taken only if both agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waybill.bulk import kernels
from waybill.bulk.block import JSON, Block, Scanned, Scanner
from waybill.bulk.candidates import Candidates
from waybill.bulk.constant_bytes import Skeleton
from waybill.bulk.field_map import BulkReader, FieldMap, Sample
from waybill.bulk.form import Form
from waybill.bulk.gather import Asked, Group, gathered
from waybill.bulk.tables import OTHER, UNKNOWN, NamedTables, Schemas, Tables
from waybill.caches import Bounded, Numbers
from waybill.errors import Refusal
from waybill.protocol import exactly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.rows import Rows
    from waybill.protocol import Decoder
    from waybill.records import Change, Message, TableSchema

MOST_FORMS = 200
"""Messages of the same shape may have so many forms, e.g. one for each table."""
LEAD = 256
"""So many messages tell most forms of a topic."""
FEWEST = 8
"""Fewer messages of a block of the same shape are sooner done individually."""
MOST_TRIES = 20
"""After so many messages in vain nothing more is learnt from those that look like them."""
PRICE = 2 * FEWEST
"""Learning a form takes as long as so many messages individually. A topic of many tables has some
thousand forms, so one is learnt only after so many messages without a known form."""
DEAR = 8 * PRICE
"""What a form costs beside that where few messages of a block have it, as in later blocks too."""


_Look = tuple[bool, int]
"""Whether a form is one of values, and its hash."""

ASKING = 2
"""Asking a decoder what it knows of a table takes as long as so many messages individually."""


class _Recognized(NamedTuple):
    """Messages of a known form.

    Attributes:
        form: their form.
        texts: what has the form: the block itself, or its keys.
        places: which messages.
        tables: the number of the schema of each, where their names tell that.
    """

    form: Form
    texts: Scanned
    places: Places
    tables: Places | None


_Found = list[_Recognized]


class Forms:
    """The forms of an envelope's messages.

    Args:
        decoder: reads one message exactly.
        reader: says what values mean.
        fewest: fewer messages of a block of the same shape are not worth the trouble; with 1 forms
            are learnt at any price.
    """

    def __init__(self, decoder: Decoder, reader: BulkReader, fewest: int = FEWEST) -> None:
        self._decoder, self._reader = decoder, reader
        self._remembers = reader.learner() is not None
        self.lead = LEAD if self._remembers else 0
        """So many messages are best read apart at first: blocks with new forms are not."""
        self._fewest = 1 if self._remembers else fewest
        self._group = fewest
        """So many messages of a form are read in bulk in less time than individually."""
        self._price = 0 if fewest == 1 else PRICE
        self._unknown: Bounded[_Look, int] = Bounded()
        """How many messages had no known form, less what forms were learnt for."""
        self._candidates = Candidates()
        by_form = reader.scanner is JSON
        self._scanner: Scanner = self._candidates if by_form else reader.scanner
        self._known: Bounded[_Look, list[Form]] = Bounded()
        self._tries: Bounded[_Look, int] = Bounded()
        self._shapes: Numbers[object] = Numbers()
        self._schemas = Schemas()
        self._tables: Bounded[object, NamedTables] = Bounded()
        """Tables by the names that messages tell, for all forms that describe them the same."""
        self._learnt: list[int] = []
        """Numbers of the messages of the block of which forms were learnt."""

    def read(self, block: Block) -> tuple[list[Rows], Places]:
        """The changes of messages that are read in bulk, and the numbers of all other messages."""
        self._learnt.clear()
        self._reader.begin()
        read, slow = self._read(block)
        if self._remembers and not (read and self._harmless(block, slow)):
            return [], np.arange(block.size)
        for number in sorted(self._learnt):
            self._reader.tell(block.message(number))
        return read, slow

    def _harmless(self, block: Block, slow: Places) -> bool:
        if self._reader.no_value:
            slow = slow[block.begins[slow] >= 0]
        return all(map(self._reader.harmless, block.several(slow.tolist())))

    def _read(self, block: Block) -> tuple[list[Rows], Places]:
        found: _Found = []
        self._reader.arrange(block)
        block.scan_by(self._scanner)
        if block.keys is not None and (self._reader.reads_keys or self._reader.keys_alone):
            block.keys.scan_by(self._reader.key_scanner)
        slow: list[Places] = []
        counts = block.counts
        if block.known is not None:
            counts = self._recognized(block, block.known, found, slow)
        self._grouped(block, block, counts, found, slow)
        apart = block.counts < 0
        if self._reader.keys_alone and block.keys is not None:
            gone = apart & (block.begins < 0)
            if gone.any():
                counts = np.where(gone, block.keys.counts, np.int32(-1))
                self._grouped(block, block.keys, counts, found, slow)
                apart &= counts < 0
        slow.append(np.flatnonzero(apart))
        read: list[Rows] = []
        for rows, left in self._rows_of(block, found):
            if len(rows):
                read.append(rows)
            slow.append(left)
        return read, np.sort(np.concatenate(slow))

    def _recognized(self, block: Block, known: Places, found: _Found, slow: list[Places]) -> Any:
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
            rest = self._through(form, block, block, places, found, slow, everyone)
            counts[rest] = block.counts[rest]
        return counts

    def _grouped(
        self, block: Block, texts: Scanned, counts: Any, found: _Found, slow: list[Places]
    ) -> None:
        """Messages whose `counts` are not below zero, by what they look like."""
        forms, order, ends = kernels.grouped(texts.forms, counts)
        start = 0
        for form, end in zip(forms.tolist(), ends.tolist(), strict=True):
            self._of_one_look(block, texts, (texts is block, form), order[start:end], found, slow)
            start = end

    def _of_one_look(
        self,
        block: Block,
        texts: Scanned,
        look: _Look,
        rest: Places,
        found: _Found,
        slow: list[Places],
    ) -> None:
        """Messages that differ in values only, and in what these mean."""
        if len(rest) < self._fewest:
            slow.append(rest)
            return
        rest = self._by(self._known.get(look, ()), block, texts, rest, found, slow)
        if not len(rest):
            return
        self._unknown[look] = self._unknown.get(look, 0) + len(rest)
        while len(rest):
            known = self._known.get(look, [])
            tried = self._tries.get(look, 0) >= MOST_TRIES
            poor = self._unknown[look] < self._price
            if len(rest) < self._fewest or len(known) >= MOST_FORMS or tried or poor:
                slow.append(rest)
                return
            self._unknown[look] -= self._price
            learnt = self._learn(block, texts, int(rest[0]))
            if learnt is None:
                self._tries[look] = self._tries.get(look, 0) + 1
                slow.append(rest[:1])
                rest = rest[1:]
                continue
            self._known[look] = [*known, learnt]
            if texts is block:
                self._candidates.add(learnt, look[1])
            before = len(rest)
            rest = self._by(self._known[look][-1:], block, texts, rest, found, slow)
            if before - len(rest) < self._group:
                self._unknown[look] -= DEAR

    def _by(
        self,
        forms: Sequence[Form],
        block: Block,
        texts: Scanned,
        rest: Places,
        found: _Found,
        slow: list[Places],
    ) -> Places:
        """Take those of some messages that have one of some forms; returns the others."""
        for form in forms:
            if len(rest):
                rest = self._through(form, block, texts, rest, found, slow)
        for form in forms:
            if len(rest) and self._opened(form, texts, rest):
                rest = self._through(form, block, texts, rest, found, slow)
        return rest

    def _through(
        self,
        form: Form,
        block: Block,
        texts: Scanned,
        rest: Places,
        found: _Found,
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
        rest, fits, tables = self._named(form, block, texts, rest, fits, slow)
        # Where names pick the table, each one was asked for.
        ready = form.reading.ready if form.tables is None else None
        count = int(np.count_nonzero(fits))
        if 0 < count < self._group or (count and ready is not None and not ready()):
            slow.append(rest[fits])
        elif count:
            if form.schema is not form.reading.schema:
                form.plan()
                form.group = self._shapes.of(form.shape())
            found.append(
                _Recognized(form, texts, rest[fits], None if tables is None else tables[fits])
            )
        return rest[~fits]

    def _opened(self, form: Form, texts: Scanned, rest: Places) -> bool:
        """Whether a form of one table is one of others too from now on.

        It is where some messages differ from it in nothing but values and names.
        """
        if form.tables is not None or not form.names:
            return False
        tables = self._tables_named(form.reading)
        if tables.is_other(form.names):
            return False
        same = form.allowed.copy(), form.constants.copy()
        form.open_to(tables)
        if not form.fits(texts, rest).any():
            (form.allowed, form.constants), form.tables = same, None
            return False
        tables.add({form.names: self._schemas.number(form.reading.schema)})
        form.group = self._shapes.of(form.shape())
        self._candidates.changed()
        return True

    def _named(
        self,
        form: Form,
        block: Block,
        texts: Scanned,
        rest: Places,
        fits: Mask,
        slow: list[Places],
    ) -> tuple[Places, Mask, Places | None]:
        """Those of some messages that are not of tables unknown so far, and their tables.

        Returns:
            The messages, which of them have the form, and the number of the schema of each.
        """
        if form.tables is None:
            return rest, fits, None
        numbers = np.full(len(rest), OTHER, np.int64)
        numbers[fits] = form.tables.find(texts, rest[fits], form.slots_of_names)
        unknown = numbers == UNKNOWN
        if unknown.any() and not form.tables.full:
            self._meet(form, form.tables, block, texts, rest[unknown])
            numbers[unknown] = form.tables.find(texts, rest[unknown], form.slots_of_names)
            unknown = numbers == UNKNOWN
        if self._remembers:
            self._settle(form, form.tables, block, rest, numbers)
            unknown = numbers == UNKNOWN
        if unknown.any():
            slow.append(rest[unknown])
            rest, numbers = rest[~unknown], numbers[~unknown]
        return rest, numbers >= 0, numbers

    def _settle(
        self, form: Form, tables: NamedTables, block: Block, rest: Places, numbers: Places
    ) -> None:
        """Leave out messages of tables that the decoder does not read by their schema now.

        It is asked again whenever it has remembered something, once enough messages of a table
        pay for that.
        """
        present, firsts, counts = np.unique(numbers, return_index=True, return_counts=True)
        groups = zip(present.tolist(), firsts.tolist(), counts.tolist(), strict=True)
        out = []
        for number, first, count in groups:
            if number < 0 or form.settled.get(number) == self._reader.state:
                continue
            out.append(number)
            waiting = form.waiting.get(number, 0) + count
            if waiting < min(ASKING, self._group):
                form.waiting[number] = waiting
                continue
            form.waiting[number] = 0
            schema = self._reader.read_by(block.message(int(rest[first])))
            if schema is self._schemas[number]:
                form.settled[number] = self._reader.state
                out.pop()
            elif schema is not None:
                tables.forget(number)
        if out:
            numbers[np.isin(numbers, out)] = UNKNOWN

    def _meet(
        self, form: Form, tables: NamedTables, block: Block, texts: Scanned, rows: Places
    ) -> None:
        """Learn of tables from the first message of each; the form has to read it as it is."""
        described: dict[tuple[bytes, ...], int] = {}
        met: dict[int, tuple[tuple[bytes, ...], Change]] = {}
        for names, number in tables.firsts(texts, rows, form.slots_of_names).items():
            change = self._exact(block.message(number)) if all(names) else None
            if change is not None and self._is_one_of(tables, form, change.schema):
                met[number] = names, change
            elif change is not None or tables.failed(names):
                described[names] = OTHER
        if met:
            places = np.array(list(met), np.int64)
            schemas = [self._schemas.number(change.schema) for _, change in met.values()]
            found = _Recognized(form, texts, places, np.array(schemas, np.int64))
            ((read, left),) = self._rows_of(block, [found])
            for number in left.tolist():
                if tables.failed(met[number][0]):
                    described[met[number][0]] = OTHER
            for row, number in enumerate(read.places.tolist()):
                names, change = met[number]
                same = read.change(row) == change
                described[names] = self._schemas.number(change.schema) if same else OTHER
        tables.add(described)

    def _is_one_of(self, tables: NamedTables, form: Form, schema: TableSchema) -> bool:
        if schema.unnamed is not tables.structure:
            return False
        return self._reader.reads_the_same(form.schema, schema)

    def _exact(self, message: Message) -> Change | None:
        """The one change of a message of a row that is whole; None if it is any other."""
        try:
            changes = exactly(self._reader.learner() or self._decoder)(message)
        except Refusal:
            return None
        if len(changes) != 1 or changes[0].outcome != "ok" or not _has_key(changes[0]):
            return None
        return changes[0]

    def _rows_of(self, block: Block, found: _Found) -> list[tuple[Rows, Places]]:
        """The changes of messages of known forms, and those messages that are converted exactly."""
        groups: dict[object, list[_Recognized]] = {}
        for one in found:
            groups.setdefault((one.texts is block, one.form.group), []).append(one)
        asked = [
            Group(
                group[0].form.hows, [Asked(one.form.slots, one.texts, one.places) for one in group]
            )
            for group in groups.values()
        ]
        values = gathered(block.arena, asked)
        return [
            group[0].form.rows(block, mine, self._tables_of(group))
            for group, mine in zip(groups.values(), values, strict=True)
        ]

    def _tables_of(self, group: list[_Recognized]) -> Tables | None:
        """The tables of the messages of a group; None where each form has but one, the same."""
        if all(one.tables is None for one in group):
            return None
        numbers = [
            # Found in this block before the form was open to other tables.
            np.full(len(one.places), self._schemas.number(one.form.reading.schema), np.int64)
            if one.tables is None
            else one.tables
            for one in group
        ]
        return Tables(self._schemas, np.concatenate(numbers))

    def _learn(self, block: Block, texts: Scanned, number: int) -> Form | None:
        """The form of a message; None if it is to be read on its own."""
        sample = self._sample(block, texts, number)
        if sample is None:
            return None
        change = self._exact(sample.message)
        reading = None if change is None else self._reader.reading(sample, change)
        if change is None or reading is None:
            return None
        form = Form(sample, reading)
        form.group = self._shapes.of(form.shape())
        key = sample.key
        if key is not None:
            allowed = [1 << kind for kind in key.kinds]
            form.key = Skeleton(key.place, allowed, range(len(allowed)))
        place = np.array([number])
        if not form.fits(texts, place).all():
            return None
        ((rows, _),) = self._rows_of(block, [_Recognized(form, texts, place, None)])
        if not len(rows) or rows.change(0) != change:
            return None
        self._learnt.append(number)
        return form

    def _sample(self, block: Block, texts: Scanned, number: int) -> Sample | None:
        """A message to learn from, with its key; None if it is to be read on its own."""
        message = block.message(number)
        keyed = self._reader.reads_keys and message.key is not None and texts is block
        if keyed and (block.keys is None or block.keys.counts[number] < 0):
            return None
        try:
            key = Sample(block.keys, number, message) if keyed and block.keys is not None else None
            sample = Sample(texts, number, message, key)
        except ValueError:
            return None  # e.g. a number of more digits than can be looked at
        return sample if sample.plain and (key is None or key.plain) else None

    def _tables_named(self, reading: FieldMap) -> NamedTables:
        """The tables that messages tell which describe them as those of a form do."""
        structure = reading.schema.unnamed
        described = (reading.described_by, len(reading.named_by), structure)
        tables = self._tables.get(described)
        if tables is None:
            tables = self._tables[described] = NamedTables(structure)
        return tables


def _has_key(change: Change) -> bool:
    """Whether the columns of the key are in the row; what has none is refused on its own."""
    try:
        change.key_image()
    except Refusal:
        return False
    return True
