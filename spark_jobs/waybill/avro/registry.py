"""A Confluent schema registry, asked through confluent-kafka's client."""

from __future__ import annotations

import os
import random
import time
import warnings
from typing import Any, NoReturn
from uuid import UUID

from waybill.avro.fetched_schemas import Text, fetched_from
from waybill.avro.settings import CREDENTIALS
from waybill.errors import Code, ConfigurationError, Refusal, UnavailableError

_UNKNOWN = {40401, 40402, 40403}
"""Error codes of a subject, version or schema that is not there. A 404 without one of them comes
from something else than a registry's API."""

_MOST_REFERENCES = 100
_MOST_OF_A_REASON = 500

_TIMEOUTS = (2.5, 10.0, 10.0, 10.0)
"""Seconds to connect, to read, to write and to wait for a connection: an address where nothing is
takes three tries, which is less than 10 s."""

CERTIFICATES = "SSL_CERT_FILE"
"""Environment variable with the file of the authority that a registry's certificate is from."""

NO_ID = 0
"""What no schema has."""

_NOT_FOUND = 404
_CONFLICT = 409
_PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to register a schema, at random up to half more or less."""

_NO_CODE = -1
"""What the client takes for the error code of an answer that is not a registry's."""

_SERVER_ERRORS = 500
_LATER = {408, 429}
"""Answers below those that ask for patience."""

_WRONG_ADDRESS = "name the URL of its API (Apicurio's ends in /apis/ccompat/v7)"

_PERMANENT = {
    401: ("does not know the user", f"fix {CREDENTIALS}"),
    403: ("does not allow the user", "give the user of the environment the right to the subject"),
    404: ("has no such page", _WRONG_ADDRESS),
    409: (
        "finds the schema incompatible with earlier ones",
        "publish under another subject, or change the subject's compatibility there",
    ),
    422: ("does not take the schema", "look at the subject's rules and mode there"),
}
"""Answers that asking again does not change, and what helps."""


class Registry:
    """Schemas of one registry.

    User and password come from the environment and are in no message of an error.

    Args:
        url: where it is, without credentials.

    Raises:
        ConfigurationError: the credentials or the certificates of the environment are none.
    """

    def __init__(self, url: str) -> None:
        # The client's own libraries warn whoever imports them of each other's age.
        with warnings.catch_warnings(record=True):
            from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = url
        options: dict[str, Any] = {"url": url, "timeout": _TIMEOUTS, "max.retries": 2}
        options["retries.wait.ms"] = 200
        credentials = os.environ.get(CREDENTIALS)
        if credentials:
            if ":" not in credentials:
                raise ConfigurationError(
                    f"{CREDENTIALS} is not of the form user:password", code=Code.REGISTRY_REFUSED
                )
            options["basic.auth.user.info"] = credentials
        try:
            self.client = SchemaRegistryClient(options)
        except OSError as error:
            # The client reads certificates when it is made, whatever the URL says.
            message = (
                f"the certificates that {CERTIFICATES} ({os.environ.get(CERTIFICATES)}) names for "
                f"the schema registry at {url} cannot be read ({error}): name a file of PEM "
                "certificates, or unset it"
            )
            raise ConfigurationError(message, code=Code.REGISTRY_REFUSED) from None

    def find(self, identity: int | UUID) -> Text | None:
        """A schema, None where the registry has none of this id.

        Raises:
            Refusal: kind `schema`; it is no Avro schema, or uses one that is not there.
            ConfigurationError: there is no registry at the address, or not for this user.
            UnavailableError: the registry does not answer.
        """
        known = fetched_from(self.url)
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
            if not found.schema_str:
                raise ValueError("an answer without a schema")
        except Exception as error:  # noqa: BLE001 - the client lets through what its parts raise
            if _unknown(error):
                return None
            by_guid = "" if isinstance(identity, int) else " by its GUID"
            self._failed(error, f"for schema {identity}{by_guid}")
        if found.schema_type not in (None, "AVRO"):
            raise Refusal("schema", f"schema {identity} is {found.schema_type}, not AVRO")
        references: dict[str, str] = {}
        self._collect(identity, found.references or [], references)
        return Text(found.schema_str, tuple(references.values()))

    def _collect(self, identity: int | UUID, references: list[Any], found: dict[str, str]) -> None:
        """Schemas that a schema uses, those first that others use."""
        for reference in references:
            name = f"{reference.subject}:{reference.version}"
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                raise Refusal("schema", f"a schema uses more than {_MOST_REFERENCES} others")
            try:
                used = self.client.get_version(reference.subject, reference.version).schema
            except Exception as error:  # noqa: BLE001 - see above
                if _unknown(error):
                    sentence = f"version {reference.version} of {reference.subject!r}"
                    message = f"schema {identity} uses {sentence}, which the registry does not have"
                    raise Refusal("schema", message) from None
                self._failed(error, f"for {name}")
            found[name] = ""
            self._collect(identity, used.references or [], found)
            found.pop(name)
            found[name] = used.schema_str or ""

    def register(self, subject: str, text: str) -> int:
        """The id of a schema under a subject, registered if it is not there.

        Tasks that register under a new subject at the same time get in each other's way: some
        registries answer all but one of them with a conflict, as if the schema were incompatible.
        So a conflict is one only when it stays.

        Raises:
            ConfigurationError: the registry does not take it, for one because consumers of the
                subject's earlier schemas could not read it.
            UnavailableError: the registry does not answer.
        """
        from confluent_kafka.schema_registry import Schema

        for pause in (*_PAUSES, None):
            try:
                return int(self.client.register_schema(subject, Schema(text, "AVRO")))
            except Exception as error:  # noqa: BLE001 - see above
                if pause is None or getattr(error, "http_status_code", None) != _CONFLICT:
                    self._failed(error, f"to register {subject!r}")
            time.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError("the last attempt returns or raises")

    def try_out(self, subject: str, text: str) -> int:
        """The id of a schema under a subject, `NO_ID` if it could be registered and is not.

        Raises:
            ConfigurationError: the registry would not take it.
            UnavailableError: the registry does not answer.
        """
        from confluent_kafka.schema_registry import Schema

        asked = f"about a schema for {subject!r}"
        schema = Schema(text, "AVRO")
        try:
            registered = self.client.lookup_schema(subject, schema).schema_id
            if registered is not None:
                return registered
        except Exception as error:  # noqa: BLE001 - see above
            if not _unknown(error):
                self._failed(error, asked)
        try:
            if self.client.test_compatibility_all_versions(subject, schema):
                return NO_ID
        except Exception as error:  # noqa: BLE001 - see above
            # A subject without versions; and registries that cannot be asked this are registries.
            if getattr(error, "http_status_code", None) == _NOT_FOUND:
                return NO_ID
            self._failed(error, asked)
        reason, help_ = _PERMANENT[_CONFLICT]
        raise ConfigurationError(
            f"the schema registry at {self.url} {reason} when asked {asked}: {help_}",
            code=Code.REGISTRY_REFUSED,
        )

    def _failed(self, error: Exception, asked: str) -> NoReturn:
        where = f"the schema registry at {self.url}"
        when = f"when asked {asked}{_reason(error)}"
        status = getattr(error, "http_status_code", None)
        if status in _PERMANENT:
            reason, help_ = _PERMANENT[status]
            raise ConfigurationError(
                f"{where} {reason} {when}: {help_}", code=Code.REGISTRY_REFUSED
            ) from None
        if status is not None:
            reason = f"{where} answers {status} {when}"
            if status < _SERVER_ERRORS and status not in _LATER:
                raise ConfigurationError(
                    f"{reason}: {_WRONG_ADDRESS}", code=Code.REGISTRY_REFUSED
                ) from None
            raise UnavailableError(
                f"{reason}: look at the registry", code=Code.REGISTRY_UNREACHABLE
            ) from None
        if isinstance(error, (ValueError, TypeError, AttributeError, KeyError)):
            reason = f"{where} answers with something else than a registry does {when}"
            raise ConfigurationError(
                f"{reason}: {_WRONG_ADDRESS}", code=Code.REGISTRY_REFUSED
            ) from None
        reason = f"{where} cannot be reached ({type(error).__name__}: {error})"
        raise UnavailableError(
            f"{reason}: look at the address and at the registry", code=Code.REGISTRY_UNREACHABLE
        ) from None


def _unknown(error: Exception) -> bool:
    """Whether a registry says that it does not have what it was asked for."""
    return getattr(error, "error_code", None) in _UNKNOWN


def _reason(error: Exception) -> str:
    """What the registry says, shortened: Confluent's repeats the schemas."""
    if getattr(error, "error_code", None) == _NO_CODE:
        return ""
    said = " ".join(str(getattr(error, "error_message", None) or "").split())
    if len(said) > _MOST_OF_A_REASON:
        said = f"{said[:_MOST_OF_A_REASON]}…"
    return f" ({said})" if said else ""
