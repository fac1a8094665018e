"""Finds what the pages show: reports that are kept with the batch in the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.connections import given
from waybill.spec.file import load_migration
from waybill.storage.objects.places import is_object_url, place_of
from waybill_airflow.migration_files import file_of, read_migrations
from waybill_airflow.places import migrations_folder
from waybill_airflow.submission import connections

if TYPE_CHECKING:
    from waybill.spec.migration import Migration


def gate_report(dag_id: str, batch: str) -> str | None:
    """The gate's page of a batch, None where there is none.

    Names come from a URL: the migration is looked up among those that there are, and the library
    makes the place of the report out of it and the batch.

    Raises:
        ConfigurationError: the migration's file cannot be used here, or the connection of the lake
            cannot.
        UnavailableError: the lake's store does not answer.
    """
    spec = migration(dag_id)
    if spec is None:
        return None
    from waybill.validate.results import read_page

    lake = spec.lake.warehouse
    names = [place_of(lake).connection_name] if is_object_url(lake) else []
    with given(connections(names)):
        return read_page(spec, batch)


def migration(name: str) -> Migration | None:
    """The migration of a DAG, None where there is none.

    Raises:
        ConfigurationError: its file cannot be used, e.g. because a variable is not set here.
    """
    folder = migrations_folder()
    found = read_migrations(folder).migrations
    spec = next((spec for _, spec in found if spec.name == name), None)
    file = file_of(name, folder) if spec is None else None
    return spec if file is None else load_migration(file)
