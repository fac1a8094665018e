"""A lake in memory: snapshots with the stamps of stages, on main and on branches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from waybill.lake.history import History
from waybill.lake.metadata import Metadata, Snapshot
from waybill.lake.names import branch_prefix
from waybill.merge.state import MergeState, TableState
from waybill.report import NEWEST, TABLES_HELD, StageReport
from waybill.spec.migration import Migration

FIRST = 6_000_000_000_000_000_000
"""Ids of snapshots are as large as Iceberg's."""


def migration(folder: Any, name: str = "shop", **more: Any) -> Migration:
    data = {
        "name": name,
        "source": {"files": {"path": str(folder / "in")}, "envelope": "oms-default"},
        "publish": [{"envelope": "canal", "files": {"path": str(folder / "out")}}],
        "lake": {"warehouse": str(folder / "lake")},
        **more,
    }
    return Migration.model_validate(data)


class MadeLake(History):
    """What stages would have left, told step by step.

    Args:
        name: of the migration.
        clock: when the first commit is made, in milliseconds since 1970.
        step: how long after a commit the next one is made.
        table: the source table that changes.
    """

    def __init__(
        self,
        name: str = "shop",
        clock: int = 1_000_000,
        step: int = 1000,
        table: str = "shop.orders",
    ) -> None:
        super().__init__(name)
        self.source_table = table
        self._state = MergeState(tables={table: TableState()})
        self.looked_into: list[str] = []
        self.columns: list[str] = []
        self.tables_held: dict[str, dict[str, Any]] = {}
        self.newest_change = 0
        self.rule = "The share of refused messages is low"
        self.file = ""
        self.tables: dict[str, Metadata] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.scans = 0
        self._ids = count(FIRST)
        self._clock = count(clock, step)

    # What a history is asked for.

    def exists(self, table: str) -> bool:
        return table in self.tables

    def metadata(self, table: str) -> Metadata:
        return self.tables[table]

    def found(self, table: str) -> Metadata | None:
        return self.tables.get(table)

    def table_names(self, namespace: str) -> list[str]:
        names = (name.split(".")[1:] for name in self.tables)
        return sorted(name for space, name in names if space == namespace)

    def owner(self, name: str) -> str | None:
        self.looked_into.append(name)
        return self.source_table

    def scan(
        self, table: str, columns: Any, where: Any, snapshot: Any = None, chosen: Any = None
    ) -> Iterator[dict[str, Any]]:
        self.scans += 1
        for row in self.rows.get(table, []):
            if all(row[name] in values for name, values in where.items()):
                yield {name: row.get(name) for name in columns}

    # What stages do.

    def commit(
        self,
        table: str,
        stage: str,
        batch: str,
        cursor: dict[str, Any],
        report: StageReport | None = None,
        branch: str | None = None,
        name: str | None = None,
    ) -> int:
        """A stamped snapshot on main, or on a branch."""
        full = self.log(table) if name is None else f"lake.{self.migration}.{name}"
        known = self.tables.get(full, Metadata({}, {}, frozenset(), {}))
        number = next(self._ids)
        made = report or StageReport(stage, batch)
        made.stage, made.file = stage, self.file
        summary = {
            "waybill.batch": batch,
            "waybill.stage": stage,
            "waybill.cursor": json.dumps(cursor),
            "waybill.report": json.dumps(made.to_dict()),
            "total-records": str(made.rows_out),
        }
        parent = known.refs.get("main")
        snapshot = Snapshot(number, parent, next(self._clock), summary)
        self.tables[full] = known._replace(
            snapshots={**known.snapshots, number: snapshot},
            refs={**known.refs, branch or "main": number},
        )
        return number

    def show(self, table: str, branch: str) -> None:
        """Let main be a branch."""
        known = self.tables[self.log(table)]
        refs = dict(known.refs)
        refs["main"] = refs.pop(branch)
        self.tables[self.log(table)] = known._replace(refs=refs)

    def drop(self, table: str, branch: str) -> None:
        """Take a branch away, with what only it had."""
        known = self.tables[self.log(table)]
        refs = dict(known.refs)
        gone = refs.pop(branch)
        snapshots = {i: s for i, s in known.snapshots.items() if i != gone}
        self.tables[self.log(table)] = known._replace(refs=refs, snapshots=snapshots)

    def expire(self, table: str, keep: int) -> None:
        """Forget all but the newest snapshots of main."""
        known = self.tables[self.log(table)]
        line = known.ancestors(known.refs["main"])
        kept = {s.id: s for s in line[:keep]}
        self.tables[self.log(table)] = known._replace(snapshots=kept)

    # Whole stages.

    def head_of(self, table: str) -> int | None:
        return self.head(self.log(table))

    def snapshot(self, batch: str, messages: int) -> None:
        report = StageReport("snapshot", batch, rows_in=messages, rows_out=messages, seconds=1.0)
        span = {"topic": "shop", "partition": 0, "start": 0, "end": messages, "rows": messages}
        report.details = {"ranges": [span] if messages else []}
        self.commit("archive", "snapshot", batch, {"files": {}}, report)

    def convert(
        self, batch: str, refused: int = 0, again: bool = False, half: bool = False
    ) -> None:
        """Decode and encode all that was archived since; `half` stops between the two."""
        after, upto = self._read("changes", "convert", "archive"), self.head_of("archive")
        came = list(self.between(self.log("archive"), after, upto))
        rows = sum(c.report["rows_out"] for c in came)
        table = {self.source_table: {"insert": rows - refused}}
        report = StageReport("convert", batch, rows_in=rows, rows_out=rows - refused, seconds=2.0)
        report.refused = {"json": refused} if refused else {}
        report.details = {"tables": table, **({"tried_again": True} if again else {})}
        if self.newest_change:
            report.details[NEWEST] = {self.source_table: self.newest_change}
        cursor = {"archive": {"after": after, "upto": upto}}
        self.rows.setdefault(self.log("changes"), []).extend(
            {"batch": batch, "outcome": "refused"} for _ in range(refused)
        )
        self.commit("changes", "convert", batch, cursor, report)
        if not half:
            self.encode(batch, cursor, report)

    def encode(self, batch: str, cursor: dict[str, Any], report: StageReport) -> None:
        after, upto = self._read("outbox", "convert", "changes"), self.head_of("changes")
        came = list(self.between(self.log("changes"), after, upto))
        messages = sum(c.report["rows_out"] for c in came)
        counts = {"changes": messages, "messages": messages, "refused": {}, "skipped": {}}
        report.details = {**report.details, "targets": {"canal": counts}}
        report.losses = {"canal": {"sequence_id": messages}} if messages else {}
        cursor = {**cursor, "changes": {"after": after, "upto": upto}}
        self.commit("outbox", "convert", batch, cursor, report)

    def _read(self, table: str, stage: str, source: str) -> int | None:
        last = self.last(self.log(table), stage)
        return None if last is None else last.cursor[source]["upto"]

    def merge(self, batch: str) -> str:
        """Merge all that was decoded since, on a branch; its name."""
        last = self.last(self.log("merges"), "merge")
        after = None if last is None else last.cursor["changes"]
        came = list(self.between(self.log("changes"), after, None))
        rows = sum(c.report["rows_out"] for c in came)
        report = StageReport("merge", batch, rows_in=rows, rows_out=rows, seconds=3.0)
        upto = {"sequence": "29", "time": "2026-01-02T03:04:05Z"}
        report.details = {
            self.source_table: {"in": rows, "out": rows, "superseded": 0, "refused": 0}
            | {"complete up to": upto}
            | ({"columns": self.columns} if self.columns else {})
        }
        if self.tables_held:
            report.details[TABLES_HELD] = self.tables_held
        branch = f"{branch_prefix('merge', batch)}{next(self._ids)}"
        written = {f"lake.{self.migration}.shop_orders": branch}
        cursor = {"after": after, "changes": self.head_of("changes"), "branches": written}
        self.commit("merges", "merge", batch, cursor, report, branch)
        body = {"kind": "state", "batch": batch, "body": self._state.to_json()}
        # The record of a merge that was dropped went with its branch.
        others = [row for row in self.rows.get(self.log("merges"), []) if row["batch"] != batch]
        self.rows[self.log("merges")] = [*others, body]
        return branch

    def validate(self, batch: str, branch: str, passes: bool = True) -> None:
        """Judge a merge; what passes is visible."""
        head = self.tables[self.log("merges")].refs[branch]
        report = StageReport("validate", batch, rows_in=14, rows_out=14, seconds=4.0)
        report.details = {"outcome": "passed", "checked": 14, "failed_critical": 0}
        if not passes:
            rule = {"rule": self.rule, "waivable": True}
            report.details |= {"outcome": "failed", "failed_critical": 1, "held_for": [rule]}
        cursor = {
            "archive": self.head_of("archive"),
            "outbox": self.head_of("outbox"),
            "changes": self.head_of("changes"),
            "merges": head,
        }
        if passes:
            self.show("merges", branch)
            self.commit("", "merge", batch, {}, StageReport("merge", batch), name="shop_orders")
        self.commit("runs", "validate" if passes else "validate-failed", batch, cursor, report)

    def publish(self, batch: str) -> None:
        """Send all that was let through since."""
        last = self.last(self.log("published"), "publish")
        after = None if last is None else last.cursor["outbox"]
        judged = self.last(self.log("runs"), "validate")
        assert judged is not None
        came = list(self.between(self.log("outbox"), after, judged.cursor["outbox"]))
        sent = sum(c.report["details"]["targets"]["canal"]["messages"] for c in came)
        report = StageReport("publish", batch, rows_in=sent, rows_out=sent, seconds=5.0)
        report.details = {"canal": {"messages": sent, "manifests": [f"out/{batch}/manifest.json"]}}
        cursor = {"outbox": judged.cursor["outbox"], "runs": judged.snapshot}
        self.commit("published", "publish", batch, cursor, report)

    def run(self, batch: str, messages: int, refused: int = 0) -> None:
        """A batch that goes through."""
        self.snapshot(batch, messages)
        self.convert(batch, refused)
        self.validate(batch, self.merge(batch))
        self.publish(batch)
