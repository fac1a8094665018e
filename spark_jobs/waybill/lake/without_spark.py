"""The lake for whoever only looks, read by PyIceberg: without Java, in a second and not in twenty.

Nothing is made and nothing is written. The answers are worked out by the same code as on Spark's
side (`History`); only opening the catalog and reading rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from waybill.lake.catalog_properties import catalog_properties
from waybill.lake.history import History
from waybill.lake.metadata import Metadata, Snapshot
from waybill.lake.names import split
from waybill.lake.settings import CATALOG
from waybill.lake.tables import QUALIFIED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from waybill.spec import Migration

SQLITE, POSTGRES = "jdbc:sqlite:", "jdbc:postgresql://"

ACCESS = {
    "s3.endpoint": "s3.endpoint",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "client.region": "s3.region",
}
"""What a store's key is called by Iceberg in Java, and here."""


class LakeWithoutSpark(History):
    """The Iceberg tables of one migration, each as it was when it was first looked at."""

    def __init__(self, migration: str, catalog: Catalog | None) -> None:
        super().__init__(migration)
        self._catalog = catalog
        self._load = cache(self._loaded)

    @classmethod
    def open(cls, spec: Migration) -> LakeWithoutSpark | None:
        """The lake of a migration; None where only Spark can open its catalog.

        Raises:
            ConfigurationError: a connection is not there, or the catalog cannot be where it is.
        """
        properties = catalog_properties(spec)
        kind = properties.get("type")
        uri = properties.get("uri", "")
        if "io-impl" in spec.lake.catalog:
            return None
        given = {theirs: properties[ours] for ours, theirs in ACCESS.items() if ours in properties}
        given["warehouse"] = properties["warehouse"]
        if kind == "jdbc" and uri.startswith(SQLITE):
            file = Path(uri.removeprefix(SQLITE).split("?")[0])
            if not file.is_file():
                # Nothing has run yet; looking must not make a catalog.
                return cls(spec.name, None)
            return cls(spec.name, _sql(f"sqlite:///{file}", given))
        if kind == "jdbc" and uri.startswith(POSTGRES):
            login = ":".join(
                quote(properties.get(name, ""), safe="") for name in ("jdbc.user", "jdbc.password")
            )
            place = uri.removeprefix(POSTGRES).split("?")[0]
            return cls(spec.name, _sql(f"postgresql+psycopg://{login}@{place}", given))
        return None

    def table_names(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, sorted."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        if self._catalog is None:
            return []
        try:
            return sorted(found[-1] for found in self._catalog.list_tables(namespace))
        except NoSuchNamespaceError:
            return []

    def owner(self, name: str) -> str | None:
        """The source table of a merged table."""
        return self.metadata(f"{CATALOG}.{self.migration}.{name}").properties.get(QUALIFIED)

    def exists(self, table: str) -> bool:
        """Whether the table is there."""
        return self._load(table) is not None

    def metadata(self, table: str) -> Metadata:
        """Snapshots and refs of a table."""
        found = self._table(table).metadata
        snapshots = {
            one.snapshot_id: Snapshot(
                one.snapshot_id, one.parent_snapshot_id, one.timestamp_ms, _summary(one)
            )
            for one in found.snapshots
        }
        refs = {name: ref.snapshot_id for name, ref in found.refs.items()}
        tags = frozenset(name for name, ref in found.refs.items() if ref.snapshot_ref_type == "tag")
        return Metadata(snapshots, refs, tags, dict(found.properties))

    def scan(
        self,
        table: str,
        columns: Sequence[str],
        where: Mapping[str, Sequence[str | int]],
        snapshot: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """See `History.scan`; files that cannot hold such rows are not opened."""
        from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In

        one_of: Any = In
        wanted: BooleanExpression = AlwaysTrue()
        for column, values in where.items():
            wanted = And(wanted, one_of(column, set(values)))
        found = self._table(table).scan(wanted, tuple(columns), snapshot_id=snapshot)
        tasks = list(found.plan_files())
        paths = [task.file.file_path.removeprefix("file://") for task in tasks]
        whole = not any(task.delete_files for task in tasks)
        if whole and tasks and all(path.startswith("/") for path in paths):
            # PyIceberg takes three times as long for a file, and a lake has many small ones.
            batches = _read_files(paths, self._table(table), columns, where)
        else:
            batches = found.to_arrow_batch_reader()
        for batch in batches:
            yield from batch.to_pylist()

    def _table(self, table: str) -> Table:
        found = self._load(table)
        assert found is not None, f"{table} is asked for and is not there"
        return found

    def _loaded(self, table: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return None if self._catalog is None else self._catalog.load_table(split(table))
        except NoSuchTableError:
            return None


def _read_files(
    paths: list[str],
    table: Table,
    columns: Sequence[str],
    where: Mapping[str, Sequence[str | int]],
) -> Iterator[pa.RecordBatch]:
    """Rows of files on this machine from which none was deleted.

    Columns are found by their names: those of the log tables never get another.
    """
    import pyarrow.dataset as ds
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    wanted: Any = None
    for column, values in where.items():
        one = ds.field(column).isin(list(values))
        wanted = one if wanted is None else wanted & one
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    files: Any = ds.dataset(paths, schema=schema, format="parquet")
    yield from files.to_batches(columns=list(columns), filter=wanted)


def _sql(uri: str, given: Mapping[str, str]) -> Catalog:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(CATALOG, uri=uri, init_catalog_tables="false", **given)


def _summary(snapshot: Any) -> dict[str, str]:
    if snapshot.summary is None:
        return {}
    more = snapshot.summary.additional_properties
    return {**more, "operation": snapshot.summary.operation.value}
