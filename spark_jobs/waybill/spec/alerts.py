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
    """One Airflow notifier with its arguments; a text alone is a `connection`."""

    connection: str | None = Field(default=None, min_length=1)
    """The Airflow connection that sends: of type `smtp` (to the addresses in `to` of its extra, or
    of `arguments`) or `slackwebhook`."""

    notifier: str = MAIL
    """Instead of a connection: the full class name of the notifier, such as `module.Class`."""
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Its arguments. Texts are templates, in which `alert.title`, `alert.text`, `alert.html` and
    `alert.link` describe the event. Mail, and every message that a connection sends, has a default
    text; your arguments override it."""

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
    """Receivers: Airflow connections by name, or notifiers. One text, or a list."""
    on: list[Event] = Field(default=["failed", "held"], min_length=1)
    """The events to send."""
    late_after: LengthOfTime | None = None
    """`late`: how old the last published batch may be, and how long messages may wait at the
    source. Without it, a migration with a schedule is late when two of its scheduled times have
    passed since its last published batch."""
    stalled_after: LengthOfTime = "2h"
    """`stalled`: how long a batch may be under way without finishing a stage."""
    watch: Schedule = "*/10 * * * *"
    """When the DAG runs that checks for `late`, `stalled` and `retention`, unless the migration's
    own `watch` sets it."""

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
