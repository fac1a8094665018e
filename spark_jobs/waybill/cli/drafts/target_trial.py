"""What becomes of a sample in a target: what is refused, what is lost, what files have to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waybill.envelopes import registry
from waybill.errors import ConfigurationError, Refusal, WaybillError
from waybill.inprocess.counts import Account
from waybill.inprocess.job import checked_settings
from waybill.row_times.zoned import count_zones

if TYPE_CHECKING:
    from waybill.cli.drafts.reading import SourceReading
    from waybill.protocol import Envelope
    from waybill.records import Change


@dataclass
class TargetTrial:
    """What came of writing a sample.

    Attributes:
        envelope: the target's.
        declared: what it cannot carry, by capability.
        messages: how many were written.
        binary: how many of them a line cannot hold.
        headers: how many have headers.
        tombstones: how many have no value.
        refused: changes that cannot be written, by kind.
        first: why the first cannot.
        losses: what was lost, by capability.
        made_ids: ids that had to be made.
    """

    envelope: Envelope
    declared: dict[str, str]
    messages: int = 0
    binary: int = 0
    headers: int = 0
    tombstones: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    first: str = ""
    losses: Counter[str] = field(default_factory=Counter)
    made_ids: dict[str, int] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        """The layout of files that holds its messages whole."""
        # Where every message needs its headers, values alone cannot be read.
        whole = self.envelope.is_binary or self.binary or self.headers == self.messages > 0
        return "parquet" if whole else "lines"


def try_target(
    reading: SourceReading, name: str, settings: Mapping[str, Any], changes: Sequence[Change]
) -> TargetTrial:
    """Write the changes of a sample to nowhere.

    Args:
        reading: how they were read.
        name: the target's envelope.
        settings: those of its writing.
        changes: them.

    Raises:
        ConfigurationError: there is no such envelope, it is not written, or a setting is wrong.
    """
    envelope = registry.get(name)
    if envelope.encoder is None:
        raise ConfigurationError(f"{name!r} cannot be written; see `waybill envelopes`")
    source = reading.envelope
    read = checked_settings(source.decode_settings, reading.all_settings(), source, "from")
    model = checked_settings(envelope.encode_settings, dict(settings), envelope, "to")
    encoder = envelope.encoder(model.for_source(source, read).for_trial())
    found = TargetTrial(envelope, source.losses_to(envelope, settings, reading.settings))
    account = Account()
    for change in changes:
        if change.half is not None:
            continue
        losses: list[str] = []
        try:
            written = encoder.encode(change, losses)
            if written:
                count_zones(change, losses)
        except Refusal as refusal:
            found.refused[refusal.kind] += 1
            found.first = found.first or refusal.sentence
        except WaybillError as error:
            raise ConfigurationError(f"{name}: {error.sentence}") from error
        else:
            found.messages += len(written)
            found.headers += sum(message.headers is not None for message in written)
            found.tombstones += sum(message.value is None for message in written)
            found.binary += sum(not _is_line(message.value) for message in written)
        account.tell(losses, change.message.topic, change.message.partition)
    found.losses = account.losses
    found.made_ids = account.made_ids.counts()
    return found


def _is_line(value: bytes | None) -> bool:
    """Whether a line can hold a value."""
    if value is None:
        return True
    try:
        return "\n" not in value.decode()
    except UnicodeDecodeError:
        return False
