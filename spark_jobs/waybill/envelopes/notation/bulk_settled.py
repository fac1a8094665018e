"""Reading at once what a decoder that remembers tables would read without learning anything.

What such a decoder (`known_tables`) makes of a message may depend on the messages before it. As
long as all messages of a block say nothing new about their tables it does not.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from waybill.bulk.forms import BulkReader, Cell, Reading, Sample
from waybill.envelopes.notation.bulk_json_columns import take_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.notations import Take
    from waybill.envelopes.notation.json_columns import Style
    from waybill.records import Change, Message, TableSchema
    from waybill.tables import TableRules

Cells = tuple[Cell | None, ...]


class Remembering(Protocol):
    """A decoder that remembers tables."""

    def decode(self, message: Message) -> list[Change]:
        """See `Decoder.decode`."""

    def settled(self, message: Message) -> list[Change] | None:
        """The changes of a message that tells nothing new, none if it is refused; else None.

        The decoder remembers nothing of it.
        """

    def fresh(self) -> Remembering:
        """A decoder that was told the same and has read nothing."""


class SettledReader(BulkReader):
    """Says what the values of messages of known tables mean.

    Args:
        decoder: reads one message exactly.
        rules: declared keys and column types.
    """

    def __init__(self, decoder: Remembering, rules: TableRules) -> None:
        self._decoder, self._rules = decoder, rules

    @abstractmethod
    def meaning(self, sample: Sample, change: Change) -> Reading | None:
        """The meaning of the values of a message, None if such are read on their own.

        Only messages are alike that begin with the names of their table.
        """

    def learner(self) -> SettledReader:
        """What reads messages to learn from, without a trace in the decoder."""
        return self

    def decode(self, message: Message) -> list[Change]:
        """The changes of a message; those of an unknown table as if it were the first one."""
        changes = self._decoder.settled(message)
        return self._decoder.fresh().decode(message) if changes is None else changes

    def harmless(self, message: Message) -> bool:
        """Whether the decoder will remember nothing of a message."""
        return self._decoder.settled(message) is not None

    def reading(self, sample: Sample, change: Change) -> Reading | None:
        """The meaning of the values of a message, as long as its table is known so."""
        reading = self.meaning(sample, change)
        if reading is not None:
            reading.ready = self._ready(sample, reading)
        return reading

    def _ready(self, sample: Sample, reading: Reading) -> Callable[[], bool]:
        """Tells whether the decoder knows the table; takes over what it knows by now."""
        first = _kinds(reading)

        def ready() -> bool:
            changes = self._decoder.settled(sample.message)
            if not changes or len(changes) > 1:
                return False
            change = changes[0]
            if change.schema is reading.schema:
                return True
            now = self.meaning(sample, change)
            if now is None:
                return False
            kinds = _kinds(now)
            # The form was made for the kinds that the values could have at first.
            if kinds.keys() != first.keys() or any(k & ~kinds[s] for s, k in first.items()):
                return False
            reading.schema, reading.before, reading.after = now.schema, now.before, now.after
            return True

        return ready

    def cells(self, sample: Sample, image: str, schema: TableSchema, style: Style) -> Cells | None:
        """The columns of an image that is an object of their names.

        Returns:
            None if a column that is there cannot be read at once.
        """
        declared = self._rules.find(schema.database, schema.schema, schema.table or "").columns
        takes: list[Take | None] = []
        for column in schema.columns:
            slot = sample.slots.get((image, column.name))
            told = style if column.name in declared else style.of_inferred()
            takes.append(None if slot is None else take_of(column.type, told, sample.kinds[slot]))
        return sample.cells((image,), tuple(takes), schema.names)


def _kinds(reading: Reading) -> dict[int, int]:
    """The kinds that the values of rows may have, by their slots."""
    images = (reading.before or (), reading.after or ())
    return {cell.slot: cell.take.kinds for cells in images for cell in cells if cell is not None}
