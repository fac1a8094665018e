"""Whom Airflow tells about a migration, and of what."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from waybill.spec.model import Model
from waybill.spec.values import LengthOfTime, Schedule

MAIL = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
"""Airflow's notifier that sends mail."""

Event = Literal["failed", "held", "refused", "schema_change", "late", "stalled", "retention"]

WATCHED: frozenset[Event] = frozenset({"late", "stalled", "retention"})
"""What no run tells of, because none begins or ends: a DAG of its own looks for it."""


class AlertReceiver(Model):
    """One notifier of Airflow, and what it is made with."""

    notifier: str = MAIL
    """Class of the notifier: its module and name with a dot between."""
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Its arguments. Texts are templates, in which `alert.title`, `alert.text`, `alert.html` and
    `alert.link` stand for what happened. Mail has a subject and a text unless you set them."""


class Alerts(Model):
    """[Alerts](signals.md#alerts) of a migration."""

    to: list[AlertReceiver] = Field(min_length=1)
    """Who is told."""
    on: list[Event] = Field(default=["failed", "held"], min_length=1)
    """What they are told of."""
    late_after: LengthOfTime | None = None
    """`late`: how old the last published batch may be, and how long messages may wait at the
    source. Without it, a migration with a schedule is late when two of its scheduled times have
    passed since its last published batch."""
    stalled_after: LengthOfTime = "2h"
    """`stalled`: how long a batch may be under way without a stage that ends."""
    watch: Schedule = "*/10 * * * *"
    """When the DAG runs that looks for `late`, `stalled` and `retention`, unless the migration's
    own `watch` says when."""

    @property
    def watches(self) -> bool:
        """Whether anything is asked for that needs the DAG that looks for it."""
        return bool(WATCHED.intersection(self.on))
