"""Properties of Kafka clients, from connections as Airflow keeps them or from the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from waybill.connections import Connection, find_connection, variable_of
from waybill.errors import Code, ConfigurationError

DEFAULT_CONNECTION = "kafka_default"

DEFAULTS = {
    "client.id": "waybill",
    # Errors are raised as exceptions; the client writes to nobody's stderr.
    "log_level": "2",
    # A topic that is not there is an error after this time, not after 30 s.
    "topic.metadata.propagation.max.ms": "3000",
    # A broker that comes back is found within a second, not ten.
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}
"""What every client gets unless the connection says otherwise."""

BARE = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
"""Properties that variables such as KAFKA_BOOTSTRAP_SERVERS stand for, where the connection
`kafka_default` is not there."""

_SASL = ("SASL_PLAINTEXT", "SASL_SSL")


def properties(connection: Connection) -> dict[str, str]:
    """What a client of librdkafka is made with.

    `extra` of the connection holds properties by librdkafka's names, as Airflow's Kafka provider
    keeps them. Where it lacks them, host and port are the first server, login and password the
    user; a user without `security.protocol` logs in over TLS.

    Raises:
        ConfigurationError: the servers, or how to log in, are missing.
    """
    # Airflow's provider keeps names of its own callbacks there, too.
    given = {key: value for key, value in connection.extra.items() if not key.endswith("_cb")}
    found = {**DEFAULTS, **{key: _text(value) for key, value in given.items()}}
    if connection.host:
        port = f":{connection.port}" if connection.port else ""
        found.setdefault("bootstrap.servers", f"{connection.host}{port}")
    if not found.get("bootstrap.servers"):
        message = (
            f"the connection {connection.name} names no servers: give it bootstrap.servers in "
            "extra, or host and port"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    if connection.login:
        found.setdefault("sasl.username", connection.login)
        found.setdefault("sasl.password", connection.password)
    if "sasl.username" in found:
        _check_login(connection.name, found)
    return found


def _check_login(name: str, found: dict[str, str]) -> None:
    """See to it that a user and a password are not left unused in silence."""
    protocol = found.setdefault("security.protocol", "SASL_SSL").upper()
    if protocol not in _SASL:
        message = (
            f"the connection {name} has a user and security.protocol {protocol}, which asks for "
            f"none: write one of {', '.join(_SASL)}, or take the user out"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    if not found.keys() & {"sasl.mechanism", "sasl.mechanisms"}:
        message = (
            f"the connection {name} has a user and does not say how to log in: add sasl.mechanism "
            "(SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN) to its extra"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def named_properties(name: str = DEFAULT_CONNECTION) -> dict[str, str]:
    """The properties of a connection by name.

    Where the environment has no connection `kafka_default`, KAFKA_BOOTSTRAP_SERVERS and the other
    variables of `BARE` stand for it.

    Raises:
        ConfigurationError: there is no such connection, or it lacks something.
    """
    connection = find_connection(name)
    if connection is None and name == DEFAULT_CONNECTION:
        connection = _bare(name)
    if connection is None:
        message = f"there is no connection {name}: add it in Airflow, or set {variable_of(name)}"
        message += " to it as JSON"
        if name == DEFAULT_CONNECTION:
            message += ", or KAFKA_BOOTSTRAP_SERVERS to host and port"
        raise ConfigurationError(message, code=Code.CONNECTION_MISSING)
    return properties(connection)


def _bare(name: str) -> Connection | None:
    given = {key: os.environ.get(f"KAFKA_{key.replace('.', '_').upper()}", "") for key in BARE}
    if not given["bootstrap.servers"]:
        return None
    return Connection(name, "kafka", extra={key: text for key, text in given.items() if text})


def reach(properties: Mapping[str, str], topics: Iterable[str] = (), patience: float = 8.0) -> None:
    """Find out whether a cluster can be worked with, before any work.

    Args:
        properties: of the client.
        topics: names of topics that must be there, and that the user must be allowed to see.
        patience: seconds to wait for an answer.

    Raises:
        ConfigurationError: the address, the login, a topic or a right is wrong.
        UnreachableError: no server answers.
    """
    from waybill.kafka.cluster import Cluster

    Cluster(properties, patience).reach(topics)
