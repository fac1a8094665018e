"""What a cluster is asked, where the answer does not depend on a server."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from waybill.errors import ConfigurationError, UnreachableError
from waybill.kafka import cluster as module
from waybill.kafka.cluster import Cluster

ASKED = r"^WB-800[12]: offsets of the topic t at h:1: \w"


class Admin:
    """Gives one answer after the other; the last one for ever."""

    def __init__(self, *answers: dict[int, KafkaError | int]) -> None:
        self.answers = list(answers)
        self.asked: list[set[int]] = []

    def list_offsets(self, wanted: dict[TopicPartition, object], **_: object) -> object:
        numbers = {where.partition for where in wanted}
        self.asked.append(numbers)
        given = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return {TopicPartition("t", number): future(given[number]) for number in numbers}

    def poll(self, _: float) -> None:
        return


def future(answer: KafkaError | int) -> Future[ListOffsetsResultInfo]:
    made: Future[ListOffsetsResultInfo] = Future()
    if isinstance(answer, KafkaError):
        made.set_exception(KafkaException(answer))
    else:
        made.set_result(ListOffsetsResultInfo(answer, -1, -1))
    return made


def asking(monkeypatch: pytest.MonkeyPatch, admin: Admin, patience: float = 8.0) -> Cluster:
    monkeypatch.setattr(module, "admin_client", lambda *_: admin)
    return Cluster({"bootstrap.servers": "h:1"}, patience)


def test_a_partition_whose_leader_changes_is_asked_again(monkeypatch):
    epoch = KafkaError(KafkaError.UNKNOWN_LEADER_EPOCH)
    leader = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    admin = Admin({0: epoch, 1: 7, 2: leader}, {0: 5, 2: leader}, {2: 6})
    found = asking(monkeypatch, admin).earliest([("t", 0), ("t", 1), ("t", 2)])
    assert found == {("t", 0): 5, ("t", 1): 7, ("t", 2): 6}
    assert admin.asked == [{0, 1, 2}, {0, 2}, {2}], "what is known is not asked again"


def test_a_leader_that_does_not_come(monkeypatch):
    admin = Admin({0: KafkaError(KafkaError.LEADER_NOT_AVAILABLE)})
    with pytest.raises(UnreachableError, match=ASKED):
        asking(monkeypatch, admin, 0.5).latest([("t", 0)])
    assert len(admin.asked) > 1


def test_what_a_broker_said_before_a_good_answer_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "DOUBT", 0.1)
    cluster = asking(monkeypatch, Admin({}))
    cluster._heard.append(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    assert cluster.answer(future(1), "the cluster").offset == 1
    slow: Future[int] = Future()
    timer = threading.Timer(0.5, slow.set_result, [2])
    timer.start()
    assert cluster.answer(slow, "the topic t") == 2
    timer.join()
    cluster._heard.append(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(ConfigurationError, match="the topic t at h:1"):
        cluster.answer(Future(), "the topic t")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError),
        (KafkaError._TRANSPORT, UnreachableError),
    ],
)
def test_any_other_error_is_reported_at_once(monkeypatch, code, kind):
    admin = Admin({0: KafkaError(code)})
    with pytest.raises(kind, match=ASKED):
        asking(monkeypatch, admin).latest([("t", 0)])
    assert len(admin.asked) == 1
