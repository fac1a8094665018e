"""Programs that read tables of a lake by themselves, each without a filter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waybill.lake import Lake

DUCKDB = Path(__file__).resolve().parents[2] / "jars" / "consumers" / "duckdb"
"""Where `make consumers` puts it, with the extension that reads Iceberg."""

QUERY = """
import json, sys
import duckdb
from pathlib import Path

place, columns = sys.argv[1:]
session = duckdb.connect(config={"autoinstall_known_extensions": "false"})
for name in ("avro", "iceberg"):
    folder = Path(duckdb.__file__).parents[1] / f"duckdb_extension_{name}"
    (file,) = folder.glob("**/*.duckdb_extension")
    session.execute(f"LOAD '{file}'")
names = ", ".join(f'"{name}"' for name in json.loads(columns))
rows = session.execute(f"SELECT {names} FROM iceberg_scan('{place}')").fetchall()
print(json.dumps([[None if value is None else str(value) for value in row] for row in rows]))
"""

Rows = list[tuple[str | None, ...]]


def by_duckdb(lake: Lake, table: str, columns: list[str]) -> Rows:
    """The rows as DuckDB reads them, in a process of its own, as texts."""
    assert DUCKDB.is_dir(), f"there is no DuckDB in {DUCKDB}: run `make consumers`"
    place = str(lake.iceberg(table).operations().current().metadataFileLocation())
    done = subprocess.run(
        [sys.executable, "-c", QUERY, place.removeprefix("file:"), json.dumps(columns)],
        env={"PYTHONPATH": str(DUCKDB)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return _sorted(json.loads(done.stdout))


def by_pyiceberg(lake: Lake, table: str, columns: list[str]) -> Rows:
    """The rows as PyIceberg reads them, as texts."""
    from pyiceberg.table import StaticTable

    place = str(lake.iceberg(table).operations().current().metadataFileLocation())
    found = StaticTable.from_metadata(place).scan(selected_fields=tuple(columns)).to_arrow()
    return _sorted([[row[name] for name in columns] for row in found.to_pylist()])


def comments_by_pyiceberg(lake: Lake, table: str) -> dict[str, str | None]:
    """Comments of the columns as PyIceberg reads them."""
    from pyiceberg.table import StaticTable

    place = str(lake.iceberg(table).operations().current().metadataFileLocation())
    return {field.name: field.doc for field in StaticTable.from_metadata(place).schema().fields}


def by_spark(lake: Lake, table: str, columns: list[str]) -> Rows:
    """The rows as Spark reads them, as texts."""
    return _sorted([list(row) for row in lake.spark.table(table).select(*columns).collect()])


def _sorted(rows: list[list[Any]]) -> Rows:
    texts = (tuple(None if value is None else str(value) for value in row) for row in rows)
    return sorted(texts, key=str)
