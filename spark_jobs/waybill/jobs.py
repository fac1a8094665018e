"""Runs stages: what the command line, the entry scripts of Spark and notebooks call.

The only module that knows every stage; each is imported when it runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.errors import (
    Code,
    ConfigurationError,
    DifferenceError,
    GateError,
    UnreachableError,
    WaybillError,
    described,
)
from waybill.lake import Lake
from waybill.lake.decisions import RequestedDecision
from waybill.lake.session import start_session
from waybill.lake.storage_errors import plainly
from waybill.lake_columns import BEFORE_BATCH
from waybill.overview.keeping import failures_kept, keep_overview
from waybill.report import STAGES, StageReport, Waybill
from waybill.spec.durations import moment_of
from waybill.spec.file import load_migration
from waybill.spec.migration import Migration
from waybill.stage_context import KeysToReload, Options, StageContext
from waybill.suggestions import unknown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STAGE_FUNCTIONS = {
    "snapshot": "waybill.sources.snapshot",
    "convert": "waybill.convert.stage",
    "merge": "waybill.merge.stage",
    "validate": "waybill.validate.stage",
    "publish": "waybill.publish.stage",
}
"""Where `run_<stage>` is, in the order of the data."""

MODES = ("incremental", "full", "replay", "reload")
"""See `waybill.stage_context.Options`."""

KEYS = ("all", "differing")
"""Which keys of the tables mode `reload` takes; see `waybill.stage_context.Options`."""

UPKEEP, VERIFY = "upkeep", "verify"
"""What is run like a stage and belongs to no batch."""

BATCH = re.compile(rf"(?!.*{BEFORE_BATCH}$)[A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}")
"""What a batch id may look like: it names branches, folders and files."""


_log = logging.getLogger("waybill")

Specification = Migration | str | os.PathLike[str]


def run_stage(
    stage: str,
    spec: Specification,
    batch: str,
    spark: SparkSession | None = None,
    options: Options | None = None,
) -> StageReport:
    """Run one stage of one batch.

    Args:
        stage: its name.
        spec: the migration, or the path of its file.
        batch: id of the batch; a batch that was done before is not done again.
        spark: a session to use; without one the session that is running, or one of our own.
        options: how the run differs from the ordinary one.

    Returns:
        The account of the stage; `repeated` says that it had been done before.

    Raises:
        WaybillError: see the stage.
    """
    if stage not in STAGE_FUNCTIONS:
        raise ConfigurationError(unknown("stage", stage, STAGE_FUNCTIONS), code=Code.OPTION)
    check_batch(batch)
    check_tables_named(options or Options())
    migration = loaded(spec).for_stage(stage)
    if options is not None and options.until_time is not None:
        migration = migration.ending(options.until_time)
    with failures_kept(migration, stage, batch), _session(spark, migration) as session:
        lake = Lake.open(session, migration)
        options = options or Options()
        keys = _keys_to_reload(lake, migration, options)
        context = StageContext(lake.spark, lake, migration, batch, options, _progress(stage), keys)
        run: Callable[[Migration, StageContext], StageReport] = getattr(
            import_module(STAGE_FUNCTIONS[stage]), f"run_{stage}"
        )
        started = time.monotonic()
        try:
            if stage == "convert" and any(t.bootstrap != "none" for t in migration.publish):
                from waybill.bootstrap.beginning import begin_targets

                begin_targets(migration, context)
            elif stage == "merge":
                _judge_earlier(migration, context)
            report = run(migration, context)
        except GateError:
            keep_overview(migration, lake, batch)
            raise
        keep_overview(migration, lake, batch)
        _log.info(
            "%s: %s in %.1f s",
            stage,
            "was done before, found" if report.repeated else "done",
            time.monotonic() - started,
        )
        return report


def check_batch(batch: str) -> None:
    """Raise ConfigurationError if this can be no batch's id."""
    if not BATCH.fullmatch(batch):
        rule = f"use up to 64 letters, digits, dots, dashes and _, and no {BEFORE_BATCH} at the end"
        message = f"{batch!r} is not a batch id: {rule}"
        raise ConfigurationError(message, code=Code.OPTION)


def _judge_earlier(migration: Migration, context: StageContext) -> None:
    """Have the gate judge what an earlier run has merged and left without a verdict.

    No other run may come back to that batch, and no merge can begin before it is judged.

    Raises:
        GateError: the gate says no to it.
    """
    from waybill.merge.ledger import Ledger
    from waybill.validate.stage import run_validate
    from waybill.validate.unjudged import unjudged

    lake = context.lake
    if Ledger(lake).done(context.batch) is not None:
        return
    for batch in unjudged(lake, context.options.drop_held):
        context.progress("batch %s was merged and not judged, so the gate comes first", batch)
        earlier = StageContext(
            context.spark, lake, migration, batch, progress=_progress("validate")
        )
        run_validate(migration, earlier)


def _keys_to_reload(
    lake: Lake, spec: Migration, options: Options
) -> Callable[[], KeysToReload] | None:
    """What finds the keys of a reload, when they are needed; None where whole tables are taken."""
    if options.keys == KEYS[0]:
        return None
    from waybill.verify.keys_to_reload import keys_to_reload

    return lambda: keys_to_reload(lake, spec, options.tables)


def run_migration(
    spec: Specification,
    *,
    until: str | None = None,
    batch: str | None = None,
    spark: SparkSession | None = None,
    mode: str = "incremental",
    tables: Sequence[str] = (),
    keys: str = KEYS[0],
    drop_held: bool = False,
    until_time: datetime | None = None,
    on_stage: Callable[[StageReport], None] | None = None,
) -> Waybill:
    """Run a batch through all stages.

    Args:
        spec: the migration, or the path of its file.
        until: the last stage to run; all where left out.
        batch: id of the batch; a new one where left out (`new_batch_id`).
        spark: a session to use, which is left running; without one the session that is running,
            or one of our own, which is ended.
        mode: `incremental`, `full` to read the source from its beginning, `replay` to take what
            was refused once more, or `reload` to take some tables once more.
        tables: names or patterns of those tables.
        keys: `all`, or `differing` to take only the keys of them that the newest verification of
            each table found to differ.
        drop_held: drop what a failed gate holds, so that this batch merges it again.
        until_time: read topics up to this time at most.
        on_stage: is given each stage's account as soon as it is there, also that of a gate that
            says no.

    Raises:
        GateError: the gate said no; the stages before it are done.
        WaybillError: see the stages.
    """
    migration = loaded(spec)
    if until is not None and until not in STAGES:
        raise ConfigurationError(unknown("stage", until, STAGES), code=Code.OPTION)
    waybill = Waybill(migration.name, batch or new_batch_id())
    # What cannot be run is said before Spark takes its time to start.
    check_batch(waybill.batch)
    if until_time is not None:
        migration.ending(until_time)
    options = Options(mode, drop_held, until_time, tables=tuple(tables), keys=keys)
    check_tables_named(options)
    with ExitStack() as ended:
        with failures_kept(migration, "", waybill.batch):
            session = ended.enter_context(_session(spark, migration))
        for stage in STAGES[: len(STAGES) if until is None else STAGES.index(until) + 1]:
            try:
                report = run_stage(stage, migration, waybill.batch, session, options)
            except GateError as error:
                if error.report is not None and on_stage is not None:
                    on_stage(StageReport.from_dict(error.report))
                raise
            waybill.stages.append(report)
            if on_stage is not None:
                on_stage(report)
    return waybill


def read_table(
    spec: Specification,
    table: str | None = None,
    *,
    as_of: str | None = None,
    held: bool = False,
    spark: SparkSession | None = None,
) -> Iterator[dict[str, str | None]]:
    """The rows of a merged table as text images, sorted by key.

    Every row has every column of the table; what the source never said of a row is None. Key values
    that are integers sort as numbers, others as text.

    Args:
        spec: the migration, or the path of its file.
        table: the source table's name (`shop.orders`); may be left out where there is only one.
        as_of: the table as it was after this batch, or at this time (ISO 8601, UTC where it says
            nothing else); as it is now where left out.
        held: the table as the batch that waits for the gate would make it.
        spark: a session to use, which is left running.

    Raises:
        ConfigurationError: see `waybill.merge.table_states.table_state`.
    """
    from waybill.merge.short_images import with_full_images
    from waybill.merge.table_states import table_state

    migration = loaded(spec)
    with _session(spark, migration) as session:
        lake = Lake.open(session, migration)
        wanted = table_state(lake, migration, table, as_of, held)
        if wanted.table is None:
            return
        rows = lake.read(wanted.table, wanted.snapshot).where("NOT _waybill_deleted")
        live = with_full_images(lake, wanted.table, rows)
        ordered = live.orderBy(*_by_key(live)).select("_waybill_image")
        empty = dict.fromkeys(wanted.columns)
        for row in ordered.toLocalIterator(prefetchPartitions=True):
            yield {**empty, **json.loads(row[0])}


def _by_key(rows: DataFrame) -> list[Column]:
    """Columns to sort by: each key column as a number where it is one, then as text.

    `waybill.merge.table_rows.by_key` is the same without Spark.
    """
    from pyspark.sql import functions as F

    from waybill.merge.table_rows import DIGITS, NUMBER

    first = rows.select("_waybill_key").where("_waybill_key IS NOT NULL").head()
    names: Sequence[str] = [] if first is None else list(json.loads(first[0]))
    values = F.from_json("_waybill_key", "map<string,string>")
    columns: list[Column] = []
    for name in names:
        value = values[F.lit(name)]
        number = F.when(value.rlike(rf"\A(?:{NUMBER})\z"), value.try_cast(f"decimal({DIGITS},0)"))
        columns += [number, value]
    return [*columns, F.col("_waybill_key")]


def loaded(spec: Specification) -> Migration:
    """The migration that is meant, read from its file if it is a path."""
    return spec if isinstance(spec, Migration) else load_migration(spec)


def new_batch_id() -> str:
    """An id for a new batch: the time in UTC, so that ids sort, and a mark against collisions."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def _progress(stage: str) -> Callable[..., None]:
    """Says a line of a stage, with its name in front."""

    def say(message: str, *args: object) -> None:
        named = message if message.startswith(f"{stage}:") else f"{stage}: {message}"
        _log.info(named, *args)

    return say


@contextmanager
def _session(spark: SparkSession | None, spec: Migration) -> Iterator[SparkSession]:
    """The session handed in, the one that is running, or one of our own that is ended."""
    from pyspark import SparkContext

    if spark is not None:
        with plainly(spec):
            yield spark
        return
    running = SparkContext._active_spark_context is not None
    session = start_session(spec, f"waybill {spec.name}")
    try:
        with plainly(spec):
            yield session
    finally:
        if not running:
            session.stop()


def keep_lake(spec: Specification) -> dict[str, Any]:
    """Keep the lake of a migration in shape (`waybill.upkeep.run`), and say what was done."""
    from waybill.upkeep.run import run_upkeep

    migration = loaded(spec).for_stage(UPKEEP)
    with _session(None, migration) as session:
        lake = Lake.open(session, migration)
        done = run_upkeep(migration, lake, migration.snapshots_kept, _progress(UPKEEP))
    return {"stage": "upkeep", "tables": [kept._asdict() for kept in done]}


def verify_tables(spec: Specification) -> dict[str, Any]:
    """Compare the merged tables with their source database (`waybill.verify`).

    Returns:
        `{"report": …}`, with `"error"` beside it where `check_equal` raises one; see `main`.
    """
    from waybill.verify.outcomes import by_outcome, check_equal
    from waybill.verify.run import run_verify

    migration = loaded(spec).for_stage(VERIFY)
    with _session(None, migration) as session:
        results = run_verify(migration, Lake.open(session, migration), progress=_progress(VERIFY))
    tables = [result.figures for result in results]
    report = {"stage": VERIFY, "tables": tables, "outcomes": by_outcome(results)}
    try:
        check_equal(migration, results)
    except (ConfigurationError, DifferenceError, UnreachableError) as error:
        sentence = described(error)
        _say(VERIFY, error, sentence["message"])
        return {"error": sentence, "report": report}
    return {"report": report}


def main(stage: str, argv: Sequence[str] | None = None) -> int:
    """Run a stage, or the upkeep, as Spark's entry scripts do.

    The result goes into a file as JSON: `{"report": …}` or `{"error": {"kind", "code",
    "message", "transient", "exit_code"}}`; `code` is None where nobody foresaw the error.

    Returns:
        The exit status: 0, or the error's.
    """
    parser = argparse.ArgumentParser(prog=stage, description=f"Run {stage} of a batch.")
    parser.add_argument("--migration", required=True, help="the migration's file")
    parser.add_argument("--batch", required=True, help="id of the batch")
    parser.add_argument("--mode", default="incremental", choices=MODES)
    parser.add_argument(
        "--tables", default="", help="with mode reload: names or patterns, with commas between"
    )
    parser.add_argument(
        "--keys", default=KEYS[0], choices=KEYS, help="with mode reload: which keys of the tables"
    )
    parser.add_argument(
        "--drop-held",
        action="store_true",
        help="drop the batch that failed the gate, and merge it again",
    )
    parser.add_argument(
        "--until-time", type=moment_of, help="read topics up to this time at most (ISO, UTC)"
    )
    parser.add_argument(
        "--decision",
        type=_asked,
        help="what a person decides about the batch, as JSON: what, by, reason, verdict",
    )
    parser.add_argument("--result", type=Path, help="file for the result as JSON")
    given = parser.parse_args(argv)
    log_to_stderr()
    tables = tables_in(given.tables)
    options = Options(
        given.mode, given.drop_held, given.until_time, given.decision, tables, given.keys
    )
    try:
        result = result_of(stage, given.migration, given.batch, options)
    except BaseException as error:
        _write(given.result, {"error": described(error)})
        raise
    _write(given.result, result)
    return int(result["error"]["exit_code"]) if "error" in result else 0


def tables_in(text: str) -> tuple[str, ...]:
    """Names or patterns of tables in a text, with commas between."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def check_tables_named(options: Options) -> None:
    """See that tables are named where some are reloaded, and keys are chosen only there.

    Raises:
        ConfigurationError: they are not.
    """
    if options.keys not in KEYS:
        raise ConfigurationError(unknown("choice of keys", options.keys, KEYS), code=Code.OPTION)
    if options.keys != KEYS[0] and options.mode != "reload":
        message = (
            f"keys {options.keys} are asked for, and mode {options.mode} takes all: name the "
            "tables to reload, e.g. --reload shop.orders --keys differing"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    if (options.mode == "reload") == bool(options.tables):
        return
    message = (
        "mode reload takes some tables once more: name them, e.g. --reload shop.orders"
        if options.mode == "reload"
        else f"tables are named, and mode {options.mode} takes all: use mode reload"
    )
    raise ConfigurationError(message, code=Code.OPTION)


def _asked(text: str) -> RequestedDecision:
    """A decision as JSON."""
    return RequestedDecision(**json.loads(text))


def log_to_stderr() -> None:
    """Let a process of its own say what its stages do."""
    logging.basicConfig(
        format="%(asctime)s waybill %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    _log.setLevel(logging.INFO)


def result_of(stage: str, spec: Specification, batch: str, options: Options) -> dict[str, Any]:
    """Run a stage, the upkeep or a verification, and say what came of it as plain data.

    Returns:
        `{"report": …}` or `{"error": …}`, see `main`; of a gate that said no both. Errors are
        logged.
    """
    try:
        if stage == UPKEEP:
            return {"report": keep_lake(spec)}
        if stage == VERIFY:
            return verify_tables(spec)
        return {"report": run_stage(stage, spec, batch, options=options).to_json_safe()}
    except GateError as error:
        sentence = described(error)
        _say(stage, error, sentence["message"])
        if error.report is None:
            return {"error": sentence}
        return {"error": sentence, "report": StageReport.from_dict(error.report).to_json_safe()}
    except Exception as error:  # noqa: BLE001 - returned to whoever asked
        sentence = described(error)
        _say(stage, error, sentence["message"])
        return {"error": sentence}


def _say(stage: str, error: BaseException, message: str) -> None:
    if isinstance(error, WaybillError) and "WAYBILL_DEBUG" not in os.environ:
        _log.error("%s: %s", stage, error)
    else:
        _log.error("%s: %s: %s", stage, type(error).__name__, message, exc_info=error)


def _write(path: Path | None, result: dict[str, Any]) -> None:
    """Put the result into its file, whole or not at all."""
    if path is None:
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(result), encoding="utf-8")
    beside.replace(path)
