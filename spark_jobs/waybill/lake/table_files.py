"""The files that hold rows of a table, as Iceberg plans them for a scan."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from waybill.lake.names import split
from waybill.lake.planned_files import Planned
from waybill.lake.sizing import FEW_BYTES, FEW_FILES
from waybill.lake.stored_files import StoredFile
from waybill.lake.task_rows import DataFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from waybill.lake.catalog import Catalog
    from waybill.lake.metadata import Span
    from waybill.lake.planned_files import Where


def stored_files(catalog: Catalog, table: str, snapshot: int) -> list[StoredFile] | None:
    """The data files of a snapshot with what was deleted from them.

    Returns:
        None where tasks cannot read one of them without Iceberg.
    """
    loaded = catalog.load(*split(table))
    specs = loaded.specs()
    planned = loaded.newScan().useSnapshot(snapshot).planFiles()
    found: list[StoredFile] = []
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            task = tasks.next()
            file = task.file()
            path = str(file.location())
            deletes = []
            listed = task.deletes()
            # An error at the end of the list would take longer than reading the whole list.
            for number in range(listed.size()):
                delete = listed.get(number)
                known = catalog.opened_by_tasks(str(delete.location()))
                ours = str(delete.content()) == "POSITION_DELETES"
                if known is None or not ours or str(delete.format()) != "PARQUET":
                    return None
                deletes.append(known)
            known = catalog.opened_by_tasks(path)
            if known is None or str(file.format()) != "PARQUET":
                return None
            number = int(file.specId())
            spec = specs.get(number)
            part = None if spec.isUnpartitioned() else str(spec.partitionToPath(file.partition()))
            added = int(file.dataSequenceNumber() or 0)
            rows = int(file.recordCount())
            found.append(StoredFile(path, known, tuple(deletes), number, part, added, rows))
    finally:
        planned.close()
    return sorted(found)


def data_files(
    catalog: Catalog,
    span: Span,
    where: Mapping[str, Sequence[str]],
) -> list[DataFile] | None:
    """The files with the rows of a span that is not empty.

    Args:
        catalog: the catalog.
        span: which rows.
        where: the values that rows have in columns that the table is partitioned by.

    Returns:
        None where tasks cannot read them without Iceberg: rows were deleted from a file, the
        partition does not tell what rows it has, or files are where tasks cannot open them.
    """
    table = catalog.load(*split(span.table))
    if span.after is None:
        scan = table.newScan().useSnapshot(span.upto)
    else:
        scan = table.newIncrementalAppendScan().fromSnapshotExclusive(span.after)
        scan = scan.toSnapshot(span.upto)
    scan = _asking(catalog, scan, where)
    found: list[DataFile] = []
    planned = scan.planFiles()
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            task = tasks.next()
            file = task.file()
            path = catalog.opened_by_tasks(str(file.location()))
            whole = task.deletes().isEmpty() and str(task.residual()) == "true"
            if path is None or not whole or str(file.format()) != "PARQUET":
                return None
            found.append(DataFile(path, int(file.fileSizeInBytes())))
    finally:
        planned.close()
    # Manifests are read in no order; files of the same rows are to be dealt the same way, and those
    # of rows with a place in the order of their places (`place_runs.file_prefix`).
    return sorted(found)


def searched_files(
    catalog: Catalog, table: str, snapshot: int | None, where: Where
) -> list[Planned] | None:
    """The files of a snapshot, main's where it is None, that can hold some rows.

    Returns:
        None where they are not few, or cannot be read without Iceberg.
    """
    if snapshot is None:
        snapshot = catalog.metadata(*split(table)).refs.get("main")
        if snapshot is None:
            return []
    scan = catalog.load(*split(table)).newScan().useSnapshot(snapshot)
    scan = _asking(catalog, scan, where)
    shape = catalog.metadata(*split(table)).shape
    # Where files are partitioned in several ways, a file's own may not tell what rows it has.
    parts = {part for part, _ in shape.partitions} if shape.partitionings == 1 else set()
    left = {column: values for column, values in where.items() if column not in parts}
    found: list[Planned] = []
    size = 0
    planned = scan.planFiles()
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            task = tasks.next()
            path = catalog.opened_by_tasks(str(task.file().location()))
            size += int(task.file().fileSizeInBytes())
            plain = task.deletes().isEmpty() and str(task.file().format()) == "PARQUET"
            if path is None or not plain or size > FEW_BYTES or len(found) == FEW_FILES:
                return None
            found.append(Planned(path, int(task.file().fileSizeInBytes()), left))
    finally:
        planned.close()
    return found


def _asking(catalog: Catalog, scan: Any, where: Where) -> Any:
    """A scan for rows with some values in some columns."""
    expressions = catalog.java("org.apache.iceberg.expressions.Expressions")
    for column, values in where.items():
        equal = [expressions.equal(column, value) for value in values]
        either = getattr(expressions, "or")
        scan = scan.filter(reduce(either, equal) if equal else expressions.alwaysFalse())
    return scan
