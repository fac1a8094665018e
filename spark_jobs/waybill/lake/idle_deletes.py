"""Files of position deletes that delete nothing any more, because their rows were rewritten."""

from __future__ import annotations

from typing import Any


def idle_deletes(table: Any, files: Any, snapshot: int) -> list[Any]:
    """The files of deletes of a snapshot that no data file of it needs.

    Args:
        table: the table, in Java.
        files: Iceberg's class of manifests, `ManifestFiles`.
        snapshot: the snapshot.
    """
    needed = set()
    planned = table.newScan().useSnapshot(snapshot).planFiles()
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            needed |= {str(delete.location()) for delete in tasks.next().deletes()}
    finally:
        planned.close()
    idle = []
    for manifest in table.snapshot(snapshot).deleteManifests(table.io()):
        entries = files.readDeleteManifest(manifest, table.io(), table.specs())
        try:
            found = entries.iterator()
            while found.hasNext():
                # One object stands for all of them in turn.
                delete = found.next().copy()
                if str(delete.location()) not in needed:
                    idle.append(delete)
        finally:
            entries.close()
    return idle
