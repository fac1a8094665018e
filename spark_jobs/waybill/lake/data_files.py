"""Data files that tasks write themselves, from the Arrow batches that they make anyway.

Spark would take every row out of its batch and hand it to a writer of rows, which costs several
times what Arrow's own writer takes. The files carry the table's field ids and are committed through
Iceberg's own API, which reads their bounds and counts from their footers; a file of a task that
failed is in no commit.

Source of the layout: Apache Iceberg table spec, "Parquet" and "Reserved Field IDs".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted
from waybill.errors import ReconciliationError
from waybill.lake.place_runs import PlaceRuns, file_prefix
from waybill.storage.file_store import file_name, open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.storage.file_store import Store

ROW_GROUP_BYTES = 16 << 20
"""Bytes of rows in one row group: so few that every core gets some of a file."""

FILE_BYTES = 1 << 30
"""Bytes of Arrow in one file; it takes a fifth to a twentieth of that."""

_SAMPLE, _OFTEN = 1000, 10
"""So many rows tell whether values are worth a dictionary: each comes so often or more."""

SMALL = ROW_GROUP_BYTES // 16
"""A row group of so many bytes may end early because other rows follow."""

EARLY = 16
"""So many smaller ones more than there are full ones may do so, too."""

FIELD_ID = b"PARQUET:field_id"
"""Where Arrow has the id of a file's column."""

WRITTEN_DDL = "path string, bytes long, rows long, partition array<string>, groups array<long>"
"""What a task tells of a file: where it is, its size, its values of the partition columns, and
where its row groups begin."""


class WrittenFile(NamedTuple):
    """A data file as its task tells of it.

    Attributes:
        path: where it is, as the table names it.
        bytes: its size.
        rows: how many rows it holds.
        partition: its values of the columns that the table is partitioned by.
        groups: where its row groups begin.
    """

    path: str
    bytes: int
    rows: int
    partition: tuple[str, ...]
    groups: list[int]


@dataclass(frozen=True, slots=True)
class DataFileWriter:
    """Writes rows into data files of one table, inside tasks.

    Attributes:
        folder: the table's folder for data, as the table names it.
        opened: the same as tasks open it.
        schema: the rows, with the table's field ids.
        partition_by: the columns that the table is partitioned by, as they are.
        by_place: whether rows come from messages, whose places (`MESSAGE_PLACE`) they have: then
            row groups keep to one range of a partition, and files sort by it.
    """

    folder: str
    opened: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    by_place: bool = False

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write every row, and tell of the files.

        Raises:
            ReconciliationError: a row has no value in a partition column.
        """
        import pyarrow as pa

        files: dict[tuple[str, ...], _File] = {}
        written: list[WrittenFile] = []
        with ExitStack() as stack:
            for batch in batches:
                for found, rows in self._by_partition(batch):
                    values = tuple(map(_text, found))
                    file = files.get(values)
                    if file is None:
                        prefix = file_prefix(rows) if self.by_place else ""
                        file = _File(self, values, prefix)
                        files[values] = stack.enter_context(file)
                    file.add(rows)
                    if file.full:
                        written.append(file.finish())
                        del files[values]
            written += [file.finish() for file in files.values()]
        texts, numbers = pa.list_(pa.string()), pa.list_(pa.int64())
        kinds = [pa.string(), pa.int64(), pa.int64(), texts, numbers]
        names = ["path", "bytes", "rows", "partition", "groups"]
        columns = list(zip(*written, strict=True)) or [()] * len(names)
        arrays = [pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names)

    def _by_partition(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not batch.num_rows:
            return
        if not self.partition_by:
            yield (), batch
            return
        names = list(self.partition_by)
        for name in names:
            if missing := batch.column(name).null_count:
                rows = counted(missing, "row has", "rows have")
                message = f"{rows} no value in {name}; nothing was committed"
                raise ReconciliationError(message)
        places = pa.Table.from_batches([batch.select(names)]).group_by(names).aggregate([])
        found = list(zip(*(places.column(name).to_pylist() for name in names), strict=True))
        if len(found) == 1:
            yield found[0], batch
            return
        for values in found:
            mine: Any = True
            for name, value in zip(names, values, strict=True):
                mine = pc.and_(mine, pc.equal(batch.column(name), value))
            yield values, batch.filter(mine)


class _File:
    """One file that is being written; it is there only if it was finished."""

    def __init__(self, writer: DataFileWriter, values: tuple[str, ...], prefix: str) -> None:
        pairs = zip(writer.partition_by, values, strict=True)
        folders = [f"{name}={file_name(value)}" for name, value in pairs]
        self._store: Store = open_store("/".join((writer.opened, *folders)))
        self._name = f"{prefix}{secrets.token_hex(16)}.parquet"
        self._path = "/".join((writer.folder, *folders, self._name))
        self._values = values
        self._schema = writer.schema
        self._runs = PlaceRuns() if writer.by_place else None
        self._early = EARLY
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._taken = 0
        self._rows = 0
        self._footers: list[Any] = []
        self._parquet: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> _File:
        with ExitStack() as stack:
            self._stream = _Counted(stack.enter_context(self._store.write(self._name)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        # After `finish` there is nothing left to close.
        self._stream.given_up = True
        if self._parquet is not None:
            with suppress(Exception):  # the first error is the one to tell
                self._parquet.close()
        self._stack.__exit__(*raised)

    @property
    def full(self) -> bool:
        """Whether another file should be begun."""
        return self._taken >= FILE_BYTES

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows; as soon as they make a row group, or others follow, they are written."""
        self._rows += rows.num_rows
        runs = [(True, rows)] if self._runs is None else self._runs.cut(rows)
        for follows, run in runs:
            small = self._held_bytes < SMALL
            if not follows and self._held and (self._early or not small):
                self._early -= small
                self._flush(ahead=rows)
            self._held.append(run)
            self._held_bytes += run.nbytes
            if self._held_bytes >= ROW_GROUP_BYTES:
                self._early += 1
                self._flush()

    def _flush(self, ahead: pa.RecordBatch | None = None) -> None:
        """Write what is held, as a row group.

        Args:
            ahead: rows that come next: what the file is like is decided by them, too.
        """
        import pyarrow as pa

        if self._held:
            table = pa.Table.from_batches(self._held).cast(self._schema)
            if self._parquet is None:
                sample = self._held if ahead is None else [*self._held, ahead]
                self._parquet = self._begun(pa.Table.from_batches(sample))
            self._parquet.write_table(table, row_group_size=max(1, table.num_rows))
            self._taken += self._held_bytes
            self._held, self._held_bytes = [], 0

    def _begun(self, first: pa.Table) -> Any:
        import pyarrow.parquet as pq

        sink: Any = self._stream  # all of a stream that Arrow asks for
        dictionaries: Any = repeating(first)
        return pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            use_dictionary=dictionaries,
            write_page_index=True,
            write_page_checksum=True,
            metadata_collector=self._footers,
        )

    def finish(self) -> WrittenFile:
        """Let the file appear, and tell of it."""
        self._flush()
        assert self._parquet is not None, "a file is begun for a row"
        self._parquet.close()
        self._stack.close()
        (footer,) = self._footers
        groups = [begin_of(footer.row_group(i)) for i in range(footer.num_row_groups)]
        return WrittenFile(self._path, self._stream.bytes, self._rows, self._values, groups)


def repeating(rows: pa.Table) -> list[str]:
    """The columns whose values come again and again, as the first rows show.

    A dictionary of values that hardly ever come twice is made in vain, and given up when it is too
    large: a fifth of the time of writing, and a tenth of the bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    sample = rows.slice(0, _SAMPLE)
    return [
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type)
        if pc.count_distinct(sample.column(field.name)).as_py() <= max(1, len(sample) // _OFTEN)
    ]


def _text(value: Any) -> str:
    """A value of a partition column as Iceberg writes it: texts and booleans are all there are."""
    return str(value).lower() if isinstance(value, bool) else value


def begin_of(group: Any) -> int:
    """The place in its file where a row group begins, as Parquet's footers tell it."""
    first = group.column(0)
    begin: int = first.dictionary_page_offset or first.data_page_offset
    return begin


class _Counted:
    """A stream that knows how many bytes went through."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bytes = 0
        self.given_up = False

    def write(self, data: Any) -> int:
        if not self.given_up:
            self._stream.write(data)
        size = memoryview(data).nbytes
        self.bytes += size
        return size

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """What is behind flushes when it is closed."""


def with_field_ids(schema: pa.Schema, iceberg: Mapping[str, Any]) -> pa.Schema:
    """A schema whose fields carry the ids of the table's columns.

    Args:
        schema: the rows.
        iceberg: the table's schema, as Iceberg's JSON has it.
    """
    import pyarrow as pa

    fields = {field["name"]: field for field in iceberg["fields"]}
    return pa.schema([_field(field, fields[field.name]) for field in schema])


def _field(field: pa.Field[Any], described: dict[str, Any]) -> pa.Field[Any]:
    return _numbered(field.with_type(_type(field.type, described["type"])), described["id"])


def _type(kind: Any, type_: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_list(kind):
        inner = kind.value_field.with_type(_type(kind.value_type, type_["element"]))
        return pa.list_(_numbered(inner, type_["element-id"]))
    if pa.types.is_struct(kind):
        fields = {field["name"]: field for field in type_["fields"]}
        return pa.struct([_field(part, fields[part.name]) for part in kind])
    return kind


def _numbered(field: pa.Field[Any], number: int) -> pa.Field[Any]:
    return field.with_metadata({FIELD_ID: str(number).encode()})
