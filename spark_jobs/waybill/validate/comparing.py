"""Holds messages to publish against their changes column by column, in a task that has both.

Messages are decoded in bulk, as a source's are, and what comes out stands beside the change: where
table, key and row are the same bytes, the message says what the change says. So it does of the
order where the sequence ids are the same, or the change, written once more, gives the same message.
A target whose messages say where windows end has to have the same bytes throughout.
Everything else is decoded individually and compared in full. Bulk decoding shares its kernels with
bulk encoding, so one change of every kind and every `SAMPLED`th are decoded exactly besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.batches.decoding import ChangeBatches
from waybill.batches.mapped_changes import MappedChanges
from waybill.batches.message_rows import CHANGE, changes_of
from waybill.lake.ordered_rows import in_order
from waybill.lake.sizing import MOST_ROWS
from waybill.lake_columns import ARCHIVE, CHANGE_PLACE, CHANGES, OUTBOX, columns_of
from waybill.records import ROW_OPERATIONS
from waybill.validate.comparing_messages import MessageJudge
from waybill.validate.rereading import MESSAGE, grouped, place_of, rows_of

if TYPE_CHECKING:
    from waybill.protocol import Decoder
    from waybill.records import Change, TableSchema
    from waybill.validate.readers import TargetReader

SAMPLED = 64
"""One of so many changes is decoded individually although its bytes agree."""

MINE = columns_of(CHANGES, *CHANGE.names, "table", "key")
"""What comparing takes of a change."""

THEIRS = pa.schema([*MESSAGE, CHANGES.field("batch")])
"""What comparing takes of a message."""

ORDER = (*CHANGE_PLACE, "batch", "message")
"""How messages have to be sorted."""

_COMPARED = ("table", "key", "after")
"""The columns that decide what a change does, where it gives the row no other key."""

_READ = columns_of(ARCHIVE, "topic", "partition", "offset", "timestamp", "key", "value", "headers")
_TWICE = "occurs twice, or only in part"

_MOST = 1 << 62


class Wrong(NamedTuple):
    """A change whose messages do not say the same.

    Attributes:
        target: who would get them.
        place: where the change came from.
        table: the table, as the messages' rows name it.
        what: what is wrong, in words.
        undecodable: whether they cannot be read at all.
    """

    target: str
    place: tuple[Any, ...]
    table: str | None
    what: str
    undecodable: bool


class Comparison:
    """Compares the messages of one target with their changes; keeps what it has learnt.

    Args:
        label: the target's name.
        reader: how its messages are read.
        schemas: every schema of the changes by its id.
    """

    def __init__(self, label: str, reader: TargetReader, schemas: dict[str, TableSchema]) -> None:
        self._label, self._reader, self._schemas = label, reader, schemas
        self._mapped = MappedChanges(reader.mapping, schemas) if reader.mapping else None
        if self._mapped is not None:
            self._schemas = schemas = self._mapped.schemas
        self._decoder: Decoder = reader.decoder()
        self._judge = MessageJudge(reader)
        self._written = None if reader.writer is None else reader.writer.batches(schemas)
        self._whole = reader.writer is not None and reader.writer.ends_windows
        self._rows = ChangeBatches(reader.decoder(), "", None, reader.bulk_reader())
        self._seen: set[tuple[Any, ...]] = set()
        self._at_once = True
        self.topics: Counter[str] = Counter()
        """Changes that were held against their messages, by topic."""
        self.one_by_one = 0
        """Those of them whose messages were decoded individually."""

    def compare(self, changes: pa.Table, messages: pa.Table) -> Iterator[Wrong]:
        """Compare some messages with all changes that they can come from.

        Args:
            changes: in the columns of `MINE`, in any order.
            messages: in the columns of `THEIRS`.
        """
        if not messages.num_rows:
            return
        if self._mapped is not None:
            mapped = self._mapped.map(changes)
            changes = mapped.rows.filter(pc.is_null(mapped.why))
        if not in_order(messages, ORDER):
            messages = messages.sort_by([(name, "ascending") for name in ORDER])
        pairs = _Pairs(changes, messages)
        same = np.zeros(len(pairs.starts), np.bool_)
        if self._at_once:
            same = self._same(pairs)
            # Where hardly anything has but one text, bulk decoding comes on top.
            self._at_once = bool(2 * np.count_nonzero(same) >= len(same))
        exact = np.flatnonzero(~same | self._sampled(pairs))
        self.one_by_one += len(exact)
        firsts = _taken(messages.select(["topic"]), pairs.starts)
        self.topics.update(dict(_counted(firsts.column("topic"))))
        wrong = list(self._differing(pairs, exact, self._decoder))
        if wrong:
            # A decoder may know a message by those before it, so they are not left out.
            every = np.arange(len(pairs.starts))
            again = self._differing(pairs, every, self._reader.decoder())
            named = {one.place for one in wrong}
            wrong = [one for one in again if one.place in named]
        known = {one.place for one in wrong}
        for one in pairs.not_whole(self._label):
            if one.place not in known:
                wrong.append(one)
        yield from wrong

    def _same(self, pairs: _Pairs) -> Any:
        """The changes whose messages, decoded in bulk, come back in the same bytes."""
        decoded = self._decoded(pairs.messages)
        group = pairs.group[decoded.column("offset").to_numpy()]
        row = _whole_rows(decoded) & _is(decoded, "outcome", "ok") & _null(decoded, "half")
        rest = ~row & ~_is(decoded, "outcome", "skipped")
        count = len(pairs.starts)
        plain = np.bincount(group[row], minlength=count) == 1
        plain &= np.bincount(group[rest], minlength=count) == 0
        plain &= pairs.found & ~pairs.several
        theirs = np.zeros(count, np.int64)
        theirs[group[row]] = np.flatnonzero(row)
        candidates = np.flatnonzero(plain)
        names = ["operation", "old_key", *_COMPARED]
        mine = _taken(pairs.changes.select(names), pairs.change[candidates])
        back = _taken(decoded.select(names), theirs[candidates])
        good = _whole_rows(mine) & ~_null(mine, "key")
        for name in _COMPARED:
            good &= _equal(mine.column(name), back.column(name))
        same = np.zeros(count, np.bool_)
        if self._whole:
            good &= self._same_bytes(pairs, candidates)
        elif self._written is not None:
            good &= self._same_ids(pairs, candidates, good, theirs[candidates], decoded)
        same[candidates] = good
        return same

    def _same_ids(self, pairs: _Pairs, some: Any, good: Any, theirs: Any, decoded: pa.Table) -> Any:
        """Those of some changes whose messages carry the ids that they have to carry.

        Where an id is not that of the change as it stands, the change is written once more: the
        message has to be the same bytes.

        Args:
            pairs: changes and messages.
            some: numbers of changes with one row among what was decoded.
            good: which of them are of interest.
            theirs: where those rows are.
            decoded: what was decoded.
        """
        mine = _taken(pairs.changes.select(["order_key"]), pairs.change[some])
        back = _taken(decoded.select(["order_key"]), theirs)
        same = _equal(_head(mine.column(0)), _head(back.column(0)))
        others = np.flatnonzero(good & ~same)
        if not len(others):
            return same
        again = self._written_again(_taken(pairs.changes, pairs.change[some[others]]))
        if again.num_rows != len(others):
            return same
        names = [*CHANGE_PLACE, "key", "value"]
        there = _taken(pairs.messages.select(names), pairs.starts[some[others]])
        whole = np.ones(len(others), np.bool_)
        for name in names:
            whole &= _equal(again.column(name), there.column(name))
        same[others] = whole
        return same

    def _same_bytes(self, pairs: _Pairs, some: Any) -> Any:
        """Those of some changes whose messages are the bytes that are written of them again."""
        again = self._again(_taken(pairs.changes, pairs.change[some]))
        begins = np.flatnonzero(again.column("message").to_numpy() == 0)
        if len(begins) != len(some):
            return np.zeros(len(some), np.bool_)
        sizes = np.diff(begins, append=again.num_rows)
        there = np.diff(pairs.starts, append=pairs.messages.num_rows)[some]
        same = sizes == there
        rows = np.flatnonzero(np.repeat(same, sizes))
        within = np.arange(again.num_rows) - np.repeat(begins, sizes)
        theirs = (np.repeat(pairs.starts[some], sizes) + within)[rows]
        names = [*CHANGE_PLACE, "key", "value"]
        mine, other = (
            _taken(again.select(names), rows),
            _taken(pairs.messages.select(names), theirs),
        )
        equal = np.ones(len(rows), np.bool_)
        for name in names:
            equal &= _equal(mine.column(name), other.column(name))
        same[np.repeat(np.arange(len(some)), sizes)[rows[~equal]]] = False
        return same

    def _written_again(self, changes: pa.Table) -> pa.Table:
        """The first message of each change."""
        found = self._again(changes)
        first = found.column("message").to_numpy() == 0
        return found.filter(pa.array(first)).combine_chunks()

    def _again(self, changes: pa.Table) -> pa.Table:
        """The messages of changes, written once more."""
        assert self._written is not None
        rows = changes.select(CHANGE.names).to_batches()
        found = pa.Table.from_batches(list(self._written.convert(iter(rows))), OUTBOX)
        return found.combine_chunks()

    def _decoded(self, messages: pa.Table) -> pa.Table:
        """What the messages say, as rows of `changes` whose offset is the number of the message."""
        numbers = pa.array(np.arange(messages.num_rows))
        at = messages.schema.get_field_index("offset")
        asked = messages.set_column(at, "offset", numbers).select(_READ.names)
        names = ["offset", "outcome", "operation", "half", "old_key", "order_key", *_COMPARED]
        found = [
            rows.select(names)
            for rows in self._rows.convert(iter(asked.combine_chunks().to_batches(MOST_ROWS)))
        ]
        decoded = pa.Table.from_batches(found, columns_of(CHANGES, *names))
        return decoded.filter(pa.array(~_is(decoded, "outcome", "schema")))

    def _sampled(self, pairs: _Pairs) -> Any:
        """One change of every kind that was not seen before, and every so many."""
        sampled = np.zeros(len(pairs.starts), np.bool_)
        sampled[-self.topics.total() % SAMPLED :: SAMPLED] = True
        names = ["schema_id", "operation", "before", "after", "extra"]
        rows = _taken(pairs.changes.select(names), pairs.change[pairs.found])
        kinds = [
            *(rows.column(name) for name in names[:2]),
            *(pc.is_null(rows.column(name)) for name in names[2:]),
        ]
        named = pa.table(kinds, names=[f"k{i}" for i in range(len(kinds))])
        named = named.append_column("row", pa.array(np.flatnonzero(pairs.found)))
        for kind in named.group_by(named.column_names[:-1]).aggregate([("row", "min")]).to_pylist():
            sampled_kinds = tuple(kind[name] for name in named.column_names[:-1])
            if sampled_kinds not in self._seen:
                self._seen.add(sampled_kinds)
                sampled[kind["row_min"]] = True
        return sampled

    def _differing(self, pairs: _Pairs, some: Any, decoder: Decoder) -> Iterator[Wrong]:
        """Those of some changes whose messages, decoded individually, say something else."""
        there = some[pairs.found[some]]
        expected: dict[tuple[Any, ...], Change] = {}
        wanted = pairs.change[there]
        if pairs.several[there].any():
            wanted = np.arange(pairs.changes.num_rows)
        for batch in _taken(pairs.changes, wanted).select(CHANGE.names).to_batches():
            for change in changes_of(batch, self._schemas):
                expected[place_of(change)] = change
        chosen = np.zeros(len(pairs.starts), np.bool_)
        chosen[some] = True
        messages = pairs.messages.filter(pa.array(chosen[pairs.group])).select(MESSAGE.names)
        for label, place, group, weakened in grouped(rows_of(messages.to_batches())):
            mine = expected.get(place)
            why, decoded = self._judge.difference(mine, group, weakened, decoder)
            if why is not None:
                yield Wrong(label, place, group[0][1] or None, why, not decoded)


class _Pairs:
    """Messages, change by change, and where the changes stand.

    Attributes:
        changes: the changes.
        messages: the messages, those of a change together.
        group: for each message the number of its change.
        starts: for each change its first message.
        found: whether a change is there.
        several: whether it is there more than once.
        change: where it is.
    """

    def __init__(self, changes: pa.Table, messages: pa.Table) -> None:
        self.changes, self.messages = changes, messages
        mine, theirs = _numbers_of_places(changes, messages)
        first = np.ones(len(theirs), np.bool_)
        first[1:] = theirs[1:] != theirs[:-1]
        self.group, self.starts = np.cumsum(first) - 1, np.flatnonzero(first)
        order = np.argsort(mine, kind="stable")
        ranked, wanted = mine[order], theirs[self.starts]
        at = np.searchsorted(ranked, wanted)
        self.found = np.zeros(len(wanted), np.bool_)
        self.several = self.found.copy()
        self.change = np.zeros(len(wanted), np.int64)
        inside = at < len(ranked)
        self.found[inside] = ranked[at[inside]] == wanted[inside]
        self.change[self.found] = order[at[self.found]]
        inside = at + 1 < len(ranked)
        self.several[inside] = ranked[at[inside] + 1] == wanted[inside]

    def not_whole(self, label: str) -> Iterator[Wrong]:
        """Changes whose messages, of one batch, are not numbered from 0 without a gap.

        Those that are there more than once are left out, as their messages are, too: a full run
        that takes up what another has read brings a message twice.
        """
        batch = self.messages.column("batch").combine_chunks().dictionary_encode().indices
        same = np.asarray(batch)
        fresh = np.ones(len(same), np.bool_)
        fresh[1:] = (same[1:] != same[:-1]) | (self.group[1:] != self.group[:-1])
        numbers = np.arange(len(same))
        begin = np.maximum.accumulate(np.where(fresh, numbers, 0))
        wrong = self.messages.column("message").to_numpy() != numbers - begin
        wrong &= (self.found & ~self.several)[self.group]
        for number in np.unique(self.group[wrong]).tolist():
            row = self.messages.slice(int(self.starts[number]), 1).to_pylist()[0]
            place = tuple(row[name] for name in CHANGE_PLACE)
            yield Wrong(label, place, row["table"], _TWICE, False)


def _numbers_of_places(changes: pa.Table, messages: pa.Table) -> tuple[Any, Any]:
    """A number for the place of every row; the same for the same place, another for another."""
    size = changes.num_rows
    codes, kinds = np.zeros(size + messages.num_rows, np.int64), 1
    for name in CHANGE_PLACE:
        parts = [table.column(name).combine_chunks() for table in (changes, messages)]
        column = pa.chunked_array(parts).combine_chunks()
        if pa.types.is_string(column.type):
            column = column.dictionary_encode().indices
        values = np.asarray(column).astype(np.int64)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if high - low >= _MOST // max(1, kinds):
            # As small as can be: there are no more kinds than rows.
            codes, values = (np.unique(one, return_inverse=True)[1] for one in (codes, values))
            kinds, low, high = len(codes) + 1, 0, len(codes)
        codes, kinds = codes * (high - low + 1) + (values - low), kinds * (high - low + 1)
    return codes[:size], codes[size:]


def _taken(table: pa.Table, places: Any) -> pa.Table:
    """Some rows of a table; the table itself where they are all of them in their order."""
    if len(places) == table.num_rows and (places == np.arange(table.num_rows)).all():
        return table.combine_chunks()
    return table.take(pa.array(places)).combine_chunks()


def _counted(column: Any) -> Iterator[tuple[str, int]]:
    """How often each value is there."""
    for found in pc.value_counts(column.combine_chunks()).to_pylist():
        yield found["values"], found["counts"]


def _mask(values: Any) -> Any:
    return np.asarray(pc.fill_null(values, False))


def _null(rows: pa.Table, name: str) -> Any:
    return _mask(pc.is_null(rows.column(name)))


def _is(rows: pa.Table, name: str, *values: str) -> Any:
    """Which rows have one of some values in a column."""
    return _mask(pc.is_in(rows.column(name), pa.array(values)))


def _whole_rows(rows: pa.Table) -> Any:
    """Which rows of `changes` are about a row of a table that keeps its key."""
    return _is(rows, "operation", *sorted(ROW_OPERATIONS)) & _null(rows, "old_key")


def _head(orders: Any) -> Any:
    """Order keys without the position: whether it is a full row, the sequence id, the rank."""
    return pc.replace_substring_regex(orders, "/[^/]*$", "")


def _equal(one: Any, other: Any) -> Any:
    """Where two columns have the same bytes, or both none."""
    neither = pc.and_(pc.is_null(one), pc.is_null(other))
    return _mask(pc.equal(one, other)) | _mask(neither)
