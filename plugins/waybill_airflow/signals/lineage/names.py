"""Names of datasets, as OpenLineage's naming conventions have them for each kind of store.

A namespace says which store it is, a name what it is there. Whoever reads or writes the same topic,
file or table has to come to the same pair, whichever program it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from openlineage.client.naming.dataset import S3, Kafka, LocalFileSystem

from waybill.connections import get_connection
from waybill.full_load import TOPIC
from waybill.kafka.client import properties
from waybill.storage.objects.places import is_object_url, place_of

if TYPE_CHECKING:
    from waybill.merge.origins import TableOrigin
    from waybill.spec.endpoints import Target
    from waybill.spec.migration import Migration

ARCHIVE, CHANGES, OUTBOX = "archive", "changes", "outbox"
"""The lake's tables of messages, through which the stages hand batches on."""

_MAGIC = re.compile(r"[*?\[]")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_PORT = "9092"
"""The port of a server whose address names none."""


class Name(NamedTuple):
    """What a dataset is identified by."""

    namespace: str
    name: str


def of_files(path: str) -> Name:
    """A file, or a folder and what is in it."""
    if is_object_url(path):
        place = place_of(path)
        if place.scheme == "s3":
            named = S3(place.bucket, place.key or "/")
            return Name(named.get_namespace(), named.get_name())
        return Name(f"{place.scheme}://{place.bucket}", place.key or "/")
    path = path.removeprefix("file://")
    if (url := _URL.fullmatch(path)) is not None:
        return Name(f"{url[1]}://{url[2]}", url[3].strip("/") or "/")
    local = LocalFileSystem(path.rstrip("/") or "/")
    return Name(local.get_namespace(), local.get_name())


def of_read_files(path: str) -> Name:
    """Files that are read: those at a path or, of a pattern, all of its folder."""
    magic = _MAGIC.search(path)
    return of_files(path if magic is None else path[: path.rfind("/", 0, magic.start()) + 1])


def of_topic(connection: str, topic: str) -> Name:
    """A topic of Kafka; the first server of its connection stands for the cluster.

    Raises:
        ConfigurationError: there is no such connection, or it names no servers.
    """
    servers = properties(get_connection(connection))["bootstrap.servers"]
    first = servers.split(",")[0].strip().rpartition("://")[2]
    host, _, port = first.rpartition(":") if re.search(r":\d+$", first) else (first, "", _PORT)
    named = Kafka(host, port, topic)
    return Name(named.get_namespace(), named.get_name())


def of_sources(spec: Migration) -> list[Name]:
    """Everything that the migration's file names as its source; not what a pattern finds."""
    if spec.source.files is not None:
        found = [of_read_files(spec.source.files.path)]
    elif spec.source.kafka is not None:
        kafka = spec.source.kafka
        found = [of_topic(kafka.connection, topic) for topic in kafka.topics]
    else:
        found = []
    return found


def of_source(spec: Migration, topic: str) -> Name | None:
    """Where the messages of a topic come from: that topic, the source's files, a dump.

    None for the dump of a table that the migration's file does not name any more.
    """
    if topic.startswith(TOPIC):
        # The as_of of a dump follows the last @ if there is one; a table may have one, too.
        table = topic.removeprefix(TOPIC)
        dump = spec.full.get(table) or spec.full.get(table.rpartition("@")[0])
        return None if dump is None else of_read_files(dump.path)
    if spec.source.kafka is not None:
        return of_topic(spec.source.kafka.connection, topic)
    return None if spec.source.files is None else of_read_files(spec.source.files.path)


def of_target(target: Target) -> Name:
    """Where messages of a target go."""
    if target.kafka is not None:
        return of_topic(target.kafka.connection, target.kafka.topic)
    assert target.files is not None, "a target has one of the two"
    return of_files(target.files.path)


def of_merged(spec: Migration, table: TableOrigin) -> Name:
    """A merged table: its folder, as other programs that read Iceberg's tables name them."""
    return of_files(table.place) if table.place else _in_warehouse(spec, table.lake)


def of_log(spec: Migration, log: str) -> Name:
    """One of the lake's tables of messages."""
    return _in_warehouse(spec, f"{spec.name}_log.{log}")


def _in_warehouse(spec: Migration, table: str) -> Name:
    namespace, folder = of_warehouse(spec)
    path = "/".join([*([] if folder == "/" else [folder.rstrip("/")]), *table.split(".")])
    return Name(namespace, path)


def of_warehouse(spec: Migration) -> Name:
    """The warehouse."""
    return of_files(spec.lake.warehouse)
