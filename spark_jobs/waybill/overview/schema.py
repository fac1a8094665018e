"""The files of the overview, field by field.

`<warehouse>/<migration>/reports/<batch>/waybill.json` is a `BatchAccount`,
`<warehouse>/<migration>/reports/_index.json` an `Index`, `_source.json` beside it a `SourceLook`,
and `_failure.json` a `StageFailure`. Times are milliseconds since 1970. Numbers of 2^53 and more
are written as texts, which readers of JSON do not round, and are read back as numbers.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from waybill.report import as_texts, without_rows

VERSION = 1
"""Raised when a field changes its meaning. Files of another version are rewritten."""

DONE, PART, HELD, DROPPED, TAKEN, WAITING = (
    "done",
    "part",
    "held",
    "dropped",
    "taken",
    "waiting",
)
"""What became of a stage of a batch: done; done in part (decoded, not encoded yet); done, and held
by the gate; held, then dropped; done by a later batch together with its own; not done yet."""

JUDGES = "validate"
"""The stage whose warnings are rules that are not met."""

PUBLISHED, UNDER_WAY = "published", "under way"
"""What became of a batch, beside `HELD`, `DROPPED` and `TAKEN`."""


class StageAccount(msgspec.Struct, frozen=True):
    """One stage of a batch; `rows_in` and `extra_in` equal the sum of what follows them.

    Attributes:
        stage: its name.
        state: one of `DONE`, `PART`, `HELD`, `DROPPED`, `TAKEN`, `WAITING`.
        why: a sentence about a stage that did not do this batch, empty for one that did.
        by: the batch whose run did it, where that is another one.
        time: when it was committed.
        seconds: how long it took.
        rows_in: rows read; of `validate`, whose rows are rules, what it checked.
        extra_in: rows that came in otherwise, by reason.
        rows_out: rows written.
        refused: by class of the reason.
        superseded: made void by a newer row.
        skipped: left out on purpose, by reason.
        waiting: held for the next batch.
        warnings: sentences.
        file: digest of the migration's file that it ran with; empty where that was not kept.
    """

    stage: str
    state: str
    why: str = ""
    by: str | None = None
    time: int | None = None
    seconds: float = 0.0
    rows_in: int = 0
    extra_in: dict[str, int] = {}
    rows_out: int = 0
    refused: dict[str, int] = {}
    superseded: int = 0
    skipped: dict[str, int] = {}
    waiting: int = 0
    warnings: list[str] = []
    file: str = ""

    def __post_init__(self) -> None:
        """Leave out keys of rows, which lakes and files of earlier versions have."""
        if self.stage == JUDGES:
            warnings = [without_rows(text) for text in self.warnings]
            msgspec.structs.force_setattr(self, "warnings", warnings)

    @property
    def ran(self) -> bool:
        """Whether the stage did this batch, so that its figures say something."""
        return self.state not in (TAKEN, WAITING) and self.time is not None


class TargetAccount(msgspec.Struct, frozen=True):
    """What became of a batch for one target.

    Attributes:
        target: its name.
        messages: written for it.
        published: sent; None where the batch is not published.
        refused: messages that it cannot take, by class of the reason.
        skipped: left out on purpose, by reason.
        losses: what it could not carry, counted by capability.
        made_ids: see `waybill.made_ids`.
        places: files or ranges of offsets that were written.
    """

    target: str
    messages: int = 0
    published: int | None = None
    refused: dict[str, int] = {}
    skipped: dict[str, int] = {}
    losses: dict[str, int] = {}
    made_ids: dict[str, int] = {}
    places: list[str] = []


class TableAccount(msgspec.Struct, frozen=True):
    """What a batch did to one merged table.

    Attributes:
        table: the source table.
        operations: changes by operation (insert, update, delete, …).
        rows_in: changes merged.
        rows_out: rows written.
        superseded: changes that a newer one of the same key made void.
        refused: changes that a column cannot hold.
        columns: what became of its columns, in words.
        sequence: sequence id up to which the table is complete, None where it has none.
        complete: source time up to which it is complete, ISO 8601; None where it is unknown.
    """

    table: str
    operations: dict[str, int] = {}
    rows_in: int = 0
    rows_out: int = 0
    superseded: int = 0
    refused: int = 0
    columns: list[str] = []
    sequence: str | None = None
    complete: str | None = None


class FailedRule(msgspec.Struct, frozen=True):
    """A critical rule that a batch does not meet, and whether a person may waive it."""

    rule: str
    waivable: bool

    def __post_init__(self) -> None:
        """Leave out keys of rows, which lakes and files of earlier versions have."""
        msgspec.structs.force_setattr(self, "rule", without_rows(self.rule))


class GateVerdict(msgspec.Struct, frozen=True):
    """What the gate said of a batch.

    Attributes:
        outcome: `passed`, `reported`, `approved` or `failed`.
        checked: how many rules.
        failed_critical: how many critical ones are not met.
        failed_warning: how many others.
        rules: those that hold the batch, some of them.
        decided: what a person has decided, as a sentence; empty where nobody has.
        limits: figures that have a limit, see `waybill.validate.measured.figures_with_limits`.
    """

    outcome: str
    checked: int = 0
    failed_critical: int = 0
    failed_warning: int = 0
    rules: list[FailedRule] = []
    decided: str = ""
    limits: dict[str, list[float]] = {}


class BatchAccount(msgspec.Struct, frozen=True):
    """The account of one batch.

    Attributes:
        version: `VERSION`.
        migration: its name.
        batch: id of the batch.
        state: `PUBLISHED`, `HELD`, `DROPPED`, `TAKEN` or `UNDER_WAY`.
        stages: all five, in the order of the data.
        targets: in the order of their names.
        tables: those that it changed, in the order of their names.
        verdict: None where the gate has not judged it.
        read: what it read of the source, a sentence for each partition or file, some of them.
        more_read: how many there are beside them.
    """

    version: int
    migration: str
    batch: str
    state: str
    stages: list[StageAccount]
    targets: list[TargetAccount] = []
    tables: list[TableAccount] = []
    verdict: GateVerdict | None = None
    read: list[str] = []
    more_read: int = 0

    @property
    def files(self) -> list[str]:
        """Digests of the migration's files that its stages ran with, each once, in their order."""
        return list(dict.fromkeys(stage.file for stage in self.stages if stage.file))


class BatchLine(msgspec.Struct, frozen=True, gc=False):
    """A batch in the index.

    Attributes:
        batch: its id.
        mark: of the content of its file, so that one that changed is rewritten.
        state: see `BatchAccount`.
        began: when its first stage was committed.
        ended: when its last one was.
        rows_in: messages read.
        published: messages sent to all targets.
        refused: messages and changes refused, whichever stage refused them.
        seconds: of each stage, 0 for one that did not do it.
        verdict: see `GateVerdict.outcome`, empty where the gate has not judged it.
        limits: see `GateVerdict`.
        file: digest of the migration's file that its last stage ran with, empty where that was not
            kept.
        altered: how many tables it changed the columns of.
    """

    batch: str
    mark: str
    state: str
    began: int
    ended: int
    rows_in: int = 0
    published: int = 0
    refused: int = 0
    seconds: list[float] = []
    verdict: str = ""
    limits: dict[str, list[float]] = {}
    file: str = ""
    altered: int = 0


class StageWaiting(msgspec.Struct, frozen=True):
    """What waits before a stage: batches of the stage before that it has not read, and their rows.

    Rows of the source that were not read yet are not among them: only the source knows them.
    """

    stage: str
    batches: int
    rows: int


class TableLine(msgspec.Struct, frozen=True):
    """A merged table as the last visible batch left it.

    Attributes:
        table: the source table.
        rows: as the gate counted them; of a table that no verdict tells of, with its tombstones and
            what it deleted since its files were compacted. None where it could not be determined.
        batch: the last batch that changed it, empty where no commit tells.
        operations: of that batch, see `TableAccount`.
        altered: the last batch that changed its columns, empty where none is known.
        columns: what became of them then, see `TableAccount`.
        sequence: see `TableAccount`.
        complete: see `TableAccount`.
        newest: source time of its newest change that was merged; None where none has one.
    """

    table: str
    rows: int | None = None
    batch: str = ""
    operations: dict[str, int] = {}
    altered: str = ""
    columns: list[str] = []
    sequence: str | None = None
    complete: str | None = None
    newest: str | None = None


class Quarantine(msgspec.Struct, frozen=True):
    """How many refused rows wait for another try.

    A message that several full runs have refused counts once for each.

    Attributes:
        rows: how many; where `more` is set, at least so many.
        more: whether counting was given up.
        counted: snapshot of each table up to which they are counted.
    """

    rows: int = 0
    more: bool = False
    counted: dict[str, int] = {}


class EndpointPlace(msgspec.Struct, frozen=True):
    """A source or a target: its name, its envelope and where its messages are."""

    name: str
    envelope: str
    place: str


class TableWaits(msgspec.Struct, frozen=True):
    """A table whose changes wait for a person's decision about its columns.

    Attributes:
        table: its name.
        since: the batch since which it waits.
        why: what is to be decided, as a sentence.
        changes: how many changes wait.
    """

    table: str
    since: str
    why: str
    changes: int = 0


class FailedStage(msgspec.Struct, frozen=True):
    """A stage that has failed: its batch, its name, and when, in milliseconds since 1970.

    The name is empty where a run failed before its first stage.
    """

    batch: str
    stage: str
    at: int


class Index(msgspec.Struct, frozen=True):
    """What is known of a migration, and its last batches.

    Attributes:
        version: `VERSION`.
        migration: its name.
        written: when.
        source: where messages come from.
        targets: where they go.
        batches: newest first.
        waiting: before each stage but the first.
        lag: messages that are in the archive and not published.
        lag_since: when the oldest of them was archived, None where there are none.
        archived: snapshot of the archive that these figures are about.
        held: the batch that the gate holds, None where it holds none.
        unjudged: the batch that was merged and waits for its gate, None where none does; for as
            long as the gate works, or since its run was ended.
        held_rules: the rules that it does not meet.
        decided: what a person has decided about it, as a sentence.
        quarantine: what visible batches have refused and nobody has tried again.
        refused_waiting: the same with what the held batch's merge has refused.
        merged: snapshot of the record of merges that `tables` shows.
        tables: in the order of their names.
        tables_waiting: those whose changes wait, while all others go on.
        stopped: the stage that has failed since the last one that did its work; None where none
            has. Of one that was killed or interrupted nobody knows.
        failed: by batch that is under way, the stage in which its run failed before that.
    """

    version: int
    migration: str
    written: int
    source: EndpointPlace
    targets: list[EndpointPlace]
    batches: list[BatchLine]
    waiting: list[StageWaiting] = []
    lag: int = 0
    lag_since: int | None = None
    archived: int | None = None
    held: str | None = None
    unjudged: str | None = None
    held_rules: list[FailedRule] = []
    decided: str = ""
    quarantine: Quarantine = Quarantine()
    refused_waiting: int = 0
    merged: int | None = None
    tables: list[TableLine] = []
    tables_waiting: list[TableWaits] = []
    stopped: FailedStage | None = None
    failed: dict[str, str] = {}

    @property
    def failures(self) -> dict[str, str]:
        """By batch the stage in which its run has failed."""
        last = {} if self.stopped is None else {self.stopped.batch: self.stopped.stage}
        return {**self.failed, **last}


class PartitionLook(msgspec.Struct, frozen=True):
    """What waits in a partition, see `waybill.sources.kafka.waiting.Waiting`."""

    topic: str
    partition: int
    start: int
    end: int
    oldest: int | None = None


class SourceLook(msgspec.Struct, frozen=True):
    """What the source holds and the archive does not. Only the source knows, when it is asked.

    Attributes:
        version: `VERSION`.
        migration: its name.
        looked: when that was; 0 where the source has never answered.
        unit: what `unread` counts: `messages` (offsets, at least as many) or `files`.
        unread: how much waits.
        bytes: of the files that wait, None where they are not known.
        oldest: since when what waits longest does: the time of the message, or of the file's last
            change; None where nothing waits or the time is not known.
        gone: messages that the brokers have deleted before they were read.
        partitions: those in which most waits, some of them.
        archive: snapshot of the archive that the source was compared with.
        failed: when it was asked last and did not answer, 0 where it did.
        problem: why it did not.
    """

    version: int
    migration: str
    looked: int
    unit: str
    unread: int = 0
    bytes: int | None = None
    oldest: int | None = None
    gone: int = 0
    partitions: list[PartitionLook] = []
    archive: int | None = None
    failed: int = 0
    problem: str = ""

    def behind(self, now_ms: int) -> float | None:
        """How many seconds what waits longest has waited by a time; None where it is not known."""
        if not self.unread:
            return 0.0
        return None if self.oldest is None else max(0.0, (now_ms - self.oldest) / 1000)


class StageFailure(msgspec.Struct, frozen=True):
    """Why the last stage that failed did so.

    Attributes:
        version: `VERSION`.
        batch: its batch.
        stage: its name; empty where a run failed before its first stage.
        at: when that was, milliseconds since 1970.
        code: of the runbook; empty where the error has none.
        title: of the runbook's section.
        sentence: what was wrong and what to do; it may name keys and values of rows.
    """

    version: int
    batch: str
    stage: str
    at: int
    code: str
    title: str
    sentence: str


_File = TypeVar("_File", Index, BatchAccount, SourceLook, StageFailure)


def encoded(file: Index | BatchAccount | SourceLook | StageFailure) -> bytes:
    """A file's content."""
    data: Any = as_texts(msgspec.to_builtins(file))
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        # A name may hold half of a surrogate pair, which JSON allows and UTF-8 does not.
        return msgspec.json.encode(_without_halves(data))


def _without_halves(data: Any) -> Any:
    if isinstance(data, dict):
        return {_without_halves(name): _without_halves(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_halves(value) for value in data]
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    return data


def decoded(content: bytes, kind: type[_File]) -> _File | None:
    """What `encoded` wrote; None where another version, or something else, wrote it."""
    try:
        file = msgspec.json.decode(content, type=kind, strict=False)
    except msgspec.MsgspecError:
        return None
    return file if file.version == VERSION else None
