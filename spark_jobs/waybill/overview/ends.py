"""Where messages of a migration come from and go to, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.overview.schema import EndpointPlace

if TYPE_CHECKING:
    from waybill.spec.endpoints import Source, Target
    from waybill.spec.migration import Migration


def source_and_targets(spec: Migration) -> tuple[EndpointPlace, list[EndpointPlace]]:
    """Where messages of a migration come from, and where they go."""
    source = EndpointPlace(spec.source.envelope, spec.source.envelope, _place_of(spec.source))
    return source, [EndpointPlace(t.label, t.envelope, _place_of(t)) for t in spec.publish]


def _place_of(end: Source | Target) -> str:
    """Where the messages of a source or a target are, for people."""
    if end.files is not None:
        return end.files.path
    if end.kafka is None:
        return ""
    topic = getattr(end.kafka, "topic", None)
    if topic is not None:
        return f"topic {topic}"
    pattern = getattr(end.kafka, "pattern", None)
    if pattern is not None:
        return f"topics like {pattern}"
    return f"topics {', '.join(getattr(end.kafka, 'topics', []))}"
