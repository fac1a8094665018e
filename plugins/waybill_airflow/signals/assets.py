"""What a published batch has changed, as updates of Airflow's assets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import Asset

from waybill.overview.files import read_account
from waybill.overview.schema import PUBLISHED
from waybill_airflow.signals.asset_names import table_asset, target_asset

if TYPE_CHECKING:
    from airflow.sdk import AssetAlias
    from airflow.sdk.types import OutletEventAccessorsProtocol

    from waybill.overview.schema import BatchAccount, BatchLine, Index
    from waybill.spec.migration import Migration


class Update(NamedTuple):
    """An update of an asset.

    Attributes:
        asset: its name.
        extra: what consumers see of it; numbers of 2^53 and more are texts.
    """

    asset: str
    extra: dict[str, Any]


def updates_of(spec: Migration, index: Index, batch: str) -> list[Update] | None:
    """What the run of a batch has published: its own work, and what earlier runs had left.

    None where the overview does not say that the batch is published.

    Args:
        spec: the migration.
        index: its overview.
        batch: id of the batch.

    Raises:
        ConfigurationError: the connection of the lake is not there.
        UnavailableError: the lake's store does not answer.
    """
    published = published_with(spec, index, batch)
    if not published:
        return None
    updates: dict[str, Update] = {}
    # The oldest first, so that the newest update of an asset stays.
    for account in reversed(published):
        updates |= {update.asset: update for update in _of_account(spec.name, account, batch)}
    return [updates[name] for name in sorted(updates)]


def published_with(spec: Migration, index: Index, batch: str) -> list[BatchAccount]:
    """The accounts of a batch and of those before it that it took along, the newest first.

    None of them where the overview does not say that the batch is published.
    """
    lines = iter(index.batches)
    own = next((line for line in lines if line.batch == batch), None)
    if own is None or own.state != PUBLISHED:
        return []
    return list(_published_by(spec, lines, batch))


def _published_by(
    spec: Migration, before: Iterator[BatchLine], batch: str
) -> Iterator[BatchAccount]:
    account = read_account(spec, batch)
    if account is not None:
        yield account
    for line in before:
        if line.state == PUBLISHED:
            return
        account = read_account(spec, line.batch)
        if account is not None and account.stages[-1].by == batch:
            yield account


def _of_account(migration: str, account: BatchAccount, batch: str) -> Iterator[Update]:
    common: dict[str, Any] = {
        "batch": batch,
        "verdict": account.verdict.outcome if account.verdict else "",
    }
    for table in account.tables:
        if table.rows_out:
            extra = {
                **common,
                "rows": table.rows_out,
                "changes": table.operations,
                "sequence": table.sequence,
                "complete_up_to": table.complete,
            }
            yield Update(table_asset(migration, table.table), extra)
    for target in account.targets:
        if target.published:
            extra = {
                **common,
                "rows": target.published,
                "messages": target.published,
                "places": target.places,
                "complete_up_to": _complete(account),
            }
            yield Update(target_asset(migration, target.target), extra)


def _complete(account: BatchAccount) -> str | None:
    """Up to when everything of a batch is complete: as far as the table that is furthest behind."""
    known = [table.complete for table in account.tables]
    if not known or None in known:
        return None
    return min((time for time in known if time is not None), key=datetime.fromisoformat)


def add_updates(
    updates: list[Update], alias: AssetAlias, events: OutletEventAccessorsProtocol
) -> None:
    """Give updates to Airflow, which records them when the task succeeds.

    Args:
        updates: the updates.
        alias: of the migration.
        events: `outlet_events` of the task's context.
    """
    for update in updates:
        events[alias].add(Asset(update.asset), extra=update.extra)
