"""Puts the password of Airflow's user where Airflow looks for it.

    python -m stack.passwords

The password is in the environment variable WAYBILL_ADMIN_PASSWORD.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PLACE = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"


def main() -> int:
    """Write the file and return the exit status."""
    password = os.environ.get("WAYBILL_ADMIN_PASSWORD", "")
    if not password or PLACE not in os.environ:
        sys.stderr.write(f"set WAYBILL_ADMIN_PASSWORD and {PLACE}\n")
        return 2
    file = Path(os.environ[PLACE])
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump({"admin": password}, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
