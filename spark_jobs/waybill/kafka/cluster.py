"""Questions to a cluster, each answered, or refused in one sentence, within its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec, TopicDescription

from waybill.errors import UnreachableError
from waybill.kafka.admin_clients import admin_client
from waybill.kafka.failures import MOVING, code_of, failure, permanent

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from waybill.errors import WaybillError

T = TypeVar("T")

Place = tuple[str, int]
"""A partition: topic and number."""

DOUBT = 1.5
"""Seconds that a telling error may be that of one broker, while another one answers."""

PAUSE = 0.2
"""Seconds before a partition whose leader changes is asked again."""

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic where the brokers know none."""


class Topic(NamedTuple):
    """A topic as the cluster describes it.

    Attributes:
        name: of the topic.
        id: changes when a topic is deleted and made again; empty where the brokers know none.
        partitions: numbers of its partitions, sorted.
    """

    name: str
    id: str
    partitions: list[int]


class Cluster:
    """A cluster of Kafka, asked as an administrator does.

    Args:
        properties: of the client.
        patience: seconds to wait for an answer.

    Raises:
        ConfigurationError: a property is wrong.
    """

    def __init__(self, properties: Mapping[str, str], patience: float = 8.0) -> None:
        self.servers = properties.get("bootstrap.servers", "")
        self._patience = patience
        self._heard: list[KafkaError] = []
        try:
            options: Any = {"error_cb": self._heard.append}
            self._admin = admin_client(self, {**properties, **options})
        except KafkaException as error:
            raise self.failure(error.args[0], "the connection") from error

    @property
    def admin(self) -> AdminClient:
        """The client, for what this class has no word for; wait for it with `answer`."""
        return self._admin

    def reach(self, topics: Iterable[str] = ()) -> None:
        """See that a server answers, and that topics are there; errors as `answer`."""
        asked = self._admin.describe_cluster(request_timeout=self._patience)
        self.answer(asked, "the cluster")
        self.describe(topics)

    def topic_names(self) -> list[str]:
        """Every topic that the user may see, sorted; errors as `answer`."""
        self.reach()
        try:
            return sorted(self._admin.list_topics(timeout=self._patience).topics)
        except KafkaException as error:
            raise self.failure(error.args[0], "the list of topics") from error

    def describe(self, topics: Iterable[str]) -> list[Topic]:
        """The topics, in the order given; errors as `answer`."""
        names = list(dict.fromkeys(topics))
        if not names:
            return []
        wanted = TopicCollection(names)
        asked = self._admin.describe_topics(wanted, request_timeout=self._patience)
        found = []
        for name in names:
            about: TopicDescription = self.answer(asked[name], f"the topic {name}")
            known = str(about.topic_id)
            partitions = sorted(p.id for p in about.partitions)
            found.append(Topic(name, "" if known == NO_ID else known, partitions))
        return found

    def earliest(self, partitions: Iterable[Place]) -> dict[Place, int]:
        """The first offset of each partition; errors as `answer`."""
        return self.offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, partitions: Iterable[Place], stable: bool = True) -> dict[Place, int]:
        """The offset after the last message of each partition; errors as `answer`.

        Args:
            partitions: topic and number.
            stable: the last stable offset: what follows it is part of a transaction that is open.
        """
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self.offsets(partitions, latest, level)

    def first_at(self, partitions: Iterable[Place], milliseconds: int) -> dict[Place, int]:
        """The first offset as new as a time (since 1970), -1 where there is none; see `answer`."""
        return self.offsets(partitions, OffsetSpec.for_timestamp(milliseconds))

    def offsets(
        self,
        partitions: Iterable[Place],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[Place, int]:
        """An offset of each partition of topics; errors as `answer`.

        A partition whose leader changes is asked again, as long as the cluster may take to answer.
        """
        wanted = {TopicPartition(topic, number): which for topic, number in partitions}
        limit = time.monotonic() + self._patience
        found: dict[Place, int] = {}
        while wanted:
            asked = self._admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=self._patience
            )
            for where, future in asked.items():
                try:
                    answered = self.answer(future, f"offsets of the topic {where.topic}")
                except UnreachableError as error:
                    if code_of(error) not in MOVING or time.monotonic() > limit:
                        raise
                    continue
                found[where.topic, where.partition] = answered.offset
                del wanted[where]
            if wanted:
                time.sleep(PAUSE)
        return found

    def answer(self, future: Future[T], about: str) -> T:
        """Wait for what was asked.

        Args:
            future: what the client gave for it.
            about: what it is about, for an error.

        Raises:
            ConfigurationError: it is not there, or the user may not know or log in.
            UnreachableError: no server answers in time.
        """
        limit = time.monotonic() + self._patience + 1
        since: float | None = None
        while True:
            try:
                found = future.result(0.05)
            except KafkaException as error:
                self._admin.poll(0)
                raise self.failure(error.args[0], about) from error
            except NotYet:
                self._admin.poll(0)
            else:
                # What one broker said before another one answered is no reason for what comes.
                self._heard.clear()
                return found
            now = time.monotonic()
            if since is None and any(permanent(error) for error in self._heard):
                since = now
            if now > limit or (since is not None and now > since + DOUBT):
                raise self.failure(KafkaError(KafkaError._TIMED_OUT), about)

    def failure(self, error: KafkaError, about: str) -> WaybillError:
        """An error of ours for one of Kafka's, with what was heard meanwhile."""
        vague = error.code() in (
            KafkaError._TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
        )
        return failure(error, f"{about} at {self.servers}", self._heard if vague else ())
