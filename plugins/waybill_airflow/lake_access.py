"""Reads from the lake of a migration with the connection that Airflow has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from waybill.connections import given
from waybill.errors import ConfigurationError
from waybill.storage.objects.places import is_object_url, place_of
from waybill_airflow.submission import connections

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

T = TypeVar("T")


def in_lake_of(spec: Migration, read: Callable[[Migration], T], others: Iterable[str] = ()) -> T:
    """What is read from the lake of a migration.

    Args:
        spec: the migration.
        read: reads.
        others: names of connections beside those of the lake that it asks for.

    Raises:
        ConfigurationError: the connection of the lake is not there, or its folder is closed.
        UnavailableError: the lake's store does not answer.
    """
    lake = spec.lake.warehouse
    names = [place_of(lake).connection_name] if is_object_url(lake) else []
    names += [str(name)] if (name := spec.lake.catalog.get("connection")) else []
    try:
        with given(connections({*names, *others})):
            return read(spec)
    except OSError as error:
        message = (
            f"{error.filename or lake} cannot be read by Airflow "
            f"({error.strerror or error}): let its user read the lake's folder"
        )
        raise ConfigurationError(message) from error
