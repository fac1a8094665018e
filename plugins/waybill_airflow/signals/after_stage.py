"""Tells other systems about a stage that has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from waybill.errors import ConfigurationError
from waybill.overview.files import read_account, read_index, read_source, reports
from waybill.report import STAGES
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.signals import metrics
from waybill_airflow.signals.alerts import tell_published
from waybill_airflow.signals.asset_names import alias_of
from waybill_airflow.signals.assets import add_updates, published_with, updates_of
from waybill_airflow.signals.lineage.switch import is_on

if TYPE_CHECKING:
    from airflow.sdk import Context

    from waybill.overview.schema import Index
    from waybill.spec.migration import Migration
    from waybill_airflow.signals.lineage.stages import Lineage

T = TypeVar("T")

_log = logging.getLogger("waybill")


def tell(spec: Migration, report: dict[str, Any], context: Context) -> Lineage | None:
    """Send what follows from a stage's end.

    The stage has committed by now: whatever cannot be sent is logged, and the task goes on.

    Args:
        spec: the migration.
        report: of the stage, see `StageReport.to_json_safe`.
        context: of the task.

    Returns:
        What the provider of OpenLineage sends when it asks the operator; None where nobody wants
        to know.
    """

    @cache
    def index() -> Index | None:
        return in_lake_of(spec, read_index)

    if metrics.are_on():
        _guarded("metrics", spec, lambda: _send_metrics(spec, report, index()))
    lineage = _guarded("lineage", spec, lambda: _lineage(spec, report, index))
    if report["stage"] != STAGES[-1]:
        return lineage
    batch = report["batch"]
    if "outlet_events" in context:
        _guarded("updates of assets", spec, lambda: _update_assets(spec, batch, index(), context))
    if spec.alerts is not None and not report.get("repeated"):
        _guarded("alerts", spec, lambda: _alert(spec, batch, context))
    return lineage


def _lineage(
    spec: Migration, report: dict[str, Any], index: Callable[[], Index | None]
) -> Lineage | None:
    if not is_on():
        return None
    # Without the provider it cannot be imported.
    from waybill_airflow.signals.lineage.stages import lineage_of

    def found(spec: Migration) -> Lineage:
        published = []
        if report["stage"] == STAGES[-1] and (lines := index()) is not None:
            published = published_with(spec, lines, report["batch"])
        return lineage_of(spec, report, [account.batch for account in published])

    return in_lake_of(spec, found, spec.connections)


def _send_metrics(spec: Migration, report: dict[str, Any], index: Index | None) -> None:
    now, look = datetime.now(UTC), in_lake_of(spec, read_source)
    of_lake = () if index is None else metrics.figures_of_lake(index, now)
    of_source = () if look is None else metrics.figures_of_source(look, now)
    metrics.send(chain(metrics.figures_of(spec.name, report), of_lake, of_source))


def _update_assets(spec: Migration, batch: str, index: Index | None, context: Context) -> None:
    updates = None
    if index is not None:
        updates = in_lake_of(spec, lambda spec: updates_of(spec, index, batch))
    if updates is None:
        message = f"{reports(spec)} does not say yet that batch {batch} is published"
        raise ConfigurationError(message)
    add_updates(updates, alias_of(spec.name), context["outlet_events"])


def _alert(spec: Migration, batch: str, context: Context) -> None:
    account = in_lake_of(spec, lambda spec: read_account(spec, batch))
    if account is not None:
        tell_published(spec, account, context)


def _guarded(what: str, spec: Migration, act: Callable[[], T]) -> T | None:
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - the stage has committed; see `tell`
        _log.warning(
            "the %s of %s could not be sent (%s: %s); the batch is not concerned",
            *(what, spec.name, type(error).__name__, error),
        )
        return None
