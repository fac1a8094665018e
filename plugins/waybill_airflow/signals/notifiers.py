"""Airflow's notifiers by what a migration says of its receivers: a class, or a connection."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import BaseHook, BaseNotifier

from waybill.errors import Code, ConfigurationError
from waybill.spec.alerts import MAIL, sends_nothing

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from waybill.spec.alerts import AlertReceiver

_log = logging.getLogger("waybill")

_MAIL = {"subject": "{{ alert.title }}", "html_content": "{{ alert.html }}"}
_CHAT = {"text": "{{ alert.title }}\n{{ alert.text }}\n{{ alert.link }}"}


class _Kind(NamedTuple):
    """How a type of connection sends.

    Attributes:
        notifier: the class.
        named: which of its arguments names the connection.
        message: arguments that make the message, unless the receiver says otherwise.
    """

    notifier: str
    named: str
    message: dict[str, str]


KINDS = {
    "smtp": _Kind(MAIL, "smtp_conn_id", _MAIL),
    "slackwebhook": _Kind(
        "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier",
        "slack_webhook_conn_id",
        _CHAT,
    ),
}
"""By the type of the connection, see `waybill.spec.alerts.CONNECTIONS`."""


def check_receiver(receiver: AlertReceiver) -> None:
    """Find out whether the notifier of a receiver can be made.

    A connection that cannot be read here is left to the worker that sends: a DAG does not wait for
    where its alerts go.

    Raises:
        ConfigurationError: see `notifier_of`.
    """
    if receiver.connection is None:
        _of_class(receiver)
        return
    try:
        connection = BaseHook.get_connection(receiver.connection)
    except Exception as error:  # noqa: BLE001 - whatever keeps connections may be away
        _log.warning(
            "alerts: the connection %s cannot be looked at here (%s)", receiver.connection, error
        )
        return
    _of_connection(receiver, connection)


def notifier_of(receiver: AlertReceiver) -> BaseNotifier:
    """The notifier of a receiver.

    Raises:
        ConfigurationError: there is none of that name, it does not take the arguments, or the kind
            of connection sends nothing.
        AirflowNotFoundException: there is no such connection.
    """
    if receiver.connection is None:
        return _of_class(receiver)
    return _of_connection(receiver, BaseHook.get_connection(receiver.connection))


def _of_class(receiver: AlertReceiver) -> BaseNotifier:
    message = _MAIL if receiver.notifier == MAIL else {}
    return _made(receiver.notifier, {**message, **receiver.arguments})


def _of_connection(receiver: AlertReceiver, connection: Connection) -> BaseNotifier:
    name, of_type = connection.conn_id, str(connection.conn_type)
    kind = KINDS.get(of_type)
    if kind is None:
        message = sends_nothing(name, of_type)
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    arguments: dict[str, Any] = {kind.named: name, **kind.message, **receiver.arguments}
    if kind.notifier == MAIL and "to" not in arguments:
        arguments["to"] = connection.extra_dejson.get("to")
        if not arguments["to"]:
            message = (
                f"alerts: nothing says whom the connection {name} writes to: put "
                f'{{"to": "name@example.org"}} into its extra, or write '
                f"{{connection: {name}, arguments: {{to: name@example.org}}}}"
            )
            raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    return _made(kind.notifier, arguments)


def _made(path: str, arguments: dict[str, Any]) -> BaseNotifier:
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"alerts: there is no notifier {path} ({error})"
        raise ConfigurationError(message) from None
    if not (isinstance(kind, type) and issubclass(kind, BaseNotifier)):
        message = f"alerts: {path} is not an Airflow notifier"
        raise ConfigurationError(message)
    try:
        return kind(**arguments)
    except TypeError as error:
        message = f"alerts: {path} cannot be made with these arguments ({error})"
        raise ConfigurationError(message) from None
