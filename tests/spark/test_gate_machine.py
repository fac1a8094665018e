"""From wherever held, mended, killed and repeated runs lead, the documented steps lead out.

A state machine over the real stages at a small size. It knows of each message how often it has to
be published by then, and of the gate that it may hold a batch for one reason only: the share of
refused messages. `WAYBILL_GATE_STEPS` is how many steps it takes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.effort import EFFORT
from tests.spark.line import Killed, Line, insert, kill
from waybill.convert import stage as convert
from waybill.errors import GateError
from waybill.lake.commit import Branch
from waybill.merge.ledger import Ledger
from waybill.publish import stage as publish
from waybill.validate import stage as gate
from waybill.validate.results import read_result

pytestmark = [pytest.mark.spark, pytest.mark.timeout(8 * 3600)]

STEPS = int(os.environ.get("WAYBILL_GATE_STEPS", "12" if EFFORT == 1 else str(500 * EFFORT)))
"""How many steps the machine takes in all."""

LENGTH = 10 if EFFORT == 1 else 25
"""Steps from one empty lake."""


def _only(table: str) -> Any:
    """Instead of showing tables: ends before a table of this name."""
    honest = Branch.fast_forward

    def shown(branch: Branch, alone: bool = False) -> None:
        if branch.table.endswith(table):
            raise Killed
        honest(branch, alone)

    return shown


KILLS: dict[str, tuple[Any, str, Any]] = {
    "convert, before changes": (convert, "land", kill),
    "convert, between changes and outbox": (convert, "_encode", kill),
    "merge, before its record": (Ledger, "record", kill),
    "before the verdict": (gate, "judge", kill),
    "before anything is visible": (gate, "_show", kill),
    "visible in part": (Branch, "fast_forward", _only(".merges")),
    "visible, before the verdict is on record": (gate, "record", kill),
    "publish, before its record": (publish, "land", kill),
}
STOPS = ("snapshot", "convert", "merge", "validate")
RULES = {"append", "mend", "run", "replay", "full", "rerun", "another limit", "recover"} | {
    f"stopped after {stage}" for stage in STOPS
}
ENOUGH_FOR_ALL = 300
"""Steps in which every rule is drawn and every place of a kill is reached."""


@dataclass
class Sent:
    """A message and what must have become of it.

    Attributes:
        table: the table it is for.
        good: whether it was never refused.
        due: how often it has to be published.
        refused_by: batches that refused it and have not been tried again.
    """

    table: str
    good: bool
    due: int = 0
    refused_by: set[str] = field(default_factory=set)


class GateMachine(RuleBasedStateMachine):
    """The line, and a model of what it owes."""

    spark: ClassVar[Any]
    drawn: ClassVar[Counter[str]] = Counter()
    struck: ClassVar[Counter[str]] = Counter()
    states: ClassVar[set[tuple[Any, ...]]] = set()

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="waybill-gate-"))
        self.line = Line(self.spark, self.folder, broken="t0")
        self.messages: dict[str, Sent] = {}
        self.unread: list[str] = []
        self.archived: list[str] = []
        self.cause = self.files = self.number = 0
        self.done: list[str] = []
        self.feed(1, 0)

    def teardown(self) -> None:
        try:
            if hasattr(self, "line"):
                self.lead_out()
        finally:
            shutil.rmtree(getattr(self, "folder", "/nonexistent"), ignore_errors=True)

    # The source and its declarations.

    @rule(good=st.integers(0, 3), refused=st.integers(0, 2))
    def append(self, good: int, refused: int) -> None:
        self.drawn["append"] += 1
        self.feed(good, refused)

    def feed(self, good: int, refused: int) -> None:
        lines = []
        for table, code, count in (("orders", None, good), (f"t{self.cause}", True, refused)):
            for _ in range(count):
                name = str(len(self.messages))
                self.messages[name] = Sent(table, code is None)
                self.unread.append(name)
                lines.append(insert(int(name), code, table))
        if lines:
            self.line.feed(f"{self.files:05d}", *lines)
            self.files += 1

    @rule()
    def mend(self) -> None:
        """The declaration is mended; what is refused from now on is so for another one."""
        self.drawn["mend"] += 1
        self.mend_cause()

    def mend_cause(self) -> None:
        self.cause += 1
        self.line.broken = f"t{self.cause}"

    # Runs.

    @rule(drop_held=st.booleans())
    def run(self, drop_held: bool) -> None:
        self.drawn["run"] += 1
        self.go(drop_held=drop_held)

    @rule(drop_held=st.booleans())
    def replay(self, drop_held: bool) -> None:
        self.drawn["replay"] += 1
        self.go("replay", drop_held=drop_held)

    @rule(drop_held=st.booleans())
    def full(self, drop_held: bool) -> None:
        self.drawn["full"] += 1
        self.go("full", drop_held=drop_held)

    def killed(self, place: str, mode: str, drop_held: bool) -> None:
        self.drawn[f"killed {place}"] += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*KILLS[place])
            if self.go(mode, drop_held=drop_held) is None:
                self.struck[place] += 1

    @rule(until=st.sampled_from(STOPS), drop_held=st.booleans())
    def stopped(self, until: str, drop_held: bool) -> None:
        self.drawn[f"stopped after {until}"] += 1
        self.go(until=until, drop_held=drop_held)

    @precondition(lambda self: self.done)
    @rule(which=st.integers(0, 5))
    def rerun(self, which: int) -> None:
        """A run of before once more, as who clears its tasks has it."""
        self.drawn["rerun"] += 1
        self.go(batch=self.done[-1 - which % len(self.done)])

    @precondition(lambda self: self.done)
    @rule()
    def judge_with_another_limit(self) -> None:
        """What waits is let through as it is."""
        waiting = Ledger(self.line.lake).waiting()
        if waiting:
            self.drawn["another limit"] += 1
            self.line.limit = 1
            passed = self.go(batch=waiting[-1].batch)
            self.line.limit = 0.1
            assert passed, "the limit was the only thing in the way"

    @rule()
    def recover(self) -> None:
        self.drawn["recover"] += 1
        self.lead_out()

    def lead_out(self) -> None:
        """What docs/gate.md says: run, and after a no mend the cause and drop what is held."""
        if not self.go():
            self.mend_cause()
            assert self.go(drop_held=True), "mended and dropped, and held again"
        self.mend_cause()
        assert self.go("replay"), "mended and replayed, and held"
        assert self.unread == []
        assert {name for name, m in self.messages.items() if not m.due} == set()
        assert self.line.counted == {name: m.due for name, m in self.messages.items()}
        for table in {m.table for m in self.messages.values()}:
            ids = sorted(int(name) for name, m in self.messages.items() if m.table == table)
            assert [int(row or -1) for row in self.line.rows(f"shop.{table}")] == ids
        log = self.line.lake.read(self.line.lake.log("changes"))
        assert log.where("outcome = 'refused'").isEmpty()

    # How a run changes what is owed.

    def go(self, mode: str = "incremental", batch: str = "", **options: Any) -> bool | None:
        """Run a batch to wherever it comes; whether it passed, None if it was killed."""
        fresh = not batch
        if fresh:
            self.number += 1
            batch = f"b{self.number:04d}"
            self.done.append(batch)
        read = batch in self.line.batches("archive", "snapshot")
        decoded = batch in self.line.batches("changes", "convert")
        since = self.not_passed()
        try:
            self.line.run(batch, mode, **options)
        except Killed:
            return None
        except GateError:
            self.check_held()
            return False
        else:
            whole = fresh and "until" not in options
        finally:
            if not read and batch in self.line.batches("archive", "snapshot"):
                self.read(mode)
            if not decoded and batch in self.line.batches("changes", "convert"):
                self.decode(batch, mode, options.get("drop_held", False), since)
            for name, times in self.line.counted.items():
                assert times <= self.messages[name].due, f"message {name} was published too often"
        if whole:
            assert self.line.counted == {n: m.due for n, m in self.messages.items() if m.due}
        return True

    def read(self, mode: str) -> None:
        """What a snapshot brings into the archive."""
        if mode == "full":
            self.archived += [name for name in self.messages if name not in self.unread]
        if mode != "replay":
            self.archived += self.unread
            self.unread = []

    def decode(self, batch: str, mode: str, drop_held: bool, since: set[str]) -> None:
        """What a batch makes of the messages that it reads, and of those that it tries again."""
        here, self.archived = self.archived, []
        for name, message in self.messages.items():
            again = message.refused_by if mode == "replay" else message.refused_by & since
            if again and (mode == "replay" or drop_held):
                message.refused_by -= again
                if name not in here and not message.due:
                    here.append(name)
        for name in here:
            message = self.messages[name]
            if message.good or message.table != f"t{self.cause}":
                message.due += 1
            else:
                message.refused_by.add(batch)

    def not_passed(self) -> set[str]:
        """Batches that were decoded since the gate last let something through."""
        lake = self.line.lake
        last = lake.last(lake.log("runs"), "validate")
        upto = None if last is None else last.cursor["changes"]
        return {c.batch for c in lake.between(lake.log("changes"), upto, None)}

    def check_held(self) -> None:
        """The gate holds for refused messages and for nothing else."""
        lake = self.line.lake
        held = [c.batch for c in lake.commits(lake.log("runs")) if c.stage == gate.HELD]
        if not held:
            return
        result = read_result(self.line.spec, held[0])
        assert result is not None
        wrong = {c["arguments"].get("column"): c for c in result["checks"] if not c["success"]}
        critical = {name for name, c in wrong.items() if c["severity"] == "critical"}
        assert critical <= {"refused_share"}, result["accounts"]

    @invariant()
    def count_state(self) -> None:
        """Tell states apart by what decides how the next run goes."""
        done = set(self.done)
        refused = [m for m in self.messages.values() if m.refused_by]
        state = (
            bool(self.unread),
            bool(self.archived),
            min(len(done.difference(self.line.batches("archive", "snapshot"))), 3),
            min(len(done.difference(self.line.batches("runs", "validate"))), 3),
            len(Ledger(self.line.lake).waiting()),
            min(len(refused), 3),
            any(m.table != f"t{self.cause}" for m in refused),
            bool(self.not_passed()),
        )
        self.states.add(state)


def _killed(place: str) -> Any:
    """A rule for one place: what is drawn from a list is drawn unevenly, rules are not."""

    def killed(machine: GateMachine, mode: str, drop_held: bool) -> None:
        machine.killed(place, mode, drop_held)

    killed.__name__ = "killed_" + re.sub(r"\W+", "_", place)
    modes = st.sampled_from(["incremental", "incremental", "replay", "full"])
    return rule(mode=modes, drop_held=st.booleans())(killed)


for _place in KILLS:
    _rule = _killed(_place)
    setattr(GateMachine, _rule.__name__, _rule)


@contextmanager
def machine_of(spark: Any) -> Iterator[type[GateMachine]]:
    GateMachine.spark = spark
    for counted in (GateMachine.drawn, GateMachine.struck, GateMachine.states):
        counted.clear()
    yield GateMachine


def test_the_documented_steps_lead_out_of_every_state(spark) -> None:
    with machine_of(spark) as machine:
        run_state_machine_as_test(
            machine,
            settings=settings(
                # The first is the simplest one, which hardly does anything, and some end early.
                max_examples=2 + 3 * STEPS // (2 * LENGTH),
                stateful_step_count=LENGTH,
                deadline=None,
                derandomize=EFFORT == 1,
                database=None,
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
                phases=[Phase.generate],
                print_blob=True,
            ),
        )
    steps = machine.drawn.total()
    sys.stderr.write(
        f"state machine of the gate: {steps} steps in {len(machine.states)} states, "
        f"drawn {dict(machine.drawn)}, killed {dict(machine.struck)}\n"
    )
    assert steps >= STEPS
    if STEPS >= ENOUGH_FOR_ALL:
        assert machine.drawn.keys() >= RULES
        assert machine.struck.keys() == KILLS.keys()
