"""One stage of a migration as an Airflow task that returns the stage's report.

The stage runs in a Spark of its own, submitted for it, or in a driver that stays (`waybill driver`)
where Airflow has a connection to one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from waybill.connections import variable_of
from waybill.errors import Code, ConfigurationError, DriverError
from waybill.report import STAGES
from waybill.spec.durations import moment_of, seconds_of
from waybill.spec.file import load_migration
from waybill_airflow import approval, library, outcome, places, submission
from waybill_airflow.drivers import find_driver, fits
from waybill_airflow.links import BatchLink, GateReportLink
from waybill_airflow.outcome import StageFailed
from waybill_airflow.params import BATCH_PATTERN

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from waybill.spec.migration import Migration
    from waybill_airflow.approval import Answer
    from waybill_airflow.drivers import Driver
    from waybill_airflow.signals.lineage.stages import Lineage

SCRIPTS = {
    "snapshot": "snapshot_topics.py",
    "convert": "convert_envelopes.py",
    "merge": "merge_tables.py",
    "validate": "validate_batch.py",
    "publish": "publish_batch.py",
    "upkeep": "keep_lake.py",
    "verify": "verify_tables.py",
}
"""The entry script of each stage, of the upkeep and of a verification."""


class StageOperator(SparkSubmitOperator):
    """Has one stage of one batch run and returns its report.

    A stage commits once and knows its batch, so a task can be tried or cleared at any time: what is
    done is not done again. What Spark needs is made up when the task runs, on the worker; settings
    of the migration go into a file that only the worker's user can read, because they may hold
    secrets.

    **What it does not do:** it does not free the worker while Spark works.

    Args:
        stage: one of the five stages, or `upkeep` or `verify`, which belong to no batch.
        migration: path of the migration's file.
        batch: id of the batch (templated).
        mode: what the snapshot reads (templated).
        tables: which tables mode `reload` takes, with commas between (templated).
        keys: which keys of them; empty for all (templated).
        until: the last stage that the run wants; later ones are skipped (templated).
        until_time: up to when topics are read, in ISO 8601; empty for all there is (templated).
        drop_held: not empty to drop what a failed gate holds (templated).
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "migration",
        "batch",
        "mode",
        "tables",
        "keys",
        "until",
        "until_time",
        "drop_held",
    )
    overwrite_rtif_after_execution = True
    """The task's page shows the arguments that Spark was really started with."""
    operator_extra_links: Sequence[BaseOperatorLink] = (BatchLink(),)
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        stage: str,
        migration: str,
        batch: str = "{{ params.batch or batch_of(dag_run) }}",
        mode: str = "{{ params.mode }}",
        tables: str = "{{ params.tables or '' }}",
        keys: str = "{{ params['keys'] if params['keys'] != 'all' else '' }}",
        until: str = "{{ params.until }}",
        until_time: str = "{{ params.until_time or '' }}",
        drop_held: str = "{{ 'yes' if params.drop_held else '' }}",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("application", str(places.entry_scripts() / SCRIPTS[stage]))
        kwargs.setdefault("conn_id", places.spark_connection())
        kwargs.setdefault("name", f"waybill {stage}")
        kwargs.setdefault(
            "application_args", ["--migration", migration, "--batch", batch, "--mode", mode]
        )
        super().__init__(**kwargs)
        if stage not in STAGES:
            self.operator_extra_links = ()
        self.stage = stage
        self.migration = migration
        self.batch = batch
        self.mode = mode
        self.tables = tables
        self.keys = keys
        self.until = until
        self.until_time = until_time
        self.drop_held = drop_held
        self.submitted_batch: str | None = None
        self.decision: dict[str, Any] | None = None
        self._lineage: Lineage | None = None

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the stage.

        Raises:
            AirflowSkipException: the run was asked to stop before this stage.
            AirflowFailException: trying again would not help.
            StageInterrupted: trying again may help.
        """
        if self.stage in STAGES and STAGES.index(self.stage) > STAGES.index(self.until):
            message = f"this run was asked to stop after {self.until}"
            raise AirflowSkipException(message)
        if not re.fullmatch(BATCH_PATTERN, self.batch):
            message = (
                f"{self.batch!r} is not a batch id: use letters, digits, dot, dash and underscore"
            )
            raise AirflowFailException(message)
        self.submitted_batch = self.batch
        try:
            if self.until_time:
                moment_of(self.until_time)
        except ValueError as error:
            message = f"{self.until_time!r}, up to which to read, is not a time: {error}"
            raise AirflowFailException(message) from None
        try:
            spec = load_migration(self.migration).for_stage(self.stage)
            connections = submission.connections(self._named(spec))
            driver = find_driver()
        except (ConfigurationError, DriverError) as error:
            raise AirflowFailException(str(error)) from None
        try:
            report = self._run(context, spec, driver, connections)
        except StageFailed as failed:
            self._tell_others(spec, failed.report, context)
            raise
        self._tell_others(spec, report, context)
        return report

    def _named(self, spec: Migration) -> list[str]:
        """The connections that the stage needs; that of the database is for verifications alone."""
        of_database = [spec.database] if self.stage == "verify" and spec.database else []
        return [*spec.connections, *of_database]

    def _run(
        self, context: Context, spec: Migration, driver: Driver | None, connections: dict[str, str]
    ) -> dict[str, Any]:
        if driver is not None and not fits(spec):
            self.log.info("%s has Spark settings of its own and is submitted alone", spec.name)
        elif driver is not None:
            return self._asked(context, driver, connections)
        os.environ.update({variable_of(name): text for name, text in connections.items()})
        return self._submitted(context, spec)

    def _tell_others(
        self, spec: Migration, report: dict[str, Any] | None, context: Context
    ) -> None:
        """Send metrics, updates of assets, lineage; upkeep has no report of a batch."""
        if report is not None and self.stage in STAGES:
            from waybill_airflow.signals import after_stage  # loads pyarrow

            self._lineage = after_stage.tell(spec, report, context)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Lineage | None:
        """What the stage has read and written, for the provider of OpenLineage.

        The provider asks once the task has ended, in a process of its own that should do little.
        """
        return self._lineage

    get_openlineage_facets_on_failure = get_openlineage_facets_on_complete

    def _asked(
        self, context: Context, driver: Driver, connections: dict[str, str]
    ) -> dict[str, Any]:
        """Have the driver run the stage."""
        order: dict[str, Any] = {
            "stage": self.stage,
            "migration": self.migration,
            "batch": self.batch,
            "mode": self.mode,
            "connections": connections,
        }
        if self.tables:
            order["tables"] = self.tables
        if self.keys:
            order["keys"] = self.keys
        if self.until_time:
            order["until_time"] = self.until_time
        if self.drop_held:
            order["drop_held"] = True
        if self.decision is not None:
            order["decision"] = self.decision
        try:
            result = driver.run(order, self._tell)
        except DriverError as error:
            if error.transient:
                raise outcome.StageInterrupted(str(error)) from None
            raise AirflowFailException(str(error)) from None
        if "error" in result:
            outcome.keep_report(result, context)
            raise outcome.failure_of(result, self.stage, None)
        return outcome.report_of(result, self.stage)

    def _tell(self, line: str, level: str) -> None:
        self.log.log(logging.getLevelNamesMapping().get(level, logging.INFO), line)

    def _submitted(self, context: Context, spec: Migration) -> dict[str, Any]:
        """Start a Spark for the stage."""
        with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
            result = Path(folder) / "result.json"
            self._prepare(Path(folder), result, spec)
            try:
                super().execute(context)
            except AirflowException as error:
                if isinstance(error, AirflowFailException):
                    raise
                # The hook's own message repeats the command line and the log.
                read = outcome.read(result)
                outcome.keep_report(read, context)
                raise outcome.failure_of(read, self.stage, self._exit_code()) from None
            return outcome.report_of(outcome.read(result), self.stage)

    def _prepare(self, folder: Path, result: Path, spec: Migration) -> None:
        """Make up what depends on the worker: settings, the library, the place of the result."""
        more = ["--until-time", self.until_time] if self.until_time else []
        more += ["--tables", self.tables] if self.tables else []
        more += ["--keys", self.keys] if self.keys else []
        more += ["--drop-held"] if self.drop_held else []
        more += ["--decision", json.dumps(self.decision)] if self.decision is not None else []
        arguments = [*(self.application_args or []), *more]
        self.application_args = [*arguments, "--result", str(result)]
        self.py_files = self.py_files or str(library.library_zip(places.cache_folder()))
        from waybill.lake.java import check_java

        try:
            check_java()
            ours, theirs = submission.settings(spec, self._master())
        except ConfigurationError as error:
            raise AirflowFailException(str(error)) from None
        self.conf = {**ours, **(self.conf or {})}
        if theirs:
            from waybill.lake.properties_file import write_properties  # loads PySpark

            self.properties_file = str(write_properties(folder, theirs))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        beside = Path(sys.executable).parent
        if shutil.which("spark-submit") is None and (beside / "spark-submit").exists():
            os.environ["PATH"] = os.pathsep.join([str(beside), os.environ.get("PATH", "")])

    def _master(self) -> str:
        try:
            connection = BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            message = (
                f"there is no connection {self._conn_id!r}: add one of type spark, with the host "
                "local[*] or spark://HOST, or name another in WAYBILL_SPARK_CONN"
            )
            raise AirflowFailException(message) from None
        return str(connection.host or connection.conn_type)

    def _exit_code(self) -> int | None:
        process = getattr(self._hook, "_submit_sp", None)
        return None if process is None else process.poll()


class GateOperator(StageOperator):
    """The validate stage, with a button to what the gate measured.

    Where the migration says `quality.on_failure: ask`, a batch that the gate holds is a question to
    a person: the task waits in *Required actions* and goes on with the answer.
    """

    operator_extra_links = (BatchLink(), GateReportLink())
    ui_color = "#fef7e0"

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the stage.

        Raises:
            TaskAwaitingInput: the gate holds the batch, and a person is asked.
            AirflowException: see `StageOperator.execute`.
        """
        try:
            return super().execute(context)
        except StageFailed as failed:
            quality = load_migration(self.migration).quality
            report = failed.report or {}
            asks = quality.on_failure == "ask" and failed.code == Code.GATE_REFUSED.label
            if not asks or report.get("batch") != self.batch:
                raise
            question = approval.question_of(
                str(context["dag"].dag_id), self.batch, report["details"]
            )
            if not approval.ask(context, question):
                message = (
                    f"{failed}; this task has asked about other findings before, and Airflow shows "
                    "that question still, so nobody is asked: decide with `waybill gate`"
                )
                raise AirflowFailException(message) from None
            self.log.warning("%s", failed)
            from waybill_airflow.signals.alerts import tell_held

            tell_held(load_migration(self.migration), failed, context)
            self._wait(question)

    def execute_complete(
        self, context: Context, event: dict[str, Any], question: dict[str, Any]
    ) -> dict[str, Any]:
        """Go on with a person's answer.

        Args:
            context: of the task.
            event: the answer.
            question: what was asked.

        Raises:
            AirflowSkipException: the batch was dropped, so that this run has nothing to publish.
            AirflowFailException: the batch stays held.
            TaskAwaitingInput: the answer lacks its reason, so it is asked for once more.
        """
        answer = approval.answer_of(event)
        self.submitted_batch = self.batch
        if answer.what is None:
            raise AirflowFailException(self._left(answer))
        if answer.lacks_reason:
            self.log.warning("%s needs a reason (%s)", approval.PUBLISH, approval.WHY)
            approval.ask(context, question)
            self._wait(question)
        self.decision = {
            "what": answer.what,
            "by": answer.by or "nobody known to Airflow",
            "reason": answer.reason or "no reason was given",
            "verdict": question["verdict"],
        }
        # A task that goes on was not called by way of `execute`, which Airflow would warn about.
        token = ExecutorSafeguard.tracker.set(self)
        try:
            # Not that of this class: if the gate finds something else now, people look first.
            return super().execute(context)
        except StageFailed as failed:
            if failed.code == Code.BATCH_DROPPED.label:
                raise AirflowSkipException(str(failed)) from None
            raise
        finally:
            ExecutorSafeguard.tracker.reset(token)

    def _wait(self, question: dict[str, Any]) -> NoReturn:
        quality = load_migration(self.migration).quality
        raise TaskAwaitingInput(
            method_name="execute_complete",
            kwargs={"question": question},
            timeout=timedelta(seconds=seconds_of(quality.answer_within)),
        )

    def _left(self, answer: Answer) -> str:
        spec = load_migration(self.migration)
        who = "nobody answered in time" if answer.by is None else f"{answer.by} leaves it held"
        why = f": {answer.reason}" if answer.reason else ""
        return (
            f"batch {self.batch} does not pass the gate, and {who}{why}; nothing was published; "
            f"fix the cause, then `{spec.command('run', 'FILE', '--drop-held')}`"
        )
