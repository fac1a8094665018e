"""The data files of a table with what was deleted from them, for tasks that look rows up."""

from __future__ import annotations

from typing import Any, NamedTuple

from waybill.lake.task_rows import opened


class StoredFile(NamedTuple):
    """A data file and its position deletes.

    Attributes:
        path: where it is, as the table names it.
        opened: the same as tasks open it.
        deletes: the files of position deletes that may name its rows, as tasks open them.
        partitioning: the number of the way in which it is partitioned.
        partition: the part that it belongs to (`name=value/…`), None where it belongs to none.
        sequence: grows with the snapshots that add rows; 0 where that is not known.
          Source: Apache Iceberg table spec, "Sequence Numbers".
        rows: how many it has, with those that are gone; 0 where that is not known.
    """

    path: str
    opened: str
    deletes: tuple[str, ...] = ()
    partitioning: int = 0
    partition: str | None = None
    sequence: int = 0
    rows: int = 0

    def deleted(self) -> Any:
        """The places of the rows that are gone from it."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        found = []
        for path in self.deletes:
            with opened(path) as file:
                deletes = file.read(["file_path", "pos"], use_threads=False)
            paths: Any = deletes.column("file_path")
            mine = deletes.filter(pc.equal(paths, pa.scalar(self.path)))
            found.append(mine.column("pos").to_numpy())
        return np.concatenate(found) if found else np.empty(0, np.int64)
