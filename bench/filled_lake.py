"""A lake that many small batches have written, made without Spark in a minute or two."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

from waybill.merge.columns import BATCH, DELETED, KEY, OWN_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CHANGES = 20
"""Every batch brings so many, and one refused message to each stage that refuses any."""

MANIFESTS = 100
"""How many of them Iceberg in Java puts together to one."""

TIME = datetime(2026, 1, 2, tzinfo=UTC)
SINCE = int((time.time() - 86_400) * 1000)
REASON = {"reason_kind": "value", "reason": "column amount: 'twelve' is no decimal"}

ROW = pa.schema(
    [(name, pa.bool_() if kind == "boolean" else pa.string()) for name, kind in OWN_COLUMNS.items()]
)
"""The merged table, without the source's own columns."""

Rows = list[dict[str, Any]]


def filled_lake(folder: Path, batches: int) -> Path:
    """A migration with a lake of so many batches; its file."""
    from pyiceberg.catalog.sql import SqlCatalog

    from waybill import lake_columns as layout

    warehouse = folder / "lake"
    warehouse.mkdir(parents=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    tables: dict[str, tuple[str, pa.Schema, tuple[str, ...]]] = {
        "shop_log.archive": ("snapshot", layout.ARCHIVE, ()),
        "shop_log.changes": ("convert", layout.CHANGES, ("outcome",)),
        "shop_log.outbox": ("convert", layout.OUTBOX, ("target", "outcome")),
        "shop_log.merges": ("merge", layout.MERGES, ("kind",)),
        "shop_log.runs": ("validate", layout.RUNS, ()),
        "shop_log.published": ("publish", layout.PUBLISHED, ()),
        "shop.shop_orders": ("merge", ROW, ()),
    }
    for name, (stage, schema, partitions) in tables.items():
        filling = _Filling(_created(catalog, name, schema, partitions), stage)
        for number in range(batches):
            filling.add(number, schema)
        place = filling.commit()
        catalog.drop_table(name)
        catalog.register_table(name, place)
    file = folder / "shop.yaml"
    told = {
        "name": "shop",
        "source": {"files": {"path": "in"}, "envelope": "canal"},
        "lake": {"warehouse": "lake"},
    }
    file.write_text(json.dumps(told))
    return file


def _created(catalog: Catalog, name: str, schema: pa.Schema, partitions: tuple[str, ...]) -> Table:
    """An empty table as the stages make it."""
    from waybill.lake.tables import QUALIFIED, TABLE_PROPERTIES

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
        self.manifests: list[ManifestFile] = []
        self.entries: list[ManifestEntry] = []
        self.rows = self.files = 0

    def add(self, number: int, schema: pa.Schema) -> None:
        """A batch: a snapshot with its rows, and one with its stamp."""
        rows = _rows(self.table.name()[-1], number)
        whole = [{**dict.fromkeys(schema.names), **row} for row in rows]
        added = self._append(pa.Table.from_pylist(whole, schema))
        self._snapshot(added, len(rows), {})
        self._snapshot([], 0, _stamp(self.stage, number, len(rows), self.snapshots[-1].snapshot_id))

    def commit(self) -> str:
        """Write the metadata down; its place."""
        main = SnapshotRef(
            snapshot_id=self.snapshots[-1].snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH
        )
        metadata = self.table.metadata.model_copy(
            update={
                "snapshots": self.snapshots,
                "refs": {"main": main},
                "current_snapshot_id": main.snapshot_id,
                "last_sequence_number": len(self.snapshots),
                "last_updated_ms": int(time.time() * 1000),
                "metadata_log": [],
                "snapshot_log": [
                    SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms)
                    for one in self.snapshots
                ],
            }
        )
        place = f"{self.table.location()}/metadata/00001-filled.gz.metadata.json"
        ToOutputFile.table_metadata(metadata, self.table.io.new_output(place))
        return place

    def _append(self, rows: pa.Table) -> list[DataFile]:
        return list(_dataframe_to_data_files(self.table.metadata, rows, self.table.io))

    def _snapshot(self, added: list[DataFile], rows: int, stamp: dict[str, str]) -> None:
        number = len(self.snapshots) + 1
        parent = number - 1 or None
        self.rows, self.files = self.rows + rows, self.files + len(added)
        where = f"{self.table.location()}/metadata"
        if added:
            entries = [
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
                )
                for file in added
            ]
            self.manifests.insert(0, self._manifest(number, entries))
            for entry in entries:
                entry.sequence_number = entry.file_sequence_number = number
            self.entries = [*entries, *self.entries]
            if len(self.manifests) == MANIFESTS:
                self.manifests = [self._manifest(number, self.entries, existing=True)]
        lists = f"{where}/snap-{number}.avro"
        written = write_manifest_list(
            2, self.table.io.new_output(lists), number, parent, number, "deflate"
        )
        with written:
            written.add_manifests(self.manifests)
        # From here on the manifests have the number that the list gave them.
        for manifest in self.manifests:
            if manifest.sequence_number == UNASSIGNED_SEQ:
                manifest.sequence_number = manifest.min_sequence_number = number
        totals = {
            "added-records": str(rows),
            "added-data-files": str(len(added)),
            "total-records": str(self.rows),
            "total-data-files": str(self.files),
            "total-delete-files": "0",
            "total-position-deletes": "0",
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

    def _manifest(
        self, number: int, entries: list[ManifestEntry], existing: bool = False
    ) -> ManifestFile:
        kind = "joined" if existing else "added"
        output = self.table.io.new_output(f"{self.table.location()}/metadata/{number}-{kind}.avro")
        spec, schema = self.table.spec(), self.table.schema()
        with write_manifest(2, spec, schema, output, number, "deflate") as written:
            for entry in entries:
                if existing:
                    written.existing(entry)
                else:
                    written.add(entry)
        return written.to_manifest_file()


def _stamp(stage: str, number: int, rows: int, newest: int) -> dict[str, str]:
    """What a stage notes with a batch."""
    from waybill.report import StageReport

    report = StageReport(stage, f"b{number}", rows_in=rows, rows_out=rows)
    report.details = {"outcome": "passed", "page": "gate.html", "sizes": {"bytes": 4454}}
    cursor = {"changes": newest, "archive": {"after": None, "upto": newest}}
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
        live = {DELETED: False, BATCH: batch}
        return [{**live, KEY: json.dumps({"id": str(place["offset"])})} for place in places]
    return [{"batch": batch}]


def _change(number: int) -> dict[str, Any]:
    from waybill.order import order_key

    image = {"id": str(number % 500), "amount": str(number), "note": f"the note of {number}"}
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
