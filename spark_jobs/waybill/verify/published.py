"""What was published, compared with what it was made of: files by checksum, topics by message.

The record of what was sent has the checksum of every file, and the offsets and the number of
messages of every part in a topic. A topic is read back where the record says; each message has to
be there as often as the outbox has it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, DifferenceError
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light
from waybill.storage.file_store import open_store
from waybill.verify.topic_reading import SIDES, available, sides_of, topic_messages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Lake
    from waybill.spec.endpoints import KafkaTarget
    from waybill.spec.migration import Migration

_FILES = "place string, right boolean"


class TargetResult(NamedTuple):
    """What was found about one target.

    Attributes:
        target: its name.
        parts: how many were compared.
        messages: how many these hold, by the record of what was sent.
        differing: messages that are not there, or more often than they were sent; files that are
            gone or have other bytes.
        expired: parts of which the brokers, or upkeep in the outbox, have deleted messages since.
        others: messages between them that somebody else wrote.
        sentence: the first places that differ.
    """

    target: str
    parts: int
    messages: int
    differing: int
    expired: int
    others: int
    sentence: str


class _RecordedPart(NamedTuple):
    """A part as the record has it."""

    batch: str
    place: str
    messages: int
    sha256: str


def verify_published(
    spec: Migration, lake: Lake, progress: Callable[..., Any] = lambda *_: None
) -> list[TargetResult]:
    """Compare what every target holds with what was sent to it.

    Raises:
        ConfigurationError: nothing was published yet, or a connection is missing.
        UnreachableError: the brokers do not answer.
        SourceError: a topic ends before what was sent to it.
    """
    published = lake.log("published")
    if not lake.exists(published):
        again = spec.command("run", "FILE")
        message = f"migration {spec.name} has published nothing yet: run it first, `{again}`"
        raise ConfigurationError(message, code=Code.OPTION)
    results = []
    for target in spec.publish:
        columns = ["batch", "place", "messages", "sha256"]
        found = lake.scan(published, columns, {"target": [target.label]})
        parts = [_RecordedPart(*(row[name] for name in columns)) for row in found]
        if target.kafka is not None:
            result = _topic(lake, target.label, target.kafka, parts)
        else:
            result = _files(lake, target.label, parts)
        progress("verify: %s: %s", target.label, summary(result))
        results.append(result)
    return results


def summary(result: TargetResult) -> str:
    """What was found about a target, in a line."""
    found = f"{result.differing} differ" if result.differing else "none differs"
    gone = f", {counted(result.expired, 'part')} expired" if result.expired else ""
    reason = f": {result.sentence}" if result.sentence else ""
    where = f"{counted(result.messages, 'message')} in {counted(result.parts, 'part')}"
    return f"{where}, {found}{gone}{reason}"


def check_published(results: Sequence[TargetResult]) -> None:
    """Stop if anything differs.

    Raises:
        DifferenceError: names the targets.
    """
    found = [result for result in results if result.differing]
    if found:
        sentences = "; ".join(f"{result.target}: {result.sentence}" for result in found)
        message = (
            f"what was published is not what was sent ({sentences}): somebody else has changed it; "
            "publish under another path or to another topic to have it whole again"
        )
        raise DifferenceError(message, code=Code.PUBLISHED_CHANGED)


def _files(lake: Lake, label: str, parts: Sequence[_RecordedPart]) -> TargetResult:
    """Files are whole if they have the bytes that were written."""
    known = {part.place: part.sha256 for part in parts}
    places = sorted(known)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        numbers: list[Any] = [n for batch in batches for n in batch.column(0).to_pylist()]
        for number in numbers:
            folder, _, name = places[number].rpartition("/")
            content = open_store(folder).read(name)
            right = content is not None
            right = right and hashlib.sha256(content or b"").hexdigest() == known[places[number]]
            yield pa.RecordBatch.from_pydict({"place": [places[number]], "right": [right]})

    wrong: list[str] = []
    if places:
        numbers = lake.spark.range(0, len(places), 1, min(len(places), 64))
        with unwrapped():
            rows = numbers.mapInArrow(light(read), _FILES).where("NOT right").collect()
        wrong = sorted(row[0] for row in rows)
    sentence = f"{wrong[0]} is gone or has other bytes" if wrong else ""
    messages = sum(part.messages for part in parts)
    return TargetResult(label, len(places), messages, len(wrong), 0, 0, sentence)


def _topic(
    lake: Lake, label: str, target: KafkaTarget, parts: Sequence[_RecordedPart]
) -> TargetResult:
    """A topic is whole if it has every message as often as the outbox."""
    parts, deleted = _of_outbox(lake, label, parts)
    whole, expired = available(target.connection, [json.loads(part.place) for part in parts])
    messages = sum(part.messages for part in parts)
    if expired or not whole:
        # The record of parts does not show which single messages the brokers have deleted.
        sentence = "the brokers have deleted messages since" if expired else ""
        return TargetResult(label, 0, messages, 0, expired, 0, sentence)
    batches = {part.batch for part in parts} if deleted else None
    sides = _outbox(lake, label, batches).unionByName(
        topic_messages(lake, target.connection, whole, target.origin_headers)
    )
    with unwrapped():
        totals = (
            sides.groupBy("digest")
            .agg(F.sum("sent").alias("sent"), F.sum("there").alias("there"))
            .agg(
                F.sum(F.greatest(F.col("sent") - F.col("there"), F.lit(0))),
                F.sum(F.expr("if(sent > 0, greatest(there - sent, 0), 0)")),
                F.sum(F.expr("if(sent = 0, there, 0)")),
            )
            .collect()[0]
        )
    lacking, doubled, others = (int(total or 0) for total in totals)
    findings = []
    if lacking:
        findings.append(f"{counted(lacking, 'message is', 'messages are')} not in {target.topic}")
    if doubled:
        findings.append(f"{counted(doubled, 'message is', 'messages are')} there more than once")
    if others:
        findings.append(f"{counted(others, 'message')} of others between them")
    if deleted:
        findings.append("the outbox has no longer what the expired parts were made of (retention)")
    return TargetResult(
        label, len(parts), messages, lacking + doubled, deleted, others, ", ".join(findings)
    )


def _of_outbox(
    lake: Lake, label: str, parts: Sequence[_RecordedPart]
) -> tuple[Sequence[_RecordedPart], int]:
    """The parts whose messages are all in the outbox, and how many others there are.

    They are all there unless upkeep has deleted some.
    """
    if lake.kept_since(lake.log("outbox")) is None:
        return parts, 0
    counts = _sent(lake, label).groupBy("batch").count().collect()
    there = {row["batch"]: row["count"] for row in counts}
    sent = Counter[str]()
    for part in parts:
        sent[part.batch] += part.messages
    whole = [part for part in parts if there.get(part.batch, 0) == sent[part.batch]]
    return whole, len(parts) - len(whole)


def _sent(lake: Lake, label: str) -> DataFrame:
    """Every message that was sent to a target, by what the cursor of publishing has passed."""
    last = lake.last(lake.log("published"), "publish")
    upto = None if last is None else last.cursor["outbox"]
    rows = lake.increment(lake.log("outbox"), None, upto)
    return rows.where((F.col("target") == label) & (F.col("outcome") == "ok"))


def _outbox(lake: Lake, label: str, batches: set[str] | None = None) -> DataFrame:
    """The digests of the messages that were sent to a target.

    Args:
        lake: the lake.
        label: the target's name.
        batches: of these only.
    """
    rows = _sent(lake, label)
    if batches is not None:
        rows = rows.where(F.col("batch").isin(batches))

    def digests(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield sides_of(batch, 1, 0)

    return rows.select("key", "value", "headers").mapInArrow(light(digests), SIDES)
