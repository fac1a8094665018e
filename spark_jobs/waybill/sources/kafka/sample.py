"""A look at topics: how much there is, and the first messages of each partition."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.plan import plan
from waybill.sources.kafka.reader import RangeOptions, read_ranges
from waybill.sources.sample import SourceSample

if TYPE_CHECKING:
    from waybill.sources.kafka.positions import OffsetRange
    from waybill.spec.endpoints import KafkaSource

STALL = 10.0
"""Seconds to wait for brokers that say nothing; a person waits, too."""


def sample_topics(source: KafkaSource, messages: int, last: int = 0) -> SourceSample:
    """Look at topics as a full run would; errors as `waybill.sources.sampling.sample_of`.

    Args:
        source: the topics.
        messages: how many are wanted from the beginnings of the partitions.
        last: how many are wanted from their ends. The details say where these begin (`tails`), by
            topic and partition.
    """
    properties = named_properties(source.connection)
    cluster = Cluster(properties)
    cluster.reach()
    planned = plan(source, cluster, afresh=True)
    spans = [span for span in planned.ranges if span.offsets]
    share = -(-messages // max(1, len(spans)))
    first = [span._replace(end=min(span.end, span.start + share)) for span in spans][:messages]
    ends = _ends(spans, share, last)
    topics, partitions = len(planned.ids), len(planned.ranges)
    text = (
        f"{counted(topics, 'topic')} with {counted(partitions, 'partition')} and "
        f"{counted(planned.offsets, 'offset')} at {cluster.servers}"
    )
    held = sum(planned.held.values())
    belong = counted(held, "offset belongs", "offsets belong")
    notes = [f"{belong} to transactions that are open"] if held else []
    details: dict[str, Any] = {
        "topics": topics,
        "partitions": partitions,
        "offsets": planned.offsets,
    }
    if last:
        details["tails"] = {(span.topic, span.partition): span.start for span in ends}
    without_headers = source.unreadable_headers == "leave_out"
    reading = RangeOptions(properties, "", STALL, without_headers=without_headers)
    # One after the other: a reader is at one place of a partition.
    batches = chain.from_iterable(
        read_ranges(spans, reading, lambda span, read: None) for spans in (first, ends) if spans
    )
    return SourceSample(bool(planned.offsets), text, details, notes, batches)


def _ends(spans: list[OffsetRange], share: int, last: int) -> list[OffsetRange]:
    """The ends of ranges behind what is read of their beginnings."""
    if not last:
        return []
    at_end = -(-last // max(1, len(spans)))
    ends = [
        span._replace(start=max(span.start + share, span.end - at_end)) for span in spans[:last]
    ]
    return [span for span in ends if span.offsets > 0]
