"""Clients for administrators: where they end."""

from __future__ import annotations

import gc
import subprocess
import sys

from waybill.kafka import admin_clients
from waybill.kafka.admin_clients import admin_client

COLLECTED_BY_ITS_OWN_THREAD = """
import gc, threading
from waybill.kafka.cluster import Cluster

gc.disable()
done = threading.Event()

def collect(_):
    gc.collect()
    done.set()

def ask():
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1", "log_level": "2"}, 0.2)
    cluster.itself = cluster  # as the traceback of an error refers to what it came from
    cluster.admin.describe_cluster(request_timeout=0.3).add_done_callback(collect)

ask()
assert done.wait(60)
print("alive")
"""


def test_a_cluster_that_is_collected_in_a_thread_of_its_client():
    """librdkafka aborts the process where a client ends in such a thread."""
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTED_BY_ITS_OWN_THREAD],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


def test_a_client_ends_when_the_next_one_is_made():
    class Owner: ...

    properties = {"bootstrap.servers": "127.0.0.1:1", "log_level": 2}
    owner, other = Owner(), Owner()
    client = admin_client(owner, properties)
    assert client not in admin_clients._ownerless, "its owner is there"
    del owner
    gc.collect()
    assert client in admin_clients._ownerless
    admin_client(other, properties)
    assert client not in admin_clients._ownerless
