"""A Confluent schema registry, asked through confluent-kafka's client."""

from __future__ import annotations

import os
from typing import Any, NoReturn
from uuid import UUID

from waybill.envelopes.avro.settings import CREDENTIALS
from waybill.envelopes.avro.sources import Text
from waybill.envelopes.avro.told import told_by
from waybill.errors import ConfigurationError, Refusal, WaybillError

_NOT_FOUND = 404
_MOST_REFERENCES = 100

_REFUSALS = {
    401: "does not know the user",
    403: "does not allow the user",
    409: "finds the schema incompatible with earlier ones",
    422: "takes the schema for a wrong one",
}
"""Answers that asking again does not change."""

_WHAT_TO_DO = {
    401: f"mend {CREDENTIALS}",
    403: "give the user of the environment the right to the subject",
    409: "publish under another subject, or change the subject's compatibility there",
    422: "look at the subject's rules there",
}


class RegistryError(WaybillError):
    """The schema registry does not answer as it should; the run may be tried again."""

    transient = True


class Registry:
    """Schemas of one registry.

    User and password come from the environment and are in no message of an error.

    Args:
        url: where it is, without credentials.
    """

    def __init__(self, url: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = url
        told: dict[str, Any] = {"url": url, "timeout": 10, "max.retries": 2}
        told["retries.wait.ms"] = 200
        credentials = os.environ.get(CREDENTIALS)
        if credentials:
            if ":" not in credentials:
                raise ConfigurationError(f"{CREDENTIALS} is not of the form user:password")
            told["basic.auth.user.info"] = credentials
        self.client = SchemaRegistryClient(told)

    def find(self, identity: int | UUID) -> Text | None:
        """A schema, None where the registry has none of this id.

        Raises:
            Refusal: kind `schema`; it is no Avro schema.
            RegistryError: the registry does not answer.
        """
        known = told_by(self.url)
        name = str(identity)
        if name not in known:
            text = self._asked(identity)
            if text is None:
                return None
            known[name] = text
        return known[name]

    def _asked(self, identity: int | UUID) -> Text | None:
        try:
            if isinstance(identity, int):
                found = self.client.get_schema(identity)
            else:
                found = self.client.get_schema_by_guid(str(identity))
            references: dict[str, str] = {}
            self._collect(found.references or [], references)
        except Exception as error:  # noqa: BLE001 - the client lets through what its parts raise
            if getattr(error, "http_status_code", None) == _NOT_FOUND:
                return None
            self._failed(error)
        if found.schema_type not in (None, "AVRO"):
            raise Refusal("schema", f"schema {identity} is {found.schema_type}, not AVRO")
        return Text(found.schema_str or "", tuple(references.values()))

    def _collect(self, references: list[Any], found: dict[str, str]) -> None:
        """Schemas that a schema uses, those first that others use."""
        for reference in references:
            name = f"{reference.subject}:{reference.version}"
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                raise Refusal("schema", f"a schema uses more than {_MOST_REFERENCES} others")
            version = self.client.get_version(reference.subject, reference.version)
            found[name] = ""
            self._collect(version.schema.references or [], found)
            found.pop(name)
            found[name] = version.schema.schema_str or ""

    def register(self, subject: str, text: str) -> int:
        """The id of a schema under a subject, registered if it is not there.

        Raises:
            ConfigurationError: the registry does not take it, for one because consumers of the
                subject's earlier schemas could not read it.
            RegistryError: the registry does not answer.
        """
        from confluent_kafka.schema_registry import Schema

        try:
            return int(self.client.register_schema(subject, Schema(text, "AVRO")))
        except Exception as error:  # noqa: BLE001 - see above
            self._failed(error, f" to register {subject!r}")

    def _failed(self, error: Exception, doing: str = "") -> NoReturn:
        if isinstance(error, Refusal):
            raise error
        status = getattr(error, "http_status_code", None)
        told = f"answers {status}" if status is not None else f"fails with {type(error).__name__}"
        what = getattr(error, "error_message", None)
        reason = f" ({what})" if status is not None and what else ""
        if status in _REFUSALS:
            message = (
                f"the schema registry at {self.url} {_REFUSALS[status]}{doing}{reason}: "
                f"{_WHAT_TO_DO[status]}"
            )
            raise ConfigurationError(message) from None
        message = f"the schema registry at {self.url} {told}{reason}{doing}: look at the registry"
        raise RegistryError(message) from None
