"""Finds what the pages show: reports that are kept with the batch in the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill_airflow.migration_files import read_migrations
from waybill_airflow.places import migrations_folder

if TYPE_CHECKING:
    from waybill.spec import Migration


def gate_report(dag_id: str, batch: str) -> str | None:
    """The gate's page of a batch, None where there is none.

    Names come from a URL: the migration is looked up among those that there are, and the library
    makes the place of the report out of it and the batch.
    """
    spec = migration(dag_id)
    if spec is None:
        return None
    from waybill.validate.results import read_page

    return read_page(spec, batch)


def migration(name: str) -> Migration | None:
    """The migration of a DAG; None where there is none or its file cannot be used."""
    found = read_migrations(migrations_folder()).migrations
    return next((spec for _, spec in found if spec.name == name), None)
