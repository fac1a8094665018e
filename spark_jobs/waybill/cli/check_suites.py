"""Suites of the gate, run over what a sample has.

Profiles are made of it without Spark; suites on rows see small tables of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.cli.check_rows import SampleRows
from waybill.cli.check_tables import image_of
from waybill.cli.findings import NOTE, OK, WRONG, Finding
from waybill.counting import counted
from waybill.errors import ConfigurationError, Refusal, WaybillError
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from waybill.merge.rules import Change as Ruled
    from waybill.protocol import Encoder
    from waybill.records import Change
    from waybill.spec.migration import Migration
    from waybill.validate.result import Checked
    from waybill.validate.suites import Suite

Figures = dict[str, Any]


def check_suites(
    spec: Migration, changes: list[Change], encoders: Mapping[str, Callable[[], Encoder]]
) -> Iterator[Finding]:
    """Load the suites and run every expectation over the sample.

    An expectation that cannot be checked is wrong. One that the sample does not meet is shown and
    no more: the figures of a whole batch are others. Suites on rows are run by Spark, as in the
    gate; it is started where a migration has such suites, and the sample rows for one.

    Args:
        spec: the migration.
        changes: every change of the sample, with refused and skipped ones.
        encoders: makes the encoder of each target, by label.
    """
    from waybill.validate.suites import PROFILE, load_suite, load_suites

    suites = []
    for name in spec.quality.suites:
        try:
            suites.append((f"suite {name}", load_suite(name)))
        except ConfigurationError as error:
            yield Finding(f"suite {name}", WRONG, str(error))
    if len(suites) == len(spec.quality.suites):
        try:
            load_suites(spec.quality.suites)
        except ConfigurationError as error:
            yield Finding("suites", WRONG, str(error))
    yield from _on_profiles(
        spec,
        [suite_result for suite_result in suites if suite_result[1].over.kind == PROFILE],
        changes,
        len(encoders),
    )
    accepted = [change for change in changes if change.outcome == "ok"]
    sample = SampleRows(spec, accepted, encoders, lambda change: _ruled(change)[0])
    yield from _on_rows(
        [suite_result for suite_result in suites if suite_result[1].over.kind != PROFILE], sample
    )
    if spec.quality.suites:
        text = (
            "not proven by a sample: counts across stages, what the outbox says when it is read "
            "again, sequence ids that run backwards, figures of whole tables and of batches before"
        )
        yield Finding("suites", NOTE, text)


def _on_profiles(
    spec: Migration, suites: list[tuple[str, Suite]], changes: list[Change], targets: int
) -> Iterator[Finding]:
    from waybill.validate.expectations import run_suites
    from waybill.validate.ranges import check_ranges
    from waybill.validate.result import TRENDS
    from waybill.validate.trends import NO_AGES, trends_profile

    profiles = {"changes": _topics(changes, targets), "tables": _tables(changes)}
    profiles[TRENDS] = trends_profile(profiles["changes"], profiles["tables"], NO_AGES, ())
    invented = [name for name, rows in profiles.items() if not rows]
    profiles = {name: rows or [_nothing(name)] for name, rows in profiles.items()}
    parameters = {"max_refused_share": spec.quality.max_refused_share}
    for about, suite in suites:
        try:
            checks = check_ranges(suite, profiles[suite.over.name], parameters)
            if checks is None:
                checks = run_suites([suite], profiles, parameters)
        except ConfigurationError as error:
            yield Finding(about, WRONG, str(error))
            continue
        nothing = "messages" if suite.over.name in invented else ""
        yield from _findings(about, checks, nothing)


def _on_rows(suites: list[tuple[str, Suite]], sample: SampleRows) -> Iterator[Finding]:
    from waybill.validate.expectations import nothing_to_check
    from waybill.validate.great_expectations_context import in_memory, loaded
    from waybill.validate.row_suites import run_row_suite

    with ExitStack() as block:
        spark = None
        for about, suite in suites:
            try:
                with in_memory():
                    loaded(suite)
                checks = [nothing_to_check(suite, item) for item in suite.expectations]
                there = sample.holds(suite)
                if there:
                    spark = spark or block.enter_context(sample.spark())
                    rows = sample.seen_by(spark, suite.over)
                    checks = run_row_suite(suite, rows, kept=False).checks
            except WaybillError as error:
                yield Finding(about, WRONG, str(error))
                continue
            yield from _findings(about, checks, "" if there else str(suite.over))


def _findings(about: str, checks: list[Checked], nothing: str) -> Iterator[Finding]:
    """What came of a suite.

    Args:
        about: the suite.
        checks: its expectations.
        nothing: what the sample has not, which they would be checked on.
    """
    from waybill.validate.result import sentence_of

    broken = [check for check in checks if check.error is not None]
    for check in broken:
        yield Finding(about, WRONG, f"cannot be checked: {sentence_of(check)}")
    if broken:
        return
    expectations = counted(len(checks), "expectation")
    if nothing:
        text = f"{expectations} can be checked; the sample has no {nothing} to check them on"
        yield Finding(about, NOTE, text)
        return
    unmet = [check for check in checks if not check.success]
    met = counted(len(checks) - len(unmet), "is met", "are met")
    yield Finding(about, OK, f"{expectations} can be checked, {met}")
    for check in unmet:
        text = f"the sample does not meet ({check.severity}): {sentence_of(check)}"
        yield Finding(about, NOTE, text)


def _topics(changes: list[Change], targets: int) -> list[Figures]:
    """The profile `changes` of the sample."""
    from waybill.validate.profiles import changes_profile
    from waybill.validate.rereading import Reread

    rows: Counter[tuple[str, str]] = Counter()
    firsts: Counter[tuple[str, str]] = Counter()
    refused: dict[str, set[tuple[int, int]]] = {}
    reread = Reread()
    for change in changes:
        message = change.message
        outcome = "waiting" if change.half and change.outcome == "ok" else change.outcome
        rows[message.topic, outcome] += 1
        firsts[message.topic, outcome] += change.index == 0
        if outcome == "refused":
            refused.setdefault(message.topic, set()).add((message.partition, message.offset))
        elif outcome == "ok":
            reread.messages[message.topic] += targets
    counted = [(*place, count, firsts[place], 0) for place, count in rows.items()]
    messages = {topic: len(places) for topic, places in refused.items()}
    return changes_profile(counted, messages, {}, reread, 0, [])


def _tables(changes: list[Change]) -> list[Figures]:
    """The profile `tables` of the sample, merged by the rules themselves."""
    from waybill.merge.rules import fold
    from waybill.validate.table_profiles import table_figures

    by_table: dict[str, list[Ruled]] = {}
    nulls: Counter[str] = Counter()
    for change in changes:
        counts = change.operation in (*ROW_OPERATIONS, "truncate")
        if change.outcome != "ok" or change.half or not change.schema.table or not counts:
            continue
        name = change.schema.qualified_name
        ruled, lacking = _ruled(change)
        if ruled is not None:
            by_table.setdefault(name, []).append(ruled)
            nulls[name] += lacking
    found = []
    for name, own in sorted(by_table.items()):
        rows = fold({}, own)
        live = sum(row.live for row in rows.values())
        found.append(table_figures(name, live, len(rows) - live, len(rows), null_keys=nulls[name]))
    return found


def _ruled(change: Change) -> tuple[Ruled | None, bool]:
    """A change as the rules of the merge take it, and whether a column of its key is null."""
    from waybill.merge.rules import Change as Ruled

    place = (change.message.topic, change.message.partition, change.message.offset, change.index)
    if change.operation == "truncate":
        return Ruled(change.order_key, "truncate", place=place), False
    try:
        key, old = change.key_image(), change.old_key_image()
    except Refusal:
        # The sample has reported it.
        return None, False
    if key is None:
        # Without a key each row is one of a bag.
        key = {"place": place}
    deleted = change.operation == "delete" or change.after is None
    ruled = Ruled(
        change.order_key,
        change.operation,
        _text(key),
        None if deleted else image_of(change.after),
        None if old is None else _text(old),
        place,
    )
    return ruled, None in msgspec.to_builtins(key).values()


def _text(key: Any) -> str:
    return msgspec.json.encode(key).decode()


def _nothing(profile: str) -> Figures:
    """A row of a profile in which nothing came, so that columns can be proven to be there."""
    from waybill.validate.profiles import changes_profile
    from waybill.validate.rereading import Reread
    from waybill.validate.result import TRENDS
    from waybill.validate.table_profiles import table_figures
    from waybill.validate.trends import trends_figures

    if profile == "changes":
        return changes_profile([], {}, {}, Reread(), 0, ["nothing"])[0]
    if profile == TRENDS:
        return trends_figures("nothing", "topic", 0)
    return table_figures("nothing", 0, 0, 0)
