"""How sessions in MySQL and MariaDB are encrypted: what `ssl` in a connection's extra says.

Source: MySQL Reference Manual, "Using Encrypted Connections"; PyMySQL's `Connection`.
"""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, ConfigurationError

if TYPE_CHECKING:
    from waybill.connections import Connection

_TAKEN = {
    *("ca", "capath", "cert", "key", "password", "cipher"),
    *("check_hostname", "verify_mode"),
}
"""What the driver reads of an object; it would pass over everything else without a word."""
_UNCHECKED = {"check_hostname": False, "verify_mode": False}
_NO_TLS = 2026
"""The client's error where a session has to be encrypted and the server cannot."""


def tls_of(connection: Connection) -> dict[str, Any]:
    """What the driver is given for the `ssl` of a connection, which may be JSON in a text.

    Without one, sessions are encrypted where the server can, and nobody's certificate is checked;
    with `true` they are encrypted or refused; with `false` they are not. An object (`ca`, `cert`,
    `key` …) encrypts or refuses as well, and its `ca` checks the server's certificate and name.

    Raises:
        ConfigurationError: it is none of these.
    """
    said = connection.extra.get("ssl")
    if isinstance(said, str):
        try:
            said = json.loads(said) if said.strip() else None
        except ValueError:
            raise _invalid(connection, "is a text that is no JSON") from None
    if said is None:
        return {}
    if said is False:
        return {"ssl_disabled": True}
    if said is True or said == {}:
        # The driver takes an empty object for none, and would go on in the clear.
        return {"ssl": dict(_UNCHECKED)}
    if not isinstance(said, dict):
        raise _invalid(connection, f"is {said!r}")
    unknown = sorted(map(str, said.keys() - _TAKEN))
    if unknown:
        raise _invalid(connection, f"has the unknown {', '.join(unknown)}")
    return {"ssl": said}


def unusable(connection: Connection, error: Exception) -> ConfigurationError:
    """Why the files or values of `ssl` cannot be used."""
    return _invalid(connection, f"cannot be used ({error})")


def refuses_tls(error: Exception) -> bool:
    """Whether the two sides could not agree on an encrypted session, which no second try changes.

    Args:
        error: one of the driver.
    """
    cause = getattr(error, "original_exception", None)
    number = error.args[0] if error.args else 0
    return number == _NO_TLS or isinstance(cause, ssl.SSLCertVerificationError)


def _invalid(connection: Connection, what: str) -> ConfigurationError:
    message = (
        f"the connection {connection.name}: ssl in its extra {what}: give true, false or an object "
        f"of {', '.join(sorted(_TAKEN))}"
    )
    return ConfigurationError(message, code=Code.CONNECTION_INVALID)
