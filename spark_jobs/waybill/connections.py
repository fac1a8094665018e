"""Connections by name: where servers are and who asks, kept outside of every migration file.

A connection is what Airflow calls one, and outside of Airflow it is given the same way: the
environment variable `AIRFLOW_CONN_<NAME>` holds it as JSON or as a URI. In a task the plugin puts
those that a migration names into the environment, whatever backend Airflow keeps them in; a server
with many threads gives them to one piece of work (`given`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from waybill.errors import Code, ConfigurationError

PREFIX = "AIRFLOW_CONN_"
"""What the names of the environment variables begin with."""

_NONE: Mapping[str, str] = MappingProxyType({})
_given: ContextVar[Mapping[str, str]] = ContextVar("waybill_connections", default=_NONE)


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection; what is secret in it is not shown by `repr`.

    Attributes:
        name: what migrations call it.
        kind: Airflow's connection type, e.g. `kafka` or `aws`.
        host: one host, or what the kind understands by it.
        port: of the host.
        login: user name or key id.
        password: the secret to it.
        extra: everything else, by the names that the kind gives it.
        schema: what Airflow calls the schema: the database, of a connection to one.
    """

    name: str
    kind: str = ""
    host: str = ""
    port: int | None = None
    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    schema: str = ""


def variable_of(name: str) -> str:
    """The environment variable of a connection."""
    return f"{PREFIX}{name.upper()}"


@contextmanager
def given(connections: Mapping[str, str]) -> Iterator[None]:
    """Let connections be found inside of the block, and by nobody else in the process.

    Args:
        connections: JSON or URIs by name; they go before those of the environment.
    """
    token = _given.set(connections)
    try:
        yield
    finally:
        _given.reset(token)


def find_connection(name: str) -> Connection | None:
    """The connection of that name, None where there is none.

    Raises:
        ConfigurationError: it is there and cannot be read.
    """
    text = (_given.get().get(name) or os.environ.get(variable_of(name), "")).strip()
    if not text:
        return None
    try:
        return _from_json(name, text) if text.startswith("{") else _from_uri(name, text)
    except (ValueError, TypeError, AttributeError):
        # The text is not shown: it holds the password.
        message = (
            f"the connection {name} in {variable_of(name)} cannot be read: write it as JSON, e.g. "
            '{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:9092"}}, or as a URI'
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID) from None


def get_connection(name: str) -> Connection:
    """The connection of that name.

    Raises:
        ConfigurationError: there is none, or it cannot be read.
    """
    found = find_connection(name)
    if found is None:
        message = (
            f"there is no connection {name}: add it in Airflow, or set {variable_of(name)} to it "
            "as JSON"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_MISSING)
    return found


def _from_json(name: str, text: str) -> Connection:
    data = json.loads(text)
    extra = data.get("extra") or {}
    if isinstance(extra, str):
        extra = json.loads(extra)
    port = data.get("port")
    return Connection(
        name,
        data.get("conn_type") or "",
        data.get("host") or "",
        None if port in (None, "") else int(port),
        data.get("login") or "",
        data.get("password") or "",
        dict(extra),
        data.get("schema") or "",
    )


def _from_uri(name: str, text: str) -> Connection:
    parts = urlsplit(text)
    if not parts.scheme:
        raise ValueError(name)
    extra: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "__extra__" in extra:
        extra = dict(json.loads(extra["__extra__"]))
    return Connection(
        name,
        parts.scheme,
        unquote(parts.hostname or ""),
        parts.port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        extra,
        unquote(parts.path.strip("/")),
    )
