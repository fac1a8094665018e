"""Errors of Kafka as ours: what happened, in one sentence, and whether it may pass by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException

from waybill.errors import Code, ConfigurationError, UnreachableError, WaybillError

_LOGIN = "fix login, password, sasl.mechanism and security.protocol of the connection"
_TLS = "fix security.protocol and the ssl.* properties of the connection"
_TOPIC = "make the topic, or fix its name in the migration"
_RIGHT = "give the user of the connection the right, or take another connection"
_SERVERS = (
    "see that the brokers run, or fix bootstrap.servers and security.protocol of the connection"
)

PERMANENT = {
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError.ILLEGAL_SASL_STATE: _LOGIN,
    KafkaError._SSL: _TLS,
    KafkaError.SECURITY_DISABLED: _TLS,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _TOPIC,
    KafkaError._UNKNOWN_TOPIC: _TOPIC,
    KafkaError._UNKNOWN_PARTITION: _TOPIC,
    KafkaError.TOPIC_EXCEPTION: _TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _RIGHT,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _RIGHT,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _RIGHT,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _RIGHT,
    KafkaError._INVALID_ARG: "fix this property of the connection",
    KafkaError._UNSUPPORTED_FEATURE: "take a broker that has it",
    KafkaError.UNSUPPORTED_VERSION: "take a newer broker",
    KafkaError.POLICY_VIOLATION: "ask who runs the brokers",
    KafkaError.INVALID_CONFIG: "fix the settings",
    KafkaError.INVALID_REPLICATION_FACTOR: "fix the settings",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "fix the settings",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise message.max.bytes of the connection and of the brokers",
    KafkaError.RECORD_LIST_TOO_LARGE: "raise the size that the brokers allow",
    KafkaError.INVALID_TIMESTAMP: "raise message.timestamp.after.max.ms or "
    "message.timestamp.before.max.ms of the topic",
    KafkaError.INVALID_RECORD: "see what the topic asks of its records, such as a key where it is "
    "compacted",
}
"""What does not heal by waiting, and what does help."""

MOVING = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
)
"""A partition changes its leader, e.g. because a broker restarts: over in a moment."""

_VAGUE = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
_NOISE = re.compile(
    r" \(after \d+ms in state [^)]*\)| \(broker \d+ PID\{[^}]*\}[^)]*\)"
    r"|: current transaction must be aborted"
)


def permanent(error: KafkaError) -> bool:
    """Whether waiting does not help."""
    return error.code() in PERMANENT or _handshake(error)


def code_of(error: WaybillError) -> int | None:
    """The code of what Kafka said, None where Kafka said nothing."""
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def failure(error: KafkaError, about: str, heard: Iterable[KafkaError] = ()) -> WaybillError:
    """An error of ours for one of Kafka's.

    Args:
        error: what a call ended with.
        about: what was wanted from whom, e.g. `the topic shop at host:9092`.
        heard: what the client logged meanwhile, oldest first; it names the cause where the call's
            own error is vague.
    """
    errors = [*heard, error]
    cause = next((e for e in errors if permanent(e)), None)
    if cause is None:
        plain = [e for e in errors if e.code() not in (*_VAGUE[::2], KafkaError._NOOP)]
        cause = plain[0] if error.code() in _VAGUE and plain else error
    text = f"{about}: {sentence(cause)}"
    if _handshake(cause):
        return ConfigurationError(f"{text}: {_TLS}", code=Code.KAFKA_REFUSED)
    if cause.code() in PERMANENT:
        return ConfigurationError(f"{text}: {PERMANENT[cause.code()]}", code=Code.KAFKA_REFUSED)
    return UnreachableError(f"{text}: {_SERVERS}", code=Code.KAFKA_UNREACHABLE)


def sentence(error: KafkaError) -> str:
    """What an error says, without what only the client's authors want to know."""
    text = _NOISE.sub("", error.str() or error.name())
    return " ".join(text.split()).rstrip(".: ")


def _handshake(error: KafkaError) -> bool:
    """Whether client and listener do not agree about TLS, which appears as a lost connection."""
    return error.code() == KafkaError._TRANSPORT and "SSL handshake failed" in error.str()
