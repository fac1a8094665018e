"""Finds the gate's reports, which are kept with the batch in the lake."""

from __future__ import annotations

from waybill.validate.results import read_page
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.known_migrations import known_migration


def gate_report(dag_id: str, batch: str) -> str | None:
    """The gate's page of a batch, None where there is none.

    Names come from a URL: the migration is looked up among those that there are, and the library
    makes the place of the report out of it and the batch.

    Raises:
        ConfigurationError: the migration's file cannot be used here, or the connection of the lake
            cannot.
        UnavailableError: the lake's store does not answer.
    """
    spec = known_migration(dag_id)
    if spec is None:
        return None
    return in_lake_of(spec, lambda spec: read_page(spec, batch))
