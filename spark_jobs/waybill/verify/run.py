"""A verification: every table, compared with its source table as far as the method goes."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, LakeError, UnreachableError, WaybillError
from waybill.lake.storage_errors import plainly
from waybill.merge.position import STAGE, position_of
from waybill.spec.durations import seconds_of
from waybill.spec.verification import Method
from waybill.suggestions import unknown
from waybill.verify.changed_keys import changed_keys
from waybill.verify.comparing import (
    PIECES_PER_CONNECTION,
    DatabaseReading,
    differing_keys,
    with_unlisted,
)
from waybill.verify.counting import count_table, live_rows
from waybill.verify.databases import database_named
from waybill.verify.deciding import Deciding, LakeState, Pending, lake_state
from waybill.verify.dropped_tables import is_dropped
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED
from waybill.verify.outcomes import outcome_sentence, summary
from waybill.verify.plan import NO_TABLE, compared_tables
from waybill.verify.results import (
    KEPT,
    Recording,
    TableResult,
    left_open,
    time_text,
    verified_up_to,
)

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.spec.verification import Verify
    from waybill.verify.database import Database, TablePiece
    from waybill.verify.newest import Outcome
    from waybill.verify.plan import Compared

LOOKED_INTO = 10_000
"""Keys of a table that are looked into; of more that differ only the number is reported."""
PIECES_OF_KEYS = 5_000
NOT_COUNTED = "not counted, because map chooses its rows: `--method full` compares all of them"

_log = logging.getLogger("waybill")


class VerifyRequest(NamedTuple):
    """What somebody wants to have verified.

    Attributes:
        table: only this one.
        method: instead of that of the migration.
        as_of: compare the tables as they were after this batch.
        wait: seconds, instead of those of the migration.
    """

    table: str | None = None
    method: Method | None = None
    as_of: str | None = None
    wait: float | None = None


def run_verify(
    spec: Migration,
    lake: Lake,
    asked: VerifyRequest | None = None,
    progress: Callable[..., Any] = _log.info,
) -> list[TableResult]:
    """Compare the merged tables with the database that they come from, and keep what was found.

    Nothing is written to the database: its sessions can only read. What is found is kept after at
    most a minute (`Recording`), and when the verification ends, however it does. What is wrong with
    one table is its result (`TableResult.outcome`), and the others are verified all the same.

    Args:
        spec: the migration, with its `verify`.
        lake: its lake.
        asked: what is wanted; all that the migration says without it.
        progress: says a line about the work.

    Raises:
        ConfigurationError: the migration names no database, nobody may log in there, or a table or
            batch is asked for that is not there.
        UnreachableError: the database does not answer; what was found before is kept.
        ConflictError: others record what they find all the time; what was found before is kept.
    """
    asked = asked or VerifyRequest()
    verify = needed_verify(spec)
    if not lake.exists(lake.log("merges")):
        again = spec.command("run", "FILE")
        message = f"migration {spec.name} has no merged table yet: run it first, `{again}`"
        raise ConfigurationError(message, code=Code.OPTION)
    if asked.as_of is not None and lake.find(lake.log("merges"), STAGE, asked.as_of) is None:
        message = (
            f"no visible merge of batch {asked.as_of} is in the lake: name one that "
            f"`{spec.command('changes', 'FILE')}` shows"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    wait = seconds_of(verify.wait) if asked.wait is None else asked.wait
    deadline = time.monotonic() + wait
    method = asked.method or verify.method
    verification, results = new_id(), []
    with database_named(verify.database) as database:
        state = position_of(lake).state
        tables = compared_tables(lake, spec, state, database, asked.table)
        recording = Recording(lake, verification)
        try:
            for table in with_unlisted(lake, spec, tables):
                one = _VerifiedTable(
                    lake, spec, verify, table, database, deadline, progress, asked.as_of
                )
                found: list[TableResult] = []
                try:
                    for result in one.results(method):
                        found.append(result)
                        progress("verify: %s: %s", table.label, summary(result))
                finally:
                    results += found
                    recording.add(found)
        finally:
            recording.finish()
    progress("verify: %s", outcome_sentence(results))
    return results


def checked_method(name: str | None) -> Method | None:
    """A method by its name; None stays.

    Raises:
        ConfigurationError: there is no such method.
    """
    known: tuple[Method, ...] = get_args(Method)
    if name is None:
        return None
    for method in known:
        if method == name:
            return method
    raise ConfigurationError(unknown("method", name, known), code=Code.OPTION)


def new_id() -> str:
    """An id for a new verification."""
    return f"verify-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def needed_verify(spec: Migration) -> Verify:
    """What the migration says about verification.

    Raises:
        ConfigurationError: nothing.
    """
    if spec.verify is None:
        message = (
            f"the migration {spec.name} names no source database: add e.g. `verify: {{database: "
            "mysql_shop}` and the connection of that name"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    return spec.verify


class _VerifiedTable:
    """One table of a verification."""

    def __init__(
        self,
        lake: Lake,
        spec: Migration,
        verify: Verify,
        table: Compared,
        database: Database,
        deadline: float,
        progress: Callable[..., Any],
        as_of: str | None,
    ) -> None:
        self._lake, self._spec, self._verify = lake, spec, verify
        self._table, self._database = table, database
        self._deadline, self._progress = deadline, progress
        self._as_of = as_of
        self._fixed: LakeState | None = None
        self._recorded = 0

    def results(self, method: Method) -> Iterator[TableResult]:
        """What comes of the table, also where it cannot be compared."""
        result = self._result(method)
        some = result.method == "changed" and result.outcome == VERIFIED
        some |= self._table.is_skipped and method != "counts"
        if some and self._table.where is not None:
            sentence = "; ".join(filter(None, (result.sentence, NOT_COUNTED)))
            result = result._replace(sentence=sentence)
        yield result
        if some and self._table.where is None:
            # What no change stated may show in the number of rows.
            yield self._result("counts")

    def _result(self, method: Method) -> TableResult:
        try:
            with plainly(self._spec):
                return self._found(method)
        except (ConfigurationError, LakeError, UnreachableError) as error:
            if isinstance(error, UnreachableError):
                self._check_answers(error)
            return self._failed(method, error)

    def _found(self, method: Method) -> TableResult:
        if self._as_of is not None:
            self._fixed = lake_state(self._lake, self._spec, self._table, self._as_of)
        # The lake's state is fixed before the database is read: see `waybill.verify.deciding`.
        first = self._fixed or lake_state(self._lake, self._spec, self._table)
        if self._table.shard is None:
            self._recorded = self._lake.shown_rows(self._table.lake, first.snapshot)
        if self._table.is_skipped and method != "counts":
            return self._not_compared(first, method, self._table.why_not, SKIPPED)
        if self._table.why_not and not self._table.is_skipped:
            return self._without_table(first, method)
        return self._compare(first, method)

    def _failed(self, method: Method, error: WaybillError) -> TableResult:
        """The result of a table that could not be verified.

        Neither side is asked again, as that may fail once more: the rows of the lake are those that
        its records tell of, about, and none of a table that shares its rows with others.
        """
        rows = self._recorded
        return TableResult(
            self._table.name,
            method,
            0,
            rows,
            0,
            rows,
            None,
            None,
            "",
            None,
            str(error),
            [],
            {},
            None,
            self._table.source_name,
            FAILED,
            error.transient,
        )

    def _check_answers(self, error: UnreachableError) -> None:
        """See that the database still answers, and only what was asked of this table failed.

        So a table whose query is always cancelled does not keep others from being verified.

        Raises:
            UnreachableError: it does not; the one that was met.
        """
        try:
            self._database.begin()
        except UnreachableError:
            raise error from None

    def _without_table(self, first: LakeState, method: Method) -> TableResult:
        """The result of a table that the database does not give.

        One that was dropped is as it should be if the lake has no row either. Of one that is not
        known to be gone nobody can tell: the user may not see it.
        """
        result = self._not_compared(first, method, self._table.why_not, FAILED)
        if self._table.why_not != NO_TABLE or result.in_lake:
            return result
        known = position_of(self._lake).state.table(self._table.name)
        by_time = self._spec.order.ambiguous == "source_time"
        kind = self._database.kind
        gone = is_dropped(self._lake, self._table.name, known, kind, by_time)
        return result._replace(outcome=VERIFIED if gone else SKIPPED)

    def _compare(self, first: LakeState, method: Method) -> TableResult:
        if method == "counts":
            if self._table.where is not None:
                return self._not_compared(first, method, NOT_COUNTED, SKIPPED)
            return self._counts(first)
        view = self._database.begin()
        only = self._changed(first) if method == "changed" and self._fixed is None else None
        before = left_open(self._lake, self._table.label)
        if only is not None:
            only |= before.keys()
        shared = self._database.share()
        if shared is None:
            # Nobody reads in it, and it would keep old rows from being cleaned up.
            self._database.release()
        reading = DatabaseReading(
            self._database.connection,
            self._verify.connections,
            self._verify.rows_per_second,
            shared,
        )
        found = differing_keys(
            self._lake,
            self._table,
            first.snapshot,
            self._pieces(only),
            reading,
            only,
            LOOKED_INTO,
        )
        deciding = Deciding(
            self._lake,
            self._spec,
            self._table,
            self._database,
            self._deadline,
            self._progress,
            self._fixed,
        )
        decided = deciding.decide(found.keys, before)
        beyond = found.differing - len(found.keys)
        sentence = self._sentence(first, decided.pending, beyond)
        return TableResult(
            self._table.name,
            "full" if only is None else "changed",
            found.in_database,
            found.in_lake,
            len(decided.differences) + (beyond if decided.differences else 0),
            len(decided.pending) + (0 if decided.differences else beyond),
            first.batch,
            view.position,
            time_text(view.clock),
            None if first.reached is None else time_text(first.reached),
            sentence,
            decided.differences,
            decided.pending,
            first.changes if self._is_whole(first, beyond, len(decided.differences)) else None,
            self._table.source_name,
            shown=self._table.shown,
            by_key=self._table.keyed and not self._table.key_is_masked,
            one_text=self._table.key_has_one_text,
        )

    def _is_whole(self, first: LakeState, beyond: int, differences: int) -> bool:
        """Whether the next verification of what changed may go on from here."""
        kept = not beyond and differences <= KEPT
        return self._fixed is None and kept and not first.waits

    def _counts(self, first: LakeState) -> TableResult:
        view = self._database.begin()
        assert self._table.source is not None, "only existing tables are counted"
        return count_table(
            self._lake,
            self._spec,
            self._table,
            self._database,
            first,
            view,
            self._deadline,
            self._progress,
            self._fixed is not None,
        )

    def _not_compared(
        self, first: LakeState, method: Method, why: str, outcome: Outcome
    ) -> TableResult:
        rows = live_rows(self._lake, self._table, first.snapshot)
        view = self._database.begin()
        return TableResult(
            self._table.name,
            method,
            0,
            rows,
            0,
            rows,
            first.batch,
            view.position,
            time_text(view.clock),
            None if first.reached is None else time_text(first.reached),
            why,
            [],
            {},
            None,
            self._table.source_name,
            outcome,
        )

    def _changed(self, first: LakeState) -> frozenset[str] | None:
        after = verified_up_to(self._lake, self._table.label)
        if after is None:
            return None
        identity = position_of(self._lake).state.table(self._table.name).identity
        if identity is None:
            return None
        return changed_keys(self._lake, self._table, identity, after, first.changes)

    def _pieces(self, only: frozenset[str] | None) -> list[TablePiece]:
        source = self._table.source
        assert source is not None, "only existing tables are read"
        if only is None:
            about = self._verify.connections * PIECES_PER_CONNECTION
            names = [column.name for column in self._table.key] if self._table.keyed else []
            return self._database.pieces(source, names, about)
        keys = [key for text in sorted(only) if None not in (key := json.loads(text))]
        return [
            self._database.key_piece(source, self._table.key, keys[start : start + PIECES_OF_KEYS])
            for start in range(0, len(keys), PIECES_OF_KEYS)
        ]

    def _sentence(self, first: LakeState, pending: dict[str, Pending], beyond: int) -> str:
        sentences = [first.wait] if first.wait else []
        if self._table.only_in_lake:
            names = ", ".join(self._table.only_in_lake)
            sentences.append(f"not compared, because the database does not have them: {names}")
        if self._table.dropped:
            names = ", ".join(self._table.dropped)
            sentences.append(f"not compared, because map drops them: {names}")
        if self._table.masked:
            names = ", ".join(self._table.masked)
            why = "map masks them and their values may be written in several ways"
            sentences.append(f"not compared, because {why}: {names}")
        if beyond:
            sentences.append(
                f"{LOOKED_INTO + beyond} keys differ, {beyond} of which were not examined"
            )
        if pending:
            newest = max(mark.clock for mark in pending.values())
            reached = "an unknown time" if first.reached is None else time_text(first.reached)
            sentences.append(
                f"{counted(len(pending), 'row')} not decided: the table was complete up to "
                f"{reached} and the database was read at {time_text(newest)}; verify again after "
                f"{'that' if first.wait else 'the next batch'}"
            )
        return "; ".join(sentences)
