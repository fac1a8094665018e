"""Writes the secrets of the containers, made anew, into `.env`, where nobody else can read them.

    python3 stack/secrets_file.py [FILE]

Needs nothing but Python. A file that is there stays as it is.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
from pathlib import Path

NAMES = (
    "WAYBILL_ADMIN_PASSWORD",
    "WAYBILL_POSTGRES_PASSWORD",
    "WAYBILL_S3_KEY",
    "WAYBILL_S3_SECRET",
    "WAYBILL_DRIVER_TOKEN",
    "WAYBILL_JWT_SECRET",
    "WAYBILL_API_SECRET",
    "WAYBILL_FERNET_KEY",
)
"""Every secret that docker-compose.yaml asks for."""


def made(name: str) -> str:
    """A new secret. Letters and digits only, so that it can stand in a URL as it is."""
    if name == "WAYBILL_FERNET_KEY":
        return base64.urlsafe_b64encode(os.urandom(32)).decode()
    return secrets.token_hex(32)


def main(arguments: list[str]) -> int:
    """Write the file and return the exit status."""
    file = Path(arguments[0] if arguments else ".env")
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        sys.stderr.write(f"{file} is there and stays as it is; remove it for new secrets\n")
        return 1
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.writelines(f"{name}={made(name)}\n" for name in NAMES)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
