"""How sessions in MySQL and MariaDB are encrypted: `ssl` and `ssl_mode` in a connection's extra.

Source: MySQL Reference Manual, "Using Encrypted Connections", "Command Options for Encrypted
Connections" (`--ssl-mode`); PyMySQL's `Connection`; Airflow's "MySQL Connections".
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
_OF_MODES = {
    "REQUIRED": _UNCHECKED,
    "VERIFY_CA": {"check_hostname": False, "verify_mode": True},
    "VERIFY_IDENTITY": {"check_hostname": True, "verify_mode": True},
}
"""What is checked, by the modes in which a session is encrypted or refused."""
_OTHER_MODES = ("DISABLED", "PREFERRED")
_NO_TLS = 2026
"""The client's error where a session has to be encrypted and the server cannot."""


def tls_of(connection: Connection) -> dict[str, Any]:
    """What the driver is given for the `ssl` and `ssl_mode` of a connection.

    `ssl` may be JSON in a text. Without both, sessions are encrypted where the server can, and
    nobody's certificate is checked; with `true` they are encrypted or refused; with `false` they
    are not. An object (`ca`, `cert`, `key` …) encrypts or refuses as well, and its `ca` checks the
    server's certificate and name. `ssl_mode` is MySQL's, and then `ssl` only has the files.

    Raises:
        ConfigurationError: it is none of these, or the two contradict each other.
    """
    said, mode = _said(connection), connection.extra.get("ssl_mode")
    if mode is not None and mode != "":
        return _of_mode(connection, mode, said)
    if said is None:
        return {}
    if said is False:
        return {"ssl_disabled": True}
    if said is True or said == {}:
        # The driver takes an empty object for none, and would go on in the clear.
        return {"ssl": dict(_UNCHECKED)}
    return {"ssl": said}


def _said(connection: Connection) -> Any:
    """What `ssl` says: nothing, a boolean or an object of known names."""
    said = connection.extra.get("ssl")
    if isinstance(said, str):
        try:
            said = json.loads(said) if said.strip() else None
        except ValueError:
            raise _invalid(connection, "is a text that is no JSON") from None
    if said is None or isinstance(said, bool):
        return said
    if not isinstance(said, dict):
        raise _invalid(connection, f"is {said!r}")
    unknown = sorted(map(str, said.keys() - _TAKEN))
    if unknown:
        raise _invalid(connection, f"has the unknown {', '.join(unknown)}")
    return said


def _of_mode(connection: Connection, mode: Any, said: Any) -> dict[str, Any]:
    """What the driver is given for an `ssl_mode`, with the files that `ssl` names.

    Raises:
        ConfigurationError: there is no such mode, or `ssl` says something else.
    """
    name, known = str(mode).upper(), (*_OTHER_MODES, *_OF_MODES)
    if name not in known:
        raise _invalid_mode(connection, f"is {mode!r}: give {', '.join(known)}, or leave it out")
    checks = _OF_MODES.get(name)
    if checks is None:
        # The driver has no session that is encrypted with files only where the server can.
        if said not in ((None, {}, False) if name == "DISABLED" else (None, {})):
            raise _invalid_mode(connection, f"is {name}, and ssl asks for something else: {_ONE}")
        return {"ssl_disabled": True} if name == "DISABLED" else {}
    files = {} if said is None or said is True else said
    if files is False or any(files.get(check, at) != at for check, at in checks.items()):
        raise _invalid_mode(connection, f"is {name}, and ssl asks for something else: {_ONE}")
    has_authority = bool(files.get("ca") or files.get("capath"))
    if not has_authority and name != "REQUIRED":
        what = f"is {name}, and ssl names no ca or capath to check the certificate with: name one"
        raise _invalid_mode(connection, what)
    # Whoever names an authority has it asked, unless the object says that it is not to be.
    verifies = {"verify_mode": has_authority} if name == "REQUIRED" else {}
    return {"ssl": {**checks, **verifies, **files}}


_ONE = "give one of the two"


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


def _invalid_mode(connection: Connection, what: str) -> ConfigurationError:
    message = f"the connection {connection.name}: ssl_mode in its extra {what}"
    return ConfigurationError(message, code=Code.CONNECTION_INVALID)


def _invalid(connection: Connection, what: str) -> ConfigurationError:
    message = (
        f"the connection {connection.name}: ssl in its extra {what}: give true, false or an object "
        f"of {', '.join(sorted(_TAKEN))}"
    )
    return ConfigurationError(message, code=Code.CONNECTION_INVALID)
