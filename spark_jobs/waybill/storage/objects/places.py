"""Where objects lie and who asks for them: URLs, and what their connection says.

`s3://bucket/folder` belongs to the connection `aws_default`, `oss://bucket/folder` to
`oss_default`, and `s3://name@bucket/folder` to the connection of that name, which is how Airflow
writes such URLs too. So one migration may read one store and write another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from waybill.connections import Connection, find_connection, get_connection, variable_of
from waybill.errors import Code, ConfigurationError

DEFAULT_CONNECTIONS = {"s3": "aws_default", "oss": "oss_default"}
"""The connection of a URL that names none, by scheme."""

STYLES = ("auto", "path", "virtual")
"""How requests name the bucket: as the server's kind wants it, in the path, in the host's name."""

ATTEMPTS = 6
"""How often a request is sent where the connection does not say."""

_OTHER_IDENTITIES = ("role_arn", "profile_name", "assume_role_method", "session_kwargs")


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """An object, or a folder of objects.

    Attributes:
        scheme: `s3` or `oss`.
        connection: name of the connection, empty where the URL names none.
        bucket: the bucket.
        key: the rest, without a slash at its ends.
    """

    scheme: str
    connection: str
    bucket: str
    key: str

    @property
    def prefix(self) -> str:
        """The URL up to the bucket."""
        return f"{self.scheme}://{self.connection}@" if self.connection else f"{self.scheme}://"

    @property
    def url(self) -> str:
        """As people name it."""
        return f"{self.prefix}{self.bucket}/{self.key}".rstrip("/")

    @property
    def connection_name(self) -> str:
        """Name of the connection that is meant."""
        return self.connection or DEFAULT_CONNECTIONS[self.scheme]


@dataclass(frozen=True, slots=True)
class Access:
    """A store's address and the key to it; what is secret is not shown by `repr`.

    Attributes:
        connection: name of the connection that says so.
        endpoint: URL of the server, empty for AWS.
        region: region of the bucket, empty where nothing is said.
        style: one of `STYLES`.
        key_id: id of the key, empty where the usual sources of AWS tell it.
        secret: the key.
        token: of a session.
        attempts: how often a request is sent before it counts as failed.
        conditional: whether the server puts an object only if there is none; None to find out.
    """

    connection: str
    endpoint: str = ""
    region: str = ""
    style: str = "auto"
    key_id: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    attempts: int = ATTEMPTS
    conditional: bool | None = None


def is_object_url(path: str) -> bool:
    """Whether a path is a URL of object storage."""
    return path.split("://", 1)[0] in DEFAULT_CONNECTIONS and "://" in path


def place_of(url: str) -> ObjectPlace:
    """What a URL names.

    Raises:
        ConfigurationError: it names no bucket, or holds a key.
    """
    scheme, _, rest = url.partition("://")
    head, _, key = rest.partition("/")
    connection, _, bucket = head.rpartition("@")
    if ":" in connection:
        # The URL is not shown: it holds a secret.
        message = (
            f"a URL of {scheme}:// holds a key: put the key into a connection and write "
            f"{scheme}://CONNECTION@bucket/…"
        )
        raise ConfigurationError(message, code=Code.STORE_ADDRESS)
    if not bucket:
        message = f"{url} names no bucket: write {scheme}://bucket/folder"
        raise ConfigurationError(message, code=Code.STORE_ADDRESS)
    return ObjectPlace(scheme, connection, bucket, key.strip("/"))


def access_to(place: ObjectPlace) -> Access:
    """What the place's connection says.

    Without a connection of the default name, AWS's own variables, files and roles are used.

    Raises:
        ConfigurationError: a connection that the URL names is not there, or what it says cannot be
            used.
    """
    name = place.connection_name
    found = get_connection(name) if place.connection else find_connection(name)
    if found is None:
        if place.scheme == "oss":
            message = (
                f"{place.url} needs the connection {name}: add it in Airflow, or set "
                f"{variable_of(name)} to it as JSON, with the store's endpoint_url in extra"
            )
            raise ConfigurationError(message, code=Code.CONNECTION_MISSING)
        return Access(name)
    return _access(found, place)


def _access(connection: Connection, place: ObjectPlace) -> Access:
    extra, name = connection.extra, connection.name
    for key in _OTHER_IDENTITIES:
        if extra.get(key):
            message = (
                f"the connection {name} holds {key}, which is not accepted here: leave it out, and "
                "let AWS_PROFILE or the role of the machine say who asks"
            )
            raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    if bool(connection.login) != bool(connection.password):
        message = f"the connection {name} has only one of login (key id) and password (key)"
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    endpoint = _mapping(extra, "service_config", "s3").get("endpoint_url")
    endpoint = str(endpoint or extra.get("endpoint_url") or "").rstrip("/")
    if place.scheme == "oss" and not endpoint:
        message = (
            f"the connection {name} names no endpoint_url in extra: give the store's, e.g. "
            "https://s3.oss-cn-hangzhou.aliyuncs.com"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    if endpoint and "://" not in endpoint:
        message = (
            f"the endpoint_url of the connection {name} has no scheme: write https://{endpoint}"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    usual = "virtual" if place.scheme == "oss" else "auto"
    style = _mapping(extra, "config_kwargs", "s3").get("addressing_style") or usual
    if style not in STYLES:
        message = f"the addressing_style of the connection {name} is not one of {', '.join(STYLES)}"
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    return Access(
        name,
        endpoint,
        str(extra.get("region_name") or ""),
        style,
        connection.login,
        connection.password,
        str(extra.get("aws_session_token") or ""),
        _attempts(name, _mapping(extra, "config_kwargs", "retries")),
        _yes_or_no(name, extra.get("conditional_puts")),
    )


def _mapping(data: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        found = data.get(name)
        data = found if isinstance(found, dict) else {}
    return data


def _attempts(name: str, retries: dict[str, Any]) -> int:
    given = retries.get("total_max_attempts", retries.get("max_attempts", ATTEMPTS))
    if not str(given).isdecimal() or int(given) < 1:
        message = (
            f"the number of attempts in retries of the connection {name} is not a number above 0"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    return int(given)


def _yes_or_no(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    words = {"true": True, "false": False}
    if str(value).lower() not in words:
        message = f"conditional_puts of the connection {name} is neither true nor false"
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    return words[str(value).lower()]
