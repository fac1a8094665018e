"""A lake that many small batches have written, and one that the gate holds, made without Spark.

It takes a minute or two. Every batch takes a row of the one before away, by a file of deletes.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

from waybill.lake.names import branch_prefix
from waybill.lake.planned_files import PATH_ID
from waybill.merge.columns import BATCH, DELETED, IMAGE, KEY, OWN_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CHANGES = 20
"""Every batch brings so many, and one refused message to each stage that refuses any."""

KEYS = 500
"""So many rows the changes are of."""

MANIFESTS = 100
"""How many of them Iceberg in Java puts together to one."""

TIME = datetime(2026, 1, 2, tzinfo=UTC)
SINCE = int((time.time() - 86_400) * 1000)
REASON = {"reason_kind": "value", "reason": "column amount: 'twelve' is no decimal"}

ROW = pa.schema(
    [(name, pa.bool_() if kind == "boolean" else pa.string()) for name, kind in OWN_COLUMNS.items()]
)
"""The merged table, without the source's own columns."""

DELETES = pa.schema(
    [
        pa.field(name, kind, False, {"PARQUET:field_id": str(id_)})
        for name, kind, id_ in (
            ("file_path", pa.string(), PATH_ID),
            ("pos", pa.int64(), PATH_ID - 1),
        )
    ]
)
"""A file that names deleted rows; Iceberg specification, "Position Delete Files"."""

MERGED = "shop.shop_orders"

Rows = list[dict[str, Any]]


class Place(NamedTuple):
    """Where a lake is.

    Attributes:
        lake: as the migration says it.
        catalog: as PyIceberg takes it.
    """

    lake: dict[str, Any]
    catalog: dict[str, str]


def beside(folder: Path) -> Place:
    """A lake in a folder, with its catalog in it."""
    warehouse = folder / "lake"
    warehouse.mkdir(parents=True)
    catalog = {"uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": str(warehouse)}
    return Place({"warehouse": str(warehouse)}, catalog)


def filled_lake(folder: Path, batches: int, place: Place | None = None) -> Path:
    """A migration with a lake of so many batches; its file.

    Args:
        folder: of the file.
        batches: how many become visible; another one is held.
        place: where the lake is; beside the file where left out.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    from waybill import lake_columns as layout

    where = place or beside(folder)
    catalog = SqlCatalog("lake", **where.catalog)
    tables: dict[str, tuple[str, pa.Schema, tuple[str, ...]]] = {
        "shop_log.archive": ("snapshot", layout.ARCHIVE, ()),
        "shop_log.changes": ("convert", layout.CHANGES, ("outcome",)),
        "shop_log.outbox": ("convert", layout.OUTBOX, ("target", "outcome")),
        "shop_log.merges": ("merge", layout.MERGES, ("kind",)),
        "shop_log.runs": ("validate", layout.RUNS, ()),
        "shop_log.published": ("publish", layout.PUBLISHED, ()),
        MERGED: ("merge", ROW, ()),
    }
    made = [
        (_Filling(_created(catalog, name, schema, partitions), stage), schema)
        for name, (stage, schema, partitions) in tables.items()
    ]
    # A server answers some at a time.
    with ThreadPoolExecutor(len(made)) as pool:
        places = pool.map(lambda one: _filled(*one, batches), made)
        for name, metadata in zip(tables, places, strict=True):
            catalog.drop_table(name)
            catalog.register_table(name, metadata)
    file = folder / "shop.yaml"
    document = {
        "name": "shop",
        "source": {"files": {"path": "in"}, "envelope": "canal"},
        "lake": where.lake,
    }
    file.write_text(json.dumps(document))
    return file


def _filled(filling: _Filling, schema: pa.Schema, batches: int) -> str:
    """Write all batches of a table; the place of its metadata."""
    # The last batch is held: converted, merged and not visible.
    for number in range(batches + (filling.stage in ("snapshot", "convert"))):
        filling.add(number, schema)
    held = filling.stage == "merge"
    if held:
        filling.hold(batches, schema)
    return filling.commit(held)


def _created(catalog: Catalog, name: str, schema: pa.Schema, partitions: tuple[str, ...]) -> Table:
    """An empty table as the stages make it."""
    from waybill.lake.table_properties import QUALIFIED, TABLE_PROPERTIES

    catalog.create_namespace_if_not_exists(name.split(".")[0])
    owner = {QUALIFIED: "shop.orders"} if schema is ROW else {}
    table = catalog.create_table(name, schema, properties={**TABLE_PROPERTIES, **owner})
    with table.update_spec() as spec:
        for column in partitions:
            spec.add_identity(column)
    return table


class _Filling:
    """Writes the snapshots of one table as Iceberg in Java does, without a commit for each.

    PyIceberg takes the longer for a commit the more snapshots there are: too long for thousands.
    """

    def __init__(self, table: Table, stage: str) -> None:
        self.table, self.stage = table, stage
        self.snapshots: list[Snapshot] = []
        self.data = _Manifests(table, ManifestContent.DATA)
        self.deletes = _Manifests(table, ManifestContent.DELETES)
        self.before: DataFile | None = None
        self.rows = self.files = 0
        self.refs: dict[str, int] = {}

    def add(self, number: int, schema: pa.Schema) -> None:
        """A batch: a snapshot with its rows, and one with its stamp."""
        rows = _rows(self.table.name()[-1], number)
        whole = [{**dict.fromkeys(schema.names), **row} for row in rows]
        added = self._append(pa.Table.from_pylist(whole, schema))
        deletes = []
        if schema is ROW and self.before is not None:
            deletes.append(self._deleted(self.before))
        self.before = added[0]
        self._snapshot(added, deletes, len(rows), {})
        self._snapshot(
            [], [], 0, _stamp(self.stage, number, len(rows), self.snapshots[-1].snapshot_id)
        )
        self.refs["main"] = self.snapshots[-1].snapshot_id

    def hold(self, number: int, schema: pa.Schema) -> None:
        """A batch that is not visible, on a branch."""
        visible = self.refs["main"]
        self.add(number, schema)
        self.refs = {"main": visible, _branch(number): self.refs["main"]}

    def commit(self, held: bool) -> str:
        """Write the metadata down; its place."""
        refs = {
            name: SnapshotRef(snapshot_id=head, snapshot_ref_type=SnapshotRefType.BRANCH)
            for name, head in self.refs.items()
        }
        metadata = self.table.metadata.model_copy(
            update={
                "snapshots": self.snapshots,
                "refs": refs,
                "current_snapshot_id": self.refs["main"],
                "last_sequence_number": len(self.snapshots),
                "last_updated_ms": int(time.time() * 1000),
                "metadata_log": [],
                "snapshot_log": [
                    SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms)
                    for one in self.snapshots
                    if not held or one.snapshot_id <= self.refs["main"]
                ],
            }
        )
        place = f"{self.table.location()}/metadata/00001-{uuid4()}.gz.metadata.json"
        ToOutputFile.table_metadata(metadata, self.table.io.new_output(place))
        return place

    def _append(self, rows: pa.Table) -> list[DataFile]:
        return list(_dataframe_to_data_files(self.table.metadata, rows, self.table.io))

    def _deleted(self, file: DataFile) -> DataFile:
        """A file that says that the first row of another one is gone."""
        place = f"{self.table.location()}/data/{len(self.snapshots)}-deletes.parquet"
        row = pa.Table.from_pylist([{"file_path": file.file_path, "pos": 0}], DELETES)
        with self.table.io.new_output(place).create() as output:
            pq.write_table(row, output)
        bounds = {PATH_ID: file.file_path.encode()}
        return DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=place,
            file_format=FileFormat.PARQUET,
            partition=file.partition,
            record_count=1,
            file_size_in_bytes=len(self.table.io.new_input(place)),
            lower_bounds=bounds,
            upper_bounds=bounds,
        )

    def _snapshot(
        self, added: list[DataFile], deletes: list[DataFile], rows: int, stamp: dict[str, str]
    ) -> None:
        number = len(self.snapshots) + 1
        parent = number - 1 or None
        self.rows, self.files = self.rows + rows, self.files + len(added)
        self.data.add(number, added)
        self.deletes.add(number, deletes)
        lists = f"{self.table.location()}/metadata/snap-{number}.avro"
        written = write_manifest_list(
            2, self.table.io.new_output(lists), number, parent, number, "deflate"
        )
        manifests = [*self.data.files, *self.deletes.files]
        with written:
            written.add_manifests(manifests)
        # From here on the manifests have the number that the list gave them.
        for manifest in manifests:
            if manifest.sequence_number == UNASSIGNED_SEQ:
                manifest.sequence_number = manifest.min_sequence_number = number
        totals = {
            "added-records": str(rows),
            "added-data-files": str(len(added)),
            "total-records": str(self.rows),
            "total-data-files": str(self.files),
            "total-delete-files": str(self.deletes.count),
            "total-position-deletes": str(self.deletes.count),
            "total-equality-deletes": "0",
            "engine-name": "spark",
        }
        self.snapshots.append(
            Snapshot(
                snapshot_id=number,
                parent_snapshot_id=parent,
                sequence_number=number,
                manifest_list=lists,
                timestamp_ms=SINCE + 1000 * number,
                summary=Summary(Operation.APPEND, **totals, **stamp),
                schema_id=self.table.metadata.current_schema_id,
            )
        )


class _Manifests:
    """The lists of a table's files of data, or of deletes."""

    def __init__(self, table: Table, content: ManifestContent) -> None:
        self.table, self.content = table, content
        self.files: list[ManifestFile] = []
        self.entries: list[ManifestEntry] = []

    @property
    def count(self) -> int:
        """How many files they list."""
        return len(self.entries)

    def add(self, number: int, files: list[DataFile]) -> None:
        """List the files that a snapshot adds."""
        if not files:
            return
        entries = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
            for file in files
        ]
        self.files.insert(0, self._written(number, entries))
        for entry in entries:
            entry.sequence_number = entry.file_sequence_number = number
        self.entries = [*entries, *self.entries]
        if len(self.files) == MANIFESTS:
            self.files = [self._written(number, self.entries, existing=True)]

    def _written(
        self, number: int, entries: list[ManifestEntry], existing: bool = False
    ) -> ManifestFile:
        name = f"{number}-{self.content.name}-{'joined' if existing else 'added'}.avro"
        output = self.table.io.new_output(f"{self.table.location()}/metadata/{name}")
        writer = ManifestWriterV2 if self.content is ManifestContent.DATA else _DeletesWriter
        with writer(self.table.spec(), self.table.schema(), output, number, "deflate") as written:
            for entry in entries:
                if existing:
                    written.existing(entry)
                else:
                    written.add(entry)
        return written.to_manifest_file()


class _DeletesWriter(ManifestWriterV2):
    """Writes lists of files of deletes, for which PyIceberg has no writer."""

    def content(self) -> ManifestContent:
        """What the files hold."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _branch(number: int) -> str:
    """The branch of a held batch."""
    return f"{branch_prefix('merge', f'b{number}')}held"


def _stamp(stage: str, number: int, rows: int, newest: int) -> dict[str, str]:
    """What a stage notes with a batch."""
    from waybill.report import StageReport

    report = StageReport(stage, f"b{number}", rows_in=rows, rows_out=rows)
    report.details = {"outcome": "passed", "page": "gate.html", "sizes": {"bytes": 4454}}
    # All tables have the snapshots of a batch at the same numbers.
    upto = newest + 1
    cursor = {
        **dict.fromkeys(("changes", "merges", "runs"), upto),
        "archive": {"after": None, "upto": upto},
        "branches": {f"lake.{MERGED}": _branch(number)},
    }
    return {
        "waybill.batch": f"b{number}",
        "waybill.stage": stage,
        "waybill.cursor": json.dumps(cursor),
        "waybill.report": json.dumps(report.to_dict()),
    }


def _rows(table: str, number: int) -> Rows:
    """What a batch brings to a table."""
    batch = f"b{number}"
    first = number * (CHANGES + 1)
    places: Rows = [
        {"batch": batch, "topic": "shop", "partition": 0, "offset": first + n, "index": 0}
        for n in range(CHANGES + 1)
    ]
    refused = {**REASON, "outcome": "refused"}
    if table == "archive":
        return [{**place, "value": b"a message" * 20} for place in places]
    if table == "changes":
        good = [{**place, **_change(place["offset"])} for place in places[1:]]
        return [*good, {**places[0], **refused, "raw": b"a message"}]
    if table == "outbox":
        sent = {"target": "canal", "table": "shop.orders"}
        good = [{**place, **sent, "outcome": "ok", "value": b"message"} for place in places[2:]]
        return [*good, {**places[1], **sent, **refused}]
    if table == "merges":
        place = {**places[2], **REASON, "kind": "refused", "table": "shop.orders"}
        return [{"batch": batch, "kind": "state", "body": _state()}, place]
    if table == "shop_orders":
        images = (json.dumps(_image(place["offset"])) for place in places)
        keys = (json.dumps({"id": str(place["offset"])}) for place in places)
        live = {DELETED: False, BATCH: batch}
        return [{**live, KEY: key, IMAGE: row} for key, row in zip(keys, images, strict=True)]
    return [{"batch": batch}]


def _image(number: int) -> dict[str, str]:
    return {"id": str(number), "amount": str(number), "note": f"the note of {number}"}


def _change(number: int) -> dict[str, Any]:
    from waybill.order import order_key

    image = {**_image(number), "id": str(number % KEYS)}
    return {
        "operation": "insert",
        "database": "shop",
        "table": "orders",
        "outcome": "ok",
        "key": json.dumps({"id": image["id"]}),
        "after": json.dumps(image),
        "source_time": TIME,
        "order_key": order_key((number,), 1, 0, number, 0, False),
    }


def _state() -> str:
    from waybill.merge.state import MergeState

    return MergeState().to_json()
