"""What the values of messages mean, as the reader of an envelope says it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from waybill.bulk.block import JSON, Scanner
from waybill.bulk.constant_bytes import Place
from waybill.bulk.value_kinds import ESCAPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Block, Path, Scanned
    from waybill.bulk.column_codecs import ColumnReader, Convert
    from waybill.bulk.rows import Extra, Rows
    from waybill.protocol import Decoder
    from waybill.records import Change, Message, TableSchema


class ColumnSlot(NamedTuple):
    """A value of a column.

    Attributes:
        slot: the number of the value in the message.
        take: how it is read.
    """

    slot: int
    take: ColumnReader


class KeySlot(NamedTuple):
    """A value of a message key that tells one of the row.

    Attributes:
        slot: the number of the value in the key.
        column: the place of the column that it tells.
        take: how it is read.
    """

    slot: int
    column: int
    take: ColumnReader


class IntegerSlot(NamedTuple):
    """A number in a message, as digits or as a text of digits.

    Attributes:
        slot: the number of the value in the message.
        factor: what it is multiplied with.
        lowest: the smallest number that is taken.
        highest: the largest.
        convert: makes the digits of what stands there; None if it is digits.
    """

    slot: int
    factor: int = 1
    lowest: int = 0
    highest: int = 2**63 - 1
    convert: Convert | None = None


@dataclass
class FieldMap:
    """What the values of a form mean; the others must be as they were in the first message.

    Attributes:
        schema: the table.
        operation: what happened to the row.
        before: the row before, column by column; None in it for a column that is not there.
        after: the row after.
        sequence: the parts of the sequence id.
        source_time: the time, in microseconds after its factor.
        transaction: the id of the transaction: a text, or a cell that is read as one.
        family: whose fields are carried on, see `records.Change.extra`.
        extra: those fields by name: values of the message, or JSON that is the same for all.
        carry: gives what is carried on where that is no list of fields.
        ready: whether the decoder would read such messages so now, where it remembers others; what
            it says after one message holds until that decoder reads another one. It may change
            the schema, and with it the images.
        check: tells which rows are converted exactly after all.
        aside: values that are not used, as far as they need no exact conversion.
        stated_key: values that tell the key of the row beside it, one for each column, or one of
            all with a separator between them; rows where they need no exact conversion.
        message_key: values of the message key that tell values of the row; rows where they do not
            are converted exactly.
        free: values that decide nothing, with the kinds that they may have, as bits.
        rank: see `records.Change`.
        full_row: see `records.Change`.
        half: see `records.Change`.
        named_by: values that are texts and name the table: with other ones, and all else the same,
            messages are of a table that differs in its names only, or whose columns and key are
            declared otherwise.
        described_by: what the message tells of the columns and the key. Names that pick a table
            beside it once pick the same table in messages of all forms that tell the same.
    """

    schema: TableSchema
    operation: str
    before: tuple[ColumnSlot | None, ...] | None = None
    after: tuple[ColumnSlot | None, ...] | None = None
    sequence: tuple[IntegerSlot, ...] | None = None
    source_time: IntegerSlot | None = None
    transaction: int | ColumnSlot | None = None
    family: str = ""
    extra: dict[str, int | bytes] = field(default_factory=dict)
    carry: Callable[[Block, Places], Extra] | None = None
    ready: Callable[[], bool] | None = None
    check: Callable[[Rows], Mask] | None = None
    aside: tuple[ColumnSlot, ...] = ()
    stated_key: tuple[int, ...] = ()
    message_key: tuple[KeySlot, ...] = ()
    free: dict[int, int] = field(default_factory=dict)
    rank: int = 1
    full_row: bool = False
    half: str | None = None
    named_by: tuple[int, ...] = ()
    described_by: object = None


class Sample:
    """The first message of a form.

    Attributes:
        message: the message.
        value: its value, or its key where it has no value.
        slots: the number of each value by its path.
        kinds: the kind of each value.
        key: the message key, where the envelope reads keys and there is one.
    """

    def __init__(
        self, texts: Scanned, number: int, message: Message, key: Sample | None = None
    ) -> None:
        self.message = message
        self.key = key
        self.place = Place(texts, number)
        self.value = self.place.value
        self.kinds = self.place.kinds
        paths = texts.scanner.paths(self.value)
        self.slots: dict[Path, int] = {path: slot for slot, path in enumerate(paths)}
        self.plain = len(self.slots) == len(self.kinds)
        """Whether no name stands twice."""

    def text(self, slot: int) -> bytes:
        """The bytes of a value, without quotes."""
        return self.place.text(slot)

    def json(self, slot: int) -> bytes:
        """A value as JSON."""
        text = self.text(slot)
        return b'"%b"' % text if self.kinds[slot] <= ESCAPED else text

    def cells(
        self, path: Path, takes: tuple[ColumnReader | None, ...], names: tuple[str, ...]
    ) -> tuple[ColumnSlot | None, ...] | None:
        """The columns of an image that is an object of their names.

        Args:
            path: where the object stands.
            takes: how each column is read, None for one that cannot be.
            names: their names.

        Returns:
            None if a column that is there cannot be read in bulk.
        """
        found: list[ColumnSlot | None] = []
        for name, take in zip(names, takes, strict=True):
            slot = self.slots.get((*path, name))
            if slot is None:
                found.append(None)
            elif take is None or not take.kinds >> self.kinds[slot] & 1:
                return None
            else:
                found.append(ColumnSlot(slot, take))
        return tuple(found)


class BulkReader(ABC):
    """Says what the values of messages of an envelope mean.

    Attributes:
        reads_keys: whether the form of a message's key decides what the message means.
        keys_alone: whether messages without a value are read in bulk, by their keys.
        no_value: the reason for which every message without a value is skipped, whatever else it
            has; empty where such messages are not skipped, or not all of them.
        scanner: finds the values of messages.
        key_scanner: finds those of message keys.
    """

    reads_keys = False
    keys_alone = False
    no_value = ""
    scanner: Scanner = JSON
    key_scanner: Scanner = JSON

    @abstractmethod
    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message, None if such are read on their own.

        Args:
            sample: the message.
            change: what the decoder made of it.
        """

    def learner(self) -> Decoder | None:
        """A decoder to learn from, where one remembers messages and reads later ones by them.

        Then a block is read in bulk only if none of its messages tells the decoder anything: what
        it makes of a message may depend on others before. None where nothing that is remembered
        changes what a message means.
        """
        return None

    def harmless(self, message: Message) -> bool:
        """Whether a decoder that reads a message on its own will remember nothing of it."""
        return True

    @property
    def state(self) -> int:
        """A number that is another one whenever the decoder remembers something more."""
        return 0

    def read_by(self, message: Message) -> TableSchema | None:
        """The schema that the decoder would read a message by now, remembering nothing of it.

        None if it would remember something, or refuse the message. It is asked where names pick
        the table of a message, and the decoder remembers others.
        """
        return None

    def reads_the_same(self, one: TableSchema, other: TableSchema) -> bool:
        """Whether messages of two tables are read the same way that differ in their names only."""
        return True

    def arrange(self, texts: Scanned) -> None:  # noqa: B027 - most messages have but one order
        """Put what messages hold in any order into one, in place, before values are looked for.

        It has to say the same then. Messages that are read on their own stay as they came.
        """

    def begin(self) -> None:  # noqa: B027 - most readers need not know
        """A block of messages is about to be read."""

    def tell(self, message: Message) -> None:  # noqa: B027 - most decoders need not know
        """A form was learnt of a message, and its block is read in bulk.

        A decoder that reads later messages on their own by those before them has to see it.
        """
