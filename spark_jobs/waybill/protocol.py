"""What an envelope is: a declaration, a decoder and an encoder.

Adding an envelope is one folder with these three, its golden cases, and one line in the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import msgspec
from pydantic import BaseModel, ConfigDict

from waybill.sequence_layout import SequenceLayout
from waybill.tables import TableRules

if TYPE_CHECKING:
    from waybill.records import Change, Message


class Named:
    """A class or function of another module, which is imported when it is first called.

    A declaration names what reads and writes its messages in this way, so that whoever looks at
    declarations loads no decoder, and no decoder has to be loaded before its declaration.

    Args:
        path: `module:name`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call what has this name."""
        if self._found is None:
            module, _, name = self.path.partition(":")
            self._found = getattr(import_module(module), name)
        return self._found(*arguments)

    def __reduce__(self) -> tuple[type[Named], tuple[str]]:
        """Sent to a task by its name alone."""
        return Named, (self.path,)


class Settings(BaseModel):
    """Base of the settings of one envelope; unknown settings are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ends_windows: ClassVar[bool] = False
    """Whether messages of a row say where a window ends, which is nothing that rows show."""

    def of_ids(self) -> dict[str, Any]:
        """Those that decide which sequence ids are written, as plain data.

        They are kept with a batch, because its messages have its ids whatever is set by the time
        that they are read again.
        """
        return {}

    def for_trial(self) -> Self:
        """Settings of an encoder whose messages go nowhere: it leaves nothing behind either."""
        return self

    @classmethod
    def following(cls, source: Envelope, read_settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that follow from what is read, where nobody sets them.

        Args:
            source: the envelope that is read.
            read_settings: those of its reading.
        """
        return {}

    def for_source(self, source: Envelope, read_settings: Settings) -> Self:
        """Settings of an encoder that writes what messages of another envelope tell.

        Args:
            source: the envelope that is read.
            read_settings: those of its reading.
        """
        follows = self.following(source, dict(read_settings))
        update = {n: value for n, value in follows.items() if n not in self.model_fields_set}
        return self.model_copy(update=update)

    @property
    def in_bulk(self) -> bool:
        """Whether messages can be read in bulk with these settings."""
        return True

    @property
    def has_ids(self) -> bool:
        """Whether changes that are read with these settings may have sequence ids."""
        return True


class Encoded(msgspec.Struct, gc=False):
    """One message for a target topic.

    Attributes:
        key: message key, None where the envelope has none.
        value: message value, None for a tombstone.
        headers: names and values, None where there are none.
    """

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None


class Decoder(Protocol):
    """Reads messages of one envelope; made once per task, so it may keep what a schema decides."""

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message, in order.

        A message with several rows returns a refused row (`records.refused`) for a bad one and
        goes on with its neighbours. Messages that are not changes are returned as skipped rows.

        Raises:
            Refusal: the whole message cannot be taken.
        """


class Shortened(Decoder, Protocol):
    """A decoder that reads most messages faster, by the tables it knows from earlier ones."""

    def exact(self, message: Message) -> list[Change]:
        """The changes of one message, read without anything known from earlier messages.

        Raises:
            Refusal: the whole message cannot be taken.
        """


def exactly(decoder: Decoder) -> Callable[[Message], list[Change]]:
    """A decoder's exact tier, which defines what messages mean: every faster tier follows it."""
    # To ask whether it is `Shortened` would take as long as reading a message.
    return getattr(decoder, "exact", decoder.decode)


class Encoder(Protocol):
    """Writes messages of one envelope; made once per task."""

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; empty when the envelope has no word for it.

        What is given up is appended to `losses` by the names of `CAPABILITIES`; an empty result
        always comes with at least one. A made id is reported beside it, by the names of
        `waybill.made_ids`.

        Raises:
            Refusal: kind `encoding`, when writing it would change a value.
        """


CAPABILITIES = {
    "before_image": "the row as it was before an update or delete",
    "unchanged_columns": "a column that was not touched is left out and distinguished from null",
    "full_rows": "rows of a snapshot are distinguished from inserts",
    "operations": "an insert is distinguished from an update",
    "delete": "a row was deleted",
    "truncate": "all rows of a table were deleted",
    "ddl": "the text of a schema change",
    "transactions": "begin, commit and rollback, and the id of a row's transaction",
    "heartbeat": "a sign of life without a row",
    "key_change": "an update that gives the row another key, as one event",
    "key_columns": "the names of the key columns",
    "types": "the type of every column",
    "exact_numbers": "numbers of any size and scale",
    "sequence_id": "a number that orders changes, apart from the position in the topic",
    "source_time": "the time of the change in the source",
    "schema_name": "a schema between database and table",
    "database_kind": "the kind of database that the message of a row names (`dbType`)",
    "other": "events of the source's family that change no row (GTID, index, XA …)",
}
"""Everything an envelope may or may not carry. The names are those of the loss report."""


MOVED_APART = {
    "key_change": "a change of the key came as a delete and an insert, and is written as these two",
    "unchanged_columns": "of a row under a new key, columns that were not sent with it are known "
    "under the old key only, and the written insert lacks them",
}
"""What is given up of a change of the key that came as two messages, in every other envelope."""


class Mark(msgspec.Struct, frozen=True):
    """What in the bytes of a message shows whose it is.

    Attributes:
        size: how many bytes had to be as they are.
        text: what was seen, half a sentence.
    """

    size: int
    text: str


class Limit(msgspec.Struct, frozen=True):
    """What one setting of writing gives up of a capability that is carried in full without it.

    Attributes:
        setting: the setting's name.
        value: the value that does it.
        capability: what is given up, in part at least.
        sentence: which part, without the setting.
    """

    setting: str
    value: str | bool
    capability: str
    sentence: str

    @property
    def under(self) -> str:
        """The setting as a specification has it."""
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return f"{self.setting}: {value}"

    def __str__(self) -> str:
        return f"with {self.under}, {self.sentence}"


NO_TRUNCATES = Limit(
    "truncates", False, "truncate", "a TRUNCATE is left out, and readers keep the rows"
)
"""The limit of the setting `truncates`, where an envelope has it."""


class Envelope(msgspec.Struct, frozen=True):
    """The declaration of one envelope.

    Attributes:
        name: the name in specifications, e.g. `oms-default`.
        title: the product and format in a few words.
        source: document or source code that the rules come from.
        sequence: how its messages are ordered, one sentence.
        carries: names out of `CAPABILITIES` that a written message can carry in full.
        partly: capabilities carried with a limit, each with the sentence that says which.
        limits: what settings give up of those carried in full.
        brings: capabilities that its messages may have and that Waybill does not write.
        not_written: fields that its documents have and that are made for no change from another
            envelope, each with what becomes of them; `*` stands for any end of a name.
        decoder: makes a decoder, None if the envelope is not read.
        encoder: makes an encoder, None if it is not written.
        decode_settings: settings for reading.
        encode_settings: settings for writing.
        key_by: what written message keys are, one sentence.
        layouts: how its sequence ids become one number in targets that have room for no more;
            none where it has no ids.
        moves_apart: whether a change of the key comes as two messages that stand for themselves.
        unnumbered: names the envelopes among which messages of a topic without sequence ids
            (`sequence_ids: none`) are written without them too; empty where ids are made.
        pairs: whether an update may come as two messages that have to be joined.
        bulk_reader: makes a `bulk.field_map.BulkReader` of a decoder; None if every message is
            read on its own.
        bulk_writer: makes a `bulk.templates.BulkWriter` of an encoder, likewise.
        mark: finds what shows that a message is of this envelope, where that is not the names of
            JSON; None if nothing does.
    """

    name: str
    title: str
    source: str
    sequence: str
    carries: frozenset[str]
    decoder: Callable[[Any, TableRules], Decoder] | None
    encoder: Callable[[Any], Encoder] | None
    partly: dict[str, str] = {}
    limits: tuple[Limit, ...] = ()
    brings: frozenset[str] = frozenset()
    not_written: dict[str, str] = {}
    decode_settings: type[Settings] = Settings
    encode_settings: type[Settings] = Settings
    key_by: str = ""
    layouts: tuple[SequenceLayout, ...] = ()
    moves_apart: bool = False
    unnumbered: str = ""
    pairs: bool = False
    bulk_reader: Callable[[Any], Any] | None = None
    bulk_writer: Callable[[Any], Any] | None = None
    mark: Callable[[Any], Mark | None] | None = None

    @property
    def is_binary(self) -> bool:
        """Whether its messages are not JSON, so that bytes of them may be line feeds."""
        return self.mark is not None

    def limits_under(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """What settings of writing give up of what is carried in full, each with a sentence."""
        return {
            limit.capability: str(limit)
            for limit in self.limits
            if settings.get(limit.setting) == limit.value
        }

    def losses_to(
        self, target: Envelope, settings: Mapping[str, Any], read: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """What messages of this envelope have and `target` does not carry, each with a sentence.

        Args:
            target: the envelope that is written.
            settings: those of its writing.
            read: settings for reading messages of this envelope.
        """
        follows = target.encode_settings.following(self, read or {})
        limits = target.limits_under({**follows, **settings})
        had = self.carries | self.partly.keys() | self.brings
        lost = {}
        for name in CAPABILITIES:
            if name not in had:
                continue
            if name in target.partly:
                lost[name] = target.partly[name]
            elif name in limits:
                lost[name] = limits[name]
            elif name not in target.carries:
                lost[name] = f"{target.name} cannot carry: {CAPABILITIES[name]}"
            elif name in MOVED_APART and self.moves_apart and not target.moves_apart:
                lost[name] = MOVED_APART[name]
        return lost
