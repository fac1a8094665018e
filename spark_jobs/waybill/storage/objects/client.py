"""The client of a store, and its errors as sentences.

The client tries again by itself what may pass: a server that is busy, that fails, or that cuts the
connection. What is left after that is raised by `errors_translated`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from waybill.errors import Code, ConfigurationError, UnavailableError, WaybillError

if TYPE_CHECKING:
    from waybill.storage.objects.places import Access, ObjectPlace

Result = TypeVar("Result")

CONNECT_SECONDS, READ_SECONDS = 5, 60

PAUSES = (0.1, 0.4, 1.6, 3.2)
"""Seconds to wait before an answer that was cut off is asked for again."""

BUSY = {
    *("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "RequestLimitExceeded"),
    *("Throttling", "ThrottlingException", "TooManyRequests", "500", "502", "503", "504"),
}
"""Codes of a server that may do better later."""

UNKNOWN_KEY = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    *("TokenRefreshRequired", "AuthFailure", "InvalidSecurity"),
}
REFUSED = {"AccessDenied", "Forbidden", "AllAccessDisabled", "401", "403"}
ELSEWHERE = {
    *("PermanentRedirect", "AuthorizationHeaderMalformed", "301"),
    "IllegalLocationConstraintException",
}
GONE = {"NoSuchKey", "NotFound", "404"}
TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict"}
"""Codes of a condition that did not hold."""


@lru_cache(maxsize=32)
def client_of(access: Access) -> Any:
    """A client, made once per process; threads may share it.

    Raises:
        ConfigurationError: the endpoint is not a URL.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": access.attempts},
        s3={"addressing_style": access.style},
        max_pool_connections=16,
        tcp_keepalive=True,
        # Every put brings its MD5 sum, which all servers check; newer sums some cannot take.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=access.endpoint or None,
            # A server of one's own has no regions, but a signature names one.
            region_name=access.region or ("us-east-1" if access.endpoint else None),
            aws_access_key_id=access.key_id or None,
            aws_secret_access_key=access.secret or None,
            aws_session_token=access.token or None,
            config=config,
        )
    except (BotoCoreError, ValueError) as error:
        message = f"the connection {access.connection} cannot be used ({error}): fix it"
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID) from error


def code_of(error: BaseException) -> str:
    """S3's code of an error, empty where it has none."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


@contextmanager
def errors_translated(place: ObjectPlace, access: Access) -> Iterator[None]:
    """Raise what the client raises as what it means.

    Raises:
        FileNotFoundError: there is no such object.
        ConfigurationError: no key, a wrong one, no permission, no such bucket.
        UnavailableError: the server cannot be reached, or failed every time.
    """
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,
        HTTPClientError,
        IncompleteReadError,
    )

    try:
        yield
    except ClientError as error:
        raise _meant(error, place, access) from error
    except (ConnectionError, HTTPClientError, IncompleteReadError) as error:
        raise UnavailableError(
            _unreachable(access, _reason(error)), code=Code.STORE_UNREACHABLE
        ) from error
    except BotoCoreError as error:
        raise _unsent(error, place, access) from error


def _meant(error: Any, place: ObjectPlace, access: Access) -> Exception:
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    at, connection = server_of(access), access.connection
    if code == "NoSuchBucket":
        message = f"there is no bucket {place.bucket} at {at}: make it, or fix {place.url}"
        return ConfigurationError(message, code=Code.STORE_ADDRESS)
    if code in GONE:
        return FileNotFoundError(place.url)
    if code in UNKNOWN_KEY:
        message = (
            f"{at} does not take the key of the connection {connection} ({code}): fix its login "
            "and password"
        )
        return ConfigurationError(message, code=Code.STORE_DENIED)
    if code in REFUSED:
        message = (
            f"{at} does not let the connection {connection} do this with {place.url} ({code}): "
            "give it the permission, or fix its login and password"
        )
        return ConfigurationError(message, code=Code.STORE_DENIED)
    if code in ELSEWHERE:
        message = (
            f"the bucket {place.bucket} is in another region than the connection {connection} says "
            f"({code}): fix region_name in its extra"
        )
        return ConfigurationError(message, code=Code.STORE_ADDRESS)
    if code in BUSY or status >= 500:
        message = f"{at} keeps failing ({code or status}): run again when it has recovered"
        return UnavailableError(message, code=Code.STORE_UNREACHABLE)
    return WaybillError(
        f"{at} refused a request about {place.url} ({error})", code=Code.STORE_DENIED
    )


def _unsent(error: Exception, place: ObjectPlace, access: Access) -> WaybillError:
    if "Credential" in type(error).__name__:
        name = access.connection
        message = (
            f"there is no key for {place.url}: give the connection {name} a login (key id) and a "
            "password (key), or set AWS's own variables"
        )
        return ConfigurationError(message, code=Code.STORE_DENIED)
    return ConfigurationError(
        f"{place.url} cannot be used ({error}): fix its URL or connection", code=Code.STORE_ADDRESS
    )


def _unreachable(access: Access, reason: str) -> str:
    return (
        f"{server_of(access)} cannot be reached ({reason}): run again when it can, or fix the "
        f"endpoint_url of the connection {access.connection}"
    )


def _reason(error: Exception) -> str:
    names = {
        "EndpointConnectionError": "no server answers there",
        "ConnectTimeoutError": f"no connection within {CONNECT_SECONDS} s",
        "ReadTimeoutError": f"no answer within {READ_SECONDS} s",
        "ConnectionClosedError": "it closes the connection",
    }
    return names.get(type(error).__name__, type(error).__name__)


def server_of(access: Access) -> str:
    """The store as people name it."""
    return access.endpoint or "S3"


def check_bucket(place: ObjectPlace, access: Access) -> None:
    """Look whether the bucket is there, the key is taken and it may list.

    It tries less long than other requests, so that what is wrong is reported soon.

    Raises:
        ConfigurationError: no such bucket, or nobody that it knows asks.
        UnavailableError: the server cannot be reached.
    """
    client = client_of(replace(access, attempts=min(access.attempts, 2)))
    with errors_translated(place, access):
        client.list_objects_v2(Bucket=place.bucket, Prefix=place.key, MaxKeys=1)


def patiently(read: Callable[[], Result]) -> Result:
    """What `read` gives; it is called again where the body of an answer was cut off."""
    from botocore.exceptions import IncompleteReadError, ResponseStreamingError

    for pause in PAUSES:
        try:
            return read()
        except (IncompleteReadError, ResponseStreamingError):
            time.sleep(pause)
    return read()
