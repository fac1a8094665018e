"""Suites of the gate, run over profiles that are made of a sample without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.cli.check_tables import image_of
from waybill.cli.findings import NOTE, OK, WRONG, Finding
from waybill.counting import counted
from waybill.errors import ConfigurationError, Refusal
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from waybill.merge.rules import Change as Ruled
    from waybill.records import Change
    from waybill.spec.migration import Migration

Figures = dict[str, Any]


def check_suites(spec: Migration, changes: list[Change], targets: int) -> Iterator[Finding]:
    """Load the suites and run every expectation over profiles of the sample.

    An expectation that cannot be checked is wrong. One that the sample does not meet is told and
    no more: the figures of a whole batch are others.

    Args:
        spec: the migration.
        changes: every change of the sample, with refused and skipped ones.
        targets: how many targets the changes are written for.
    """
    from waybill.validate.expectations import run_suites
    from waybill.validate.result import sentence_of
    from waybill.validate.suites import load_suite

    profiles = {"changes": _topics(changes, targets), "tables": _tables(changes)}
    invented = [name for name, rows in profiles.items() if not rows]
    profiles = {name: rows or [_nothing(name)] for name, rows in profiles.items()}
    for name in spec.quality.suites:
        about = f"suite {name}"
        try:
            suite = load_suite(name)
            checks = run_suites(
                [suite], profiles, {"max_refused_share": spec.quality.max_refused_share}
            )
        except ConfigurationError as error:
            yield Finding(about, WRONG, str(error))
            continue
        broken = [check for check in checks if check.error is not None]
        for check in broken:
            yield Finding(about, WRONG, f"cannot be checked: {sentence_of(check)}")
        if broken:
            continue
        if suite.profile in invented:
            text = (
                f"{counted(len(checks), 'expectation')} can be checked; the sample has no "
                "messages to check them on"
            )
            yield Finding(about, NOTE, text)
            continue
        unmet = [check for check in checks if not check.success]
        met = counted(len(checks) - len(unmet), "is met", "are met")
        text = f"{counted(len(checks), 'expectation')} can be checked, {met}"
        yield Finding(about, OK, text)
        for check in unmet:
            text = f"the sample does not meet ({check.severity}): {sentence_of(check)}"
            yield Finding(about, NOTE, text)
    if spec.quality.suites:
        text = (
            "not proven by a sample: counts across stages, what the outbox says when it is read "
            "again, sequence ids that run backwards, and figures of whole tables"
        )
        yield Finding("suites", NOTE, text)


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
        # The sample has told of it.
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
    from waybill.validate.table_profiles import table_figures

    if profile == "changes":
        return changes_profile([], {}, {}, Reread(), 0, ["nothing"])[0]
    return table_figures("nothing", 0, 0, 0)
