"""What the page of formats shows: what messages of one lose when they are written in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.envelopes import registry
from waybill.protocol import CAPABILITIES

if TYPE_CHECKING:
    from waybill.protocol import Envelope


class Loss(NamedTuple):
    """What is not carried: its name, what it is, and why it is lost."""

    name: str
    what: str
    why: str


class FormatsView(NamedTuple):
    """The page.

    Attributes:
        sources: names of the formats that are read.
        targets: names of those that are written.
        source: the chosen one; empty for none yet.
        target: likewise.
        titles: what the chosen ones are.
        carried: what messages of the source have and the target carries, in words.
        losses: what they have and it does not carry.
        not_written: fields of the target that its own tool writes and Waybill does not.
        commands: print more.
    """

    sources: list[str]
    targets: list[str]
    source: str
    target: str
    titles: list[str]
    carried: list[str]
    losses: list[Loss]
    not_written: dict[str, str]
    commands: list[str]


def formats_view(source: str, target: str) -> FormatsView:
    """The page for two formats; a name that is none counts as not chosen."""
    envelopes = {envelope.name: envelope for envelope in registry.all_envelopes()}
    reads = [name for name, envelope in envelopes.items() if envelope.decoder is not None]
    writes = [name for name, envelope in envelopes.items() if envelope.encoder is not None]
    nothing = FormatsView(reads, writes, "", "", [], [], [], {}, [])
    if source not in reads or target not in writes:
        return nothing._replace(
            source=source if source in reads else "", target=target if target in writes else ""
        )
    read, written = envelopes[source], envelopes[target]
    lost = read.losses_to(written, {})
    return nothing._replace(
        source=source,
        target=target,
        titles=[read.title, written.title],
        carried=[CAPABILITIES[name] for name in _had(read) if name not in lost],
        losses=[
            Loss(name.replace("_", " "), CAPABILITIES[name], why) for name, why in lost.items()
        ],
        not_written=dict(written.not_written),
        commands=[f"waybill envelopes {name}" for name in dict.fromkeys((source, target))],
    )


def _had(envelope: Envelope) -> list[str]:
    had = envelope.carries | envelope.partly.keys() | envelope.brings
    return [name for name in CAPABILITIES if name in had]
