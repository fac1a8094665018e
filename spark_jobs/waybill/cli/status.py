"""`waybill status`."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.cli.lake_session import look_into
from waybill.cli.new_targets import waiting_targets
from waybill.cli.output import console, print_json, print_table
from waybill.counting import counted
from waybill.errors import WaybillError
from waybill.lake.decisions import decision_on
from waybill.made_ids import made_ids_sentence
from waybill.merge.position import STAGE as MERGE
from waybill.merge.position import held_merge, position_of
from waybill.merge.state import held_summary
from waybill.overview.commits import LAST, table_rows
from waybill.report import COLUMN_CHANGES, json_safe_cursor
from waybill.spec.file import load_migration
from waybill.verify.newest import label_of, last_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

PLACES = {
    "snapshot": "archive",
    "convert": "outbox",
    "merge": "merges",
    "validate": "runs",
    "publish": "published",
}
"""The table that a stage records its batches in."""

READS: dict[str, tuple[str, str, Callable[[dict[str, Any]], int | None]]] = {
    "convert": ("archive", "snapshot", lambda cursor: cursor["archive"]["upto"]),
    "merge": ("changes", "convert", lambda cursor: cursor["changes"]),
    "validate": ("merges", "merge", lambda cursor: cursor["merges"]),
    "publish": ("runs", "validate", lambda cursor: cursor["runs"]),
}
"""What a stage reads: the table, the stage that writes it, and up to which snapshot, as the cursor
of its last batch tells. One batch may take several of the stage before, so their ids tell less."""


def status_command(migration: Path, as_json: bool) -> None:
    """Say how far each stage is, what waits for it, and what the gate said last."""
    spec = load_migration(migration)
    with look_into(spec) as lake:
        stages = [stage_status(lake, stage) for stage in PLACES]
        tables = merged_status(lake)
        waiting = held_summary(position_of(lake).state)
        gate = last_gate(lake)
        source = source_status(spec, lake)
        verified = last_results(lake)
        to_begin = waiting_targets(spec, lake)
    if as_json:
        entries: list[dict[str, Any]] = [] if source is None else [{"source": source}]
        entries += [{"verified": verified}] if verified else []
        entries += [{"tables that wait": waiting}] if waiting else []
        entries += [{"targets": to_begin}] if to_begin else []
        print_json([*stages, {"tables": tables}, {"gate": gate}, *entries])
        return
    print_table(
        ["stage", "last batch", "when", "in", "out", "refused", "batches", "lag"],
        [
            [
                stage["stage"],
                stage["batch"],
                stage["time"],
                stage["in"],
                stage["out"],
                stage["refused"],
                stage["batches"],
                stage["lag"],
            ]
            for stage in stages
        ],
        spec.name,
    )
    for stage in stages:
        for target, counts in stage["made_ids"].items():
            line = f"last batch for {target}: {made_ids_sentence(counts)}"
            console().print(line, markup=False, soft_wrap=True)
    _print_held(spec, stages)
    _print_waiting(spec, waiting)
    for target in to_begin:
        console().print(target["sentence"], markup=False, soft_wrap=True)
    _print_source(source)
    if tables:
        rows = [
            [name, last["rows"], last["sequence"], last["time"]] for name, last in tables.items()
        ]
        titles = ["merged table", "rows", "complete up to sequence", "and time"]
        print_table(titles, rows)
        _print_changes(tables)
    if verified:
        titles = ["verified table", "method", "when", "differ", "not decided", "outcome"]
        names = ("method", "time", "differing", "undecided")
        figures = [[*(one[name] for name in names), one.get("outcome")] for one in verified]
        called = (label_of(one["table"], one.get("shard")) for one in verified)
        print_table(titles, [[name, *row] for name, row in zip(called, figures, strict=True)])
    if gate is not None:
        line = f"gate: batch {gate['batch']} {gate['outcome']}, {gate['page']}"
        console().print(line, markup=False, soft_wrap=True)


def _print_waiting(spec: Migration, waiting: dict[str, dict[str, Any]]) -> None:
    """The tables that wait for a decision."""
    for name, held in waiting.items():
        line = (
            f"waits: {name} since batch {held['since']} ({_time(held['time'] * 1000)}) with "
            f"{counted(held['changes'], 'change')}, while all others continue: {held['why']} "
            f"({spec.command('run', 'FILE')})"
        )
        console().print(line, markup=False, soft_wrap=True)


def _print_source(source: dict[str, Any] | None) -> None:
    """What waits at the source."""
    if source is not None and "error" in source:
        console().print(f"source: {source['error']}", markup=False, soft_wrap=True)
    elif source is not None:
        titles = ["topic", "partitions", "offsets not read", "deleted before they were read"]
        print_table(titles, [list(topic.values()) for topic in source["topics"]])


def _print_held(spec: Migration, stages: list[dict[str, Any]]) -> None:
    """Name the batch that is held, and what was decided about it."""
    for stage in stages:
        if stage["held"] is not None:
            line = (
                f"held: batch {stage['held']} is merged and has not passed the gate; its tables: "
                f"{spec.command('table', 'FILE', '--held')}"
            )
            console().print(line, markup=False, soft_wrap=True)
            if stage["decision"] is not None:
                line = f"decided: {stage['decision']['sentence']}, which the next run executes"
                console().print(line, markup=False, soft_wrap=True)


def _print_changes(tables: dict[str, dict[str, Any]]) -> None:
    """The last changes of columns of each table that had any."""
    names = ("batch", "change", "column", "before", "after", "effect", "statement")
    rows = [
        [table, *(one[name] for name in names)]
        for table, details in tables.items()
        for one in details[COLUMN_CHANGES]
    ]
    if rows:
        print_table(["last schema change", *names], rows)


def source_status(spec: Migration, lake: History) -> dict[str, Any] | None:
    """What the topics hold that was not read yet, or why that is unknown; None for files."""
    if spec.source.kafka is None:
        return None
    from waybill.sources.kafka.lag import cursors_of, lag_of

    cursors = cursors_of(lake)
    try:
        return {"topics": [lag._asdict() for lag in lag_of(spec.source.kafka, cursors)]}
    except WaybillError as error:
        return {"error": str(error)}


def merged_status(lake: History) -> dict[str, dict[str, Any]]:
    """Rows of each merged table, how far it is complete, how its columns changed."""
    from waybill.merge.watermark import plain

    state = position_of(lake).state
    runs = lake.log("runs")
    counted = table_rows(islice(lake.commits(runs), LAST) if lake.exists(runs) else ())
    return {
        name: {
            "rows": counted[name] if name in counted else lake.shown_rows(full, lake.head(full)),
            **plain(state.watermark(name)),
            COLUMN_CHANGES: msgspec.to_builtins(state.table(name).changes),
        }
        for name, full in lake.merged_tables().items()
    }


def stage_status(lake: History, stage: str) -> dict[str, Any]:
    """How far a stage is; lag counts the batches of the stage before that it has not read.

    A merge that the gate holds is done, and named under `held`.
    """
    held = held_merge(lake) if stage == MERGE else None
    done = _done(lake, stage, held)
    last = done[0] if done else None
    report = last.report if last else {}
    return {
        "stage": stage,
        "batch": last.batch if last else None,
        "time": _time(last.time_ms) if last else None,
        "in": report.get("rows_in"),
        "out": report.get("rows_out"),
        "refused": sum(report.get("refused", {}).values()) if last else None,
        "batches": len(done),
        "held": None if held is None else held.batch,
        "decision": None if held is None else _decided(lake, held),
        "lag": _lag(lake, stage, last),
        "cursor": json_safe_cursor(stage, last.cursor) if last else None,
        "made_ids": report.get("made_ids", {}),
    }


def _decided(lake: History, held: Commit) -> dict[str, Any] | None:
    """What a person has decided about the held batch."""
    decision = decision_on(lake, held)
    return None if decision is None else {**decision._asdict(), "sentence": str(decision)}


def _done(lake: History, stage: str, held: Commit | None) -> list[Commit]:
    """What a stage has committed, newest first, with what the gate holds of it."""
    visible = [c for c in lake.commits(lake.log(PLACES[stage])) if c.stage == stage]
    return visible if held is None else [held, *visible]


def _lag(lake: History, stage: str, last: Commit | None) -> int:
    """How many batches of the stage before came after what the last batch of a stage has read."""
    if stage not in READS:
        return 0
    table, before, upto = READS[stage]
    read = None if last is None else upto(last.cursor)
    came = lake.between(lake.log(table), read, None)
    held = before == MERGE and held_merge(lake) is not None
    return held + sum(commit.stage == before for commit in came)


def last_gate(lake: History) -> dict[str, Any] | None:
    """What the gate said last."""
    for commit in lake.commits(lake.log("runs")):
        details = commit.report.get("details", {})
        if "outcome" in details:
            return {"batch": commit.batch, "time": _time(commit.time_ms), **details}
    return None


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
