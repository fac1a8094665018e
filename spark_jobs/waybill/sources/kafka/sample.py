"""A look at topics: how much there is, and the first messages of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.plan import plan
from waybill.sources.kafka.reader import RangeOptions, read_ranges
from waybill.sources.sample import Sample

if TYPE_CHECKING:
    from waybill.spec.endpoints import KafkaSource

STALL = 10.0
"""Seconds to wait for brokers that say nothing; a person waits, too."""


def sample_topics(source: KafkaSource, messages: int) -> Sample:
    """Look at topics as a full run would; errors as `waybill.sources.sampling.sample_of`."""
    properties = named_properties(source.connection)
    cluster = Cluster(properties)
    cluster.reach()
    planned = plan(source, cluster, afresh=True)
    spans = [span for span in planned.ranges if span.offsets]
    share = -(-messages // max(1, len(spans)))
    first = [span._replace(end=min(span.end, span.start + share)) for span in spans]
    topics, partitions = len(planned.ids), len(planned.ranges)
    text = (
        f"{counted(topics, 'topic')} with {counted(partitions, 'partition')} and "
        f"{counted(planned.offsets, 'offset')} at {cluster.servers}"
    )
    held = sum(planned.held.values())
    belong = counted(held, "offset belongs", "offsets belong")
    notes = [f"{belong} to transactions that are open"] if held else []
    details = {"topics": topics, "partitions": partitions, "offsets": planned.offsets}
    without_headers = source.unreadable_headers == "leave_out"
    reading = RangeOptions(properties, "", STALL, without_headers=without_headers)
    batches = read_ranges(first[:messages], reading, lambda span, told: None)
    return Sample(bool(planned.offsets), text, details, notes, batches)
