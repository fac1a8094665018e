"""Finds the gate's reports, which are kept with the batch in the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.overview.files import read_account
from waybill.report import STAGES
from waybill.validate.page import gate_values
from waybill.validate.result import GateResult
from waybill.validate.results import read_page, read_result, read_trend
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.known_migrations import known_migration
from waybill_airflow.web.rendering import page

if TYPE_CHECKING:
    from waybill.spec.migration import Migration


class Report(NamedTuple):
    """A report as a page.

    Attributes:
        text: HTML.
        own: whether it was made here, of figures; else it is the page that was kept, which brings
            its own style, and whatever values of rows it was kept with.
    """

    text: str
    own: bool


def gate_report(dag_id: str, batch: str, with_values: bool) -> Report | None:
    """The gate's page of a batch, None where there is none.

    Names come from a URL: the migration is looked up among those that there are, and the library
    makes the place of the report out of it and the batch.

    Args:
        dag_id: the migration.
        batch: the batch.
        with_values: whether a page that is made here shows keys and values of rows.

    Raises:
        ConfigurationError: the migration's file cannot be used here, or the connection of the lake
            cannot.
        UnavailableError: the lake's store does not answer.
    """
    spec = known_migration(dag_id)
    if spec is None:
        return None
    return in_lake_of(spec, lambda spec: _report(spec, batch, with_values))


def _report(spec: Migration, batch: str, with_values: bool) -> Report | None:
    values = _values(spec, batch, with_values)
    if values is not None:
        shown = page("report", dag_id=spec.name, with_values=with_values, **values)
        return Report(shown, own=True)
    kept = read_page(spec, batch)
    return None if kept is None else Report(kept, own=False)


def _values(spec: Migration, batch: str, with_values: bool) -> dict[str, Any] | None:
    """What the page shows; None where the figures are gone, or are those of another version."""
    try:
        kept = read_result(spec, batch)
        if kept is None:
            return None
        result = GateResult.from_dict(kept)
        values = gate_values(result, read_trend(spec, batch), with_values)
    except (KeyError, TypeError, ValueError):
        return None
    account = read_account(spec, batch)
    publish = STAGES.index("publish")
    return {**values, "published": None if account is None else account.stages[publish]}
