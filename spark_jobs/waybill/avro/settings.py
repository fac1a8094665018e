"""Settings for reading and writing Avro: where the schemas are."""

from __future__ import annotations

from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, PrivateAttr, field_validator

from waybill.protocol import Settings

CREDENTIALS = "WAYBILL_SCHEMA_REGISTRY_USER_INFO"
"""Environment variable with `user:password` of the schema registry."""


def _without_credentials(url: str | None) -> str | None:
    if url is None:
        return None
    for one in url.split(","):
        parts = urlsplit(one.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not the URL of a schema registry, such as http://host:8081")
        if not _has_good_port(parts):
            raise ValueError(
                "a URL whose port is no number from 1 to 65535: write one as in http://host:8081"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                f"a URL holds credentials: take them out and set {CREDENTIALS}=user:password in "
                "the environment"
            )
    return url


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


class AvroReadSettings(Settings):
    """Where a reader finds the schemas that messages name by id."""

    schemas: str | dict[str, Any] | None = Field(
        default=None,
        description="A file of schemas ({avro: {ID: {schema: …, subject: …, guid: …}}}), a folder "
        "of such files or of files ID.avsc, or the content of such a file itself.",
    )
    registry: str | None = Field(
        default=None,
        description="URL of a schema registry. Its user and password come from the environment "
        f"variable {CREDENTIALS}.",
    )

    @field_validator("registry")
    @classmethod
    def _no_credentials(cls, url: str | None) -> str | None:
        return _without_credentials(url)


class AvroWriteSettings(Settings):
    """Where a writer puts the schemas that its messages name by id."""

    schemas: str | None = Field(
        default=None,
        description="A folder that gets one file per schema, ID.json. Without it and without "
        "`registry` every message carries its schemas in headers.",
    )
    registry: str | None = Field(
        default=None,
        description="URL of a schema registry that schemas are registered in, which is what "
        "Confluent's consumers need. Its user and password come from the environment variable "
        f"{CREDENTIALS}.",
    )
    topic: str | None = Field(
        default=None,
        min_length=1,
        description="Register under TOPIC-key and TOPIC-value instead of the records' full names.",
    )
    _trial: bool = PrivateAttr(default=False)

    @field_validator("registry")
    @classmethod
    def _no_credentials(cls, url: str | None) -> str | None:
        return _without_credentials(url)

    @property
    def trial(self) -> bool:
        """Whether no schema may be left anywhere."""
        return self._trial

    def for_trial(self) -> Self:
        """The same for an encoder that puts its schemas nowhere."""
        made = self.model_copy()
        made._trial = True
        return made
