"""Files of position deletes: rows of data files that are gone, by their places.

Source of the layout: Apache Iceberg table spec, "Position Delete Files" and "Reserved Field IDs".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.data_files import FIELD_ID
from waybill.storage.file_store import open_store

if TYPE_CHECKING:
    from waybill.lake.data_files import DataFileWriter
    from waybill.lake.stored_files import StoredFile

_PATH_ID, _POS_ID = 2147483546, 2147483545


class WrittenDeletes(NamedTuple):
    """A file of position deletes.

    Attributes:
        path: where it is, as the table names it.
        bytes: its size.
        of: the data file whose rows are gone.
    """

    path: str
    bytes: int
    of: StoredFile


def write_deletes(writer: DataFileWriter, of: StoredFile, places: Any) -> WrittenDeletes:
    """Write which rows of a data file are gone.

    Args:
        writer: writes the table's data files; these are put beside them.
        of: the file.
        places: the places of its rows, from 0, sorted.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def field(name: str, kind: pa.DataType, number: int) -> pa.Field[Any]:
        return pa.field(name, kind, nullable=False, metadata={FIELD_ID: str(number).encode()})

    schema = pa.schema(
        [field("file_path", pa.string(), _PATH_ID), field("pos", pa.int64(), _POS_ID)]
    )
    paths = pa.repeat(pa.scalar(of.path), len(places))
    table = pa.Table.from_arrays([paths, pa.array(places)], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    content = sink.getvalue()
    name = f"{secrets.token_hex(16)}-deletes.parquet"
    with open_store(writer.opened).write(name) as stream:
        stream.write(content)
    return WrittenDeletes(f"{writer.folder}/{name}", content.size, of)
