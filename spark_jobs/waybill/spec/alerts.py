"""Whom Airflow tells about a migration, and of what."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from waybill.spec.model import Model
from waybill.spec.values import LengthOfTime, Schedule

MAIL = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
"""Airflow's notifier that sends mail."""

CONNECTIONS = ("smtp", "slackwebhook")
"""Types of Airflow's connections that can be receivers by themselves."""

Event = Literal["failed", "held", "refused", "schema_change", "late", "stalled", "retention"]

WATCHED: frozenset[Event] = frozenset({"late", "stalled", "retention"})
"""What no run tells of, because none begins or ends: a DAG of its own looks for it."""


def sends_nothing(connection: str, kind: str) -> str:
    """What is wrong with a receiver whose connection is of a type that cannot be one."""
    return (
        f"alerts: the connection {connection} is of type {kind}, and messages are sent by "
        f"connections of type {' or '.join(CONNECTIONS)}: name one of those, or write `notifier` "
        "with the class that sends"
    )


class AlertReceiver(Model):
    """One notifier of Airflow, and what it is made with; a text alone is a `connection`."""

    connection: str | None = Field(default=None, min_length=1)
    """Airflow's connection that sends: one of type `smtp` (to the addresses in `to` of its extra,
    or of `arguments`) or `slackwebhook`."""

    notifier: str = MAIL
    """Instead of a connection: class of the notifier, its module and name with a dot between."""
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Its arguments. Texts are templates, in which `alert.title`, `alert.text`, `alert.html` and
    `alert.link` stand for what happened. Mail, and whatever a connection sends, has its text unless
    you set it."""

    @model_validator(mode="after")
    def _one_way(self) -> AlertReceiver:
        if self.connection is not None and "notifier" in self.model_fields_set:
            message = "give a connection or a notifier, not both"
            raise ValueError(message)
        return self

    @property
    def name(self) -> str:
        """What tells it from others."""
        return self.connection or self.notifier


class Alerts(Model):
    """[Alerts](signals.md#alerts) of a migration."""

    to: list[AlertReceiver] = Field(min_length=1)
    """Who is told: a connection of Airflow by its name, or a notifier. One text, or a list."""
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

    @field_validator("to", mode="before")
    @classmethod
    def _connections(cls, given: Any) -> Any:
        every = [given] if isinstance(given, str) else given
        if not isinstance(every, list):
            return every
        return [{"connection": one} if isinstance(one, str) else one for one in every]

    @property
    def watches(self) -> bool:
        """Whether anything is asked for that needs the DAG that looks for it."""
        return bool(WATCHED.intersection(self.on))
