"""Whether a server of this container answers, for the containers' health checks.

    python -m stack.answers PORT [PATH]

With a path the answer must be HTTP 200, without one anything that accepts connections will do.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

from stack.server import listening


def main(arguments: list[str]) -> int:
    """Return 0 if it answers."""
    port, *path = arguments
    if not path:
        return 0 if listening(int(port)) else 1
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path[0]}", timeout=3) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError):
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
