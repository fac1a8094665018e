"""What is told of an error of PostgreSQL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from waybill.connections import Connection
from waybill.errors import ConfigurationError, UnreachableError
from waybill.verify.postgresql import PostgreSQL

QUERY = "LINE 1: ... WHERE (id) IN (('7'::bigint)"


class RefusedError(psycopg.errors.UndefinedFunction):
    """One of the server, which quotes the query."""

    diag: Any = SimpleNamespace(message_primary="operator does not exist:\n  text = bigint")


class LostError(psycopg.OperationalError):
    """One of the driver, which knows nothing of the server's."""

    diag: Any = SimpleNamespace(message_primary=None)


def session() -> PostgreSQL:
    return PostgreSQL(Connection("source", "postgres", "db", 5432, "reader", schema="shop"))


def test_the_query_is_not_told():
    with pytest.raises(ConfigurationError) as error, session()._plainly():
        raise RefusedError(f"operator does not exist: text = bigint\n{QUERY}")
    assert str(error.value).endswith("could not be read: operator does not exist: text = bigint")


def test_what_the_driver_says_is_told():
    said = "read: the connection is lost$"
    with pytest.raises(UnreachableError, match=said), session()._plainly():
        raise LostError("the connection\nis lost")
