"""Clients for administrators that end where they may.

`confluent_kafka` ends such a client when nothing refers to it any more, and librdkafka aborts the
whole process if that happens in one of the client's own threads ("rd_kafka_destroy() called from
librdkafka owned thread"). It can: an exception refers to what asked, and so to itself; it is left
to Python's collector, which runs in whatever thread makes objects, and the client's own thread does
so when it hands over an answer that comes late. So a client outlives its owner, and is released
when the next one is made.
"""

from __future__ import annotations

import weakref
from typing import Any

from confluent_kafka.admin import AdminClient

_ownerless: list[AdminClient] = []
"""Clients whose owners are gone; each runs until the next one is made."""


def admin_client(owner: object, properties: dict[str, Any]) -> AdminClient:
    """A client that does not end before its owner, and never in a thread of its own.

    Args:
        owner: who asks by it.
        properties: of the client, with its callbacks.

    Raises:
        KafkaException: a property is wrong.
    """
    # To be called in a thread of ours: here the clients end.
    _ownerless.clear()
    client = AdminClient(properties)
    weakref.finalize(owner, _ownerless.append, client)
    return client
