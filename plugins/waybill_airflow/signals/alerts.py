"""Tells people by Airflow's notifiers what has happened to a migration."""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from airflow.sdk.configuration import conf

from waybill.counting import counted, plain
from waybill.errors import Code
from waybill.spec.alerts import WATCHED
from waybill.spec.file import load_migration
from waybill_airflow.links import MOUNT, migration_path
from waybill_airflow.outcome import StageFailed
from waybill_airflow.signals.notifiers import notifier_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from waybill.overview.schema import BatchAccount
    from waybill.spec.alerts import Event
    from waybill.spec.migration import Migration

_log = logging.getLogger("waybill")

_HELD = (Code.GATE_REFUSED.label, Code.BATCH_HELD.label)
"""Errors of a stage that say that the gate holds a batch."""


class Alert(NamedTuple):
    """Something that has happened.

    Attributes:
        event: which kind.
        title: in one line.
        text: what happened and what to do.
        link: address of the run in Airflow, of the migration's page where no run tells of it; empty
            where Airflow does not know its own address.
    """

    event: Event
    title: str
    text: str
    link: str

    @property
    def html(self) -> str:
        """The text and the link, safe to show: names in it come out of messages."""
        text = "<br>".join(html.escape(self.text).splitlines())
        link = html.escape(self.link)
        return f"<p>{text}</p>" + (f'<p><a href="{link}">{link}</a></p>' if link else "")


class AlertOnFailure:
    """What Airflow calls when a task has failed for good.

    Args:
        file: of the migration.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, context: Context) -> None:
        """Tell that the stage failed, or that the gate holds the batch."""
        spec = load_migration(self._file)
        error = context.get("exception")
        is_held = isinstance(error, StageFailed) and error.code in _HELD
        task = context["ti"].task_id
        if is_held:
            send(spec, "held", f"{spec.name}: the gate holds a batch", str(error), context)
        else:
            why = str(error) if error is not None else "It ended before it could report the cause."
            send(spec, "failed", f"{spec.name}: {task} failed", why, context)


def tell_held(spec: Migration, error: StageFailed, context: Context) -> None:
    """Tell that the gate holds a batch and that Airflow asks a person about it."""
    text = f"{error}\nAirflow asks what to do, in Required actions."
    send(spec, "held", f"{spec.name}: the gate holds a batch", text, context)


def tell_published(spec: Migration, account: BatchAccount, context: Context) -> None:
    """Tell what a published batch has refused, and which columns it has changed."""
    refused = sum(sum(stage.refused.values()) for stage in account.stages)
    if refused:
        title = f"{spec.name}: {counted(refused, 'row', style=',')} refused"
        text = f"{_refused(spec, account)}\nSee which: {spec.command('quarantine', 'list', 'FILE')}"
        send(spec, "refused", title, text, context)
    changes = [
        f"{table.table}: {'; '.join(table.columns)}" for table in account.tables if table.columns
    ]
    if changes:
        title = f"{spec.name}: columns changed in {counted(len(changes), 'table')}"
        line = f"State of each table: {spec.command('status', 'FILE')}"
        send(spec, "schema_change", title, "\n".join([_of(account), *changes, line]), context)


def _of(account: BatchAccount) -> str:
    return f"Batch {account.batch} of {account.migration} is published."


def _refused(spec: Migration, account: BatchAccount) -> str:
    lines = (
        f"{stage.stage} refused {count}: {reason}"
        for stage in account.stages
        for reason, count in stage.refused.items()
    )
    return "\n".join([_of(account), *lines, *_limit(spec, account)])


def _limit(spec: Migration, account: BatchAccount) -> list[str]:
    """What the gate allows, if a suite has a limit for it."""
    known = account.verdict.limits.get("refused_share") if account.verdict else None
    if known is not None:
        share, most = (plain(100 * figure) for figure in known)
        return [
            f"That is {share}% of the messages of the topic with the most. The gate allows {most}% "
            "(quality.max_refused_share, or the rule of a suite)."
        ]
    if "changes" in spec.quality.suites:
        most = plain(100 * spec.quality.max_refused_share)
        return [f"The gate allows {most}% of the messages of a topic (quality.max_refused_share)."]
    return []


def send(spec: Migration, event: Event, title: str, text: str, context: Context) -> None:
    """Tell every receiver of a migration, if it wants to know.

    Nobody fails because a message could not be sent; the log says so.
    """
    alerts = spec.alerts
    if alerts is None or event not in alerts.on:
        return
    alert = Alert(event, title, text, _link(spec, event, context))
    for receiver in alerts.to:
        try:
            # A notifier writes into the context that it is given.
            notifier_of(receiver)(cast("Context", {**context, "alert": alert}))
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning(
                "the alert “%s” could not be sent by %s (%s: %s)",
                *(title, receiver.name, type(error).__name__, error),
            )


def _link(spec: Migration, event: Event, context: Mapping[str, Any]) -> str:
    base, run = conf.get("api", "base_url", fallback="").rstrip("/"), context.get("dag_run")
    if not base:
        return ""
    if event in WATCHED:
        # The run that found it is not what it is about.
        return f"{base}{MOUNT}{migration_path(spec.name)}"
    if run is None:
        return ""
    return f"{base}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id, safe='')}"
