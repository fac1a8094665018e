"""The address of this machine that no other machine reaches."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"

_PORTS = range(20_000, 32_000)
"""Below the ports that Linux, macOS and Windows give to clients by themselves.

A server that is started again needs its port again. One of the clients' may be taken by any of
them meanwhile, even by one that tries to reach the server and so comes to talk with itself.
"""

_chosen = random.SystemRandom()
_given: set[int] = set()
"""Ports that this process was given, and may not listen on yet."""


def free_port() -> int:
    """A port of the loopback address that nobody listens on at this moment, another one every time.

    Raises:
        OSError: none was found.
    """
    for port in _chosen.sample(_PORTS, 100):
        if port in _given:
            continue
        with socket.socket() as probe:
            # A port whose last connection has just ended can be listened on.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            _given.add(port)
            return port
    message = f"no port of {LOOPBACK} is free: of 100 between {_PORTS[0]} and {_PORTS[-1]}, none"
    raise OSError(message)
