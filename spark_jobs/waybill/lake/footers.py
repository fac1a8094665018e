"""What Iceberg keeps of the data files that tasks have written, from the files' own footers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.errors import ReconciliationError
from waybill.lake.sizing import FOOTERS_AT_ONCE

if TYPE_CHECKING:
    from waybill.lake.data_files import WrittenFile

_ICEBERG = "org.apache.iceberg"
_PARQUET = f"{_ICEBERG}.shaded.org.apache.parquet"


class Footers:
    """Reads the footers of Parquet files in Java, where Iceberg makes its metrics of them.

    `ParquetUtil.fileMetrics` does the same, but asks for defaults in Hadoop's configuration, for
    which Hadoop reads files of XML again each time: fifteen milliseconds a file, four without. None
    of them is about a footer. Iceberg hides the one step that is needed besides, the adapter of its
    files for Parquet's reader.

    Args:
        java: gives a class by its full name.
        gateway: makes arrays.
    """

    def __init__(self, java: Callable[[str], Any], gateway: Any) -> None:
        self._java, self._gateway = java, gateway
        self._none = java("java.util.stream.Stream").empty
        self._reader = java(f"{_PARQUET}.hadoop.ParquetFileReader")
        self._metrics = java(f"{_ICEBERG}.parquet.ParquetUtil").footerMetrics
        settings = java(f"{_PARQUET}.conf.PlainParquetConfiguration")()
        self._options = java(f"{_PARQUET}.ParquetReadOptions").builder(settings).build()
        named = java("java.lang.Thread").currentThread().getContextClassLoader().loadClass
        adapter = named(f"{_ICEBERG}.parquet.ParquetIO")
        of_file = self._array("java.lang.Class", named(f"{_ICEBERG}.io.InputFile"))
        self._adapted = adapter.getDeclaredMethod("file", of_file)
        self._adapted.setAccessible(True)

    def metrics(self, file: Any, bounds: Any) -> Any:
        """Counts, sizes and bounds of a file's columns.

        Args:
            file: an input file of the table's `FileIO`.
            bounds: which bounds to keep, a `MetricsConfig`.
        """
        adapted = self._adapted.invoke(None, self._array("java.lang.Object", file))
        reader = self._reader.open(adapted, self._options)
        try:
            return self._metrics(reader.getFooter(), self._none(), bounds)
        finally:
            reader.close()

    def described(self, table: Any, files: Sequence[WrittenFile]) -> list[Any]:
        """Iceberg's description of data files of a table that tasks have written.

        Raises:
            ReconciliationError: a file does not hold what its task says.
        """
        # What is a list of Python comes to Java as one of small integers, which these are not.
        longs = self._java(f"{_ICEBERG}.relocated.com.google.common.primitives.Longs")
        long = self._java("long")
        bounds = self._java(f"{_ICEBERG}.MetricsConfig").forTable(table)
        data_files = self._java(f"{_ICEBERG}.DataFiles")

        def described(file: WrittenFile) -> Any:
            metrics = self.metrics(table.io().newInputFile(file.path), bounds)
            if int(metrics.recordCount()) != file.rows:
                message = (
                    f"{file.path} holds {counted(metrics.recordCount(), 'row')} and "
                    f"{counted(file.rows, 'was', 'were')} written; nothing was committed: run the "
                    "batch again"
                )
                raise ReconciliationError(message)
            data = data_files.builder(table.spec()).withPath(file.path)
            data = data.withFormat("parquet").withFileSizeInBytes(file.bytes).withMetrics(metrics)
            groups = self._gateway.new_array(long, len(file.groups))
            for i, start in enumerate(file.groups):
                groups[i] = start
            if file.partition:
                data = data.withPartitionValues(file.partition)
            return data.withSplitOffsets(longs.asList(groups)).build()

        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return list(pool.map(described, files))

    def _array(self, kind: str, value: Any) -> Any:
        array = self._gateway.new_array(self._java(kind), 1)
        array[0] = value
        return array
