"""The waybill of a batch as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from waybill.cli.new_targets import begun_lines
from waybill.cli.output import console, print_table, printable
from waybill.made_ids import made_ids_lines

if TYPE_CHECKING:
    from waybill.report import StageReport, Waybill

COLUMNS = (
    *("stage", "in", "further in", "out", "refused", "superseded", "skipped", "waiting"),
    *("seconds", "snapshots"),
)

SHOWN = 2
"""Snapshots of a stage that are shown."""


def print_waybill(waybill: Waybill) -> None:
    """Print what came in, what went out, what was refused and why."""
    title = f"{waybill.migration}, batch {waybill.batch}"
    print_table(COLUMNS, [row_of(report) for report in waybill.stages], title)
    out = console()
    for report in waybill.stages:
        for target, lost in report.losses.items():
            text = f"{target} does not carry: {counts(lost)}"
            out.print(printable(text), markup=False, style="yellow")
        for line in [*begun_lines(report), *made_ids_lines(report)]:
            out.print(printable(line), markup=False)
        for warning in report.warnings:
            out.print(printable(f"{report.stage}: {warning}"), markup=False, style="yellow")


def row_of(report: StageReport) -> list[object]:
    """One stage as a row of the table."""
    return [
        report.stage + (" (done before)" if report.repeated else ""),
        report.rows_in,
        counts(report.extra_in),
        report.rows_out,
        counts(report.refused),
        report.superseded,
        counts(report.skipped),
        report.waiting,
        report.seconds,
        _snapshots(report.snapshots),
    ]


def _snapshots(found: Mapping[str, int]) -> str:
    """The first few snapshots; a merge makes one in each of maybe hundreds of tables."""
    shown = [f"{_short(name)} {number}" for name, number in list(found.items())[:SHOWN]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more (--json)" if more else "")


def counts(values: Mapping[str, int]) -> str:
    """Counts by reason."""
    return ", ".join(f"{count} {reason}" for reason, count in values.items())


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]
