"""What Airflow's database knows of DAGs and their runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import func, select

from waybill.report import STAGES
from waybill_airflow.params import BATCH_PATTERN, batch_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

RUNS_SEARCHED = 1000
"""Where a run is looked for by its batch, so many of the newest are asked."""


class RunFacts(NamedTuple):
    """A run.

    Attributes:
        run_id: its id.
        state: in Airflow's words.
        batch: the batch that it stands for.
        stage: the first whose task has failed; empty where none has, or the run has not failed.
    """

    run_id: str
    state: str
    batch: str
    stage: str = ""


class DagFacts(NamedTuple):
    """A DAG.

    Attributes:
        paused: whether Airflow starts no runs by itself.
        next_run: when the next one may start; None where none is planned.
        last: the run that was made last, None where there was none.
    """

    paused: bool = False
    next_run: datetime | None = None
    last: RunFacts | None = None


def dag_facts(dag_ids: Iterable[str]) -> dict[str, DagFacts]:
    """What is known of some DAGs; those that Airflow does not know are left out."""
    wanted = sorted(dag_ids)
    with create_session() as session:
        newest = (
            select(func.max(DagRun.id)).where(DagRun.dag_id.in_(wanted)).group_by(DagRun.dag_id)
        )
        runs = session.scalars(select(DagRun).where(DagRun.id.in_(newest))).all()
        last = {run.dag_id: facts for run, facts in zip(runs, _facts(session, runs), strict=True)}
        columns = (DagModel.dag_id, DagModel.is_paused, DagModel.next_dagrun_create_after)
        rows = session.execute(select(*columns).where(DagModel.dag_id.in_(wanted))).all()
        return {dag: DagFacts(paused, due, last.get(dag)) for dag, paused, due in rows}


def runs_by_batch(dag_id: str, limit: int) -> dict[str, RunFacts]:
    """The last runs of a DAG by the batch that they stand for; of several the newest."""
    with create_session() as session:
        found = _runs(dag_id).order_by(DagRun.id.desc()).limit(limit)
        facts = _facts(session, session.scalars(found).all())
    return {run.batch: run for run in reversed(facts)}


def run_of(dag_id: str, run_id: str) -> RunFacts | None:
    """A run, None where there is none."""
    with create_session() as session:
        run = session.scalar(_runs(dag_id).where(DagRun.run_id == run_id))
        return None if run is None else _facts(session, [run])[0]


def task_states(dag_id: str, run_id: str) -> dict[str, str]:
    """The state of each task of a run, in Airflow's words."""
    columns = (TaskInstance.task_id, TaskInstance.state)
    wanted = select(*columns).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    with create_session() as session:
        return {task: str(state or "") for task, state in session.execute(wanted)}


def _runs(dag_id: str) -> Any:
    return select(DagRun).where(DagRun.dag_id == dag_id)


def _facts(session: Session, runs: Sequence[DagRun]) -> list[RunFacts]:
    failed = _failed_stages(session, [run for run in runs if run.state == "failed"])
    return [
        RunFacts(
            run.run_id,
            str(run.state or ""),
            _batch(run),
            failed.get((run.dag_id, run.run_id), ""),
        )
        for run in runs
    ]


def _batch(run: DagRun) -> str:
    named = run.conf.get("batch") if isinstance(run.conf, dict) else None
    usable = isinstance(named, str) and re.fullmatch(BATCH_PATTERN, named)
    return str(named) if usable else batch_of(run)


def _failed_stages(session: Session, runs: Sequence[DagRun]) -> dict[tuple[str, str], str]:
    """The first stage that failed of some runs, by DAG and run."""
    if not runs:
        return {}
    task = TaskInstance
    wanted = select(task.dag_id, task.run_id, task.task_id).where(
        task.dag_id.in_({run.dag_id for run in runs}),
        task.run_id.in_({run.run_id for run in runs}),
        task.task_id.in_(STAGES),
        task.state == "failed",
    )
    found: dict[tuple[str, str], str] = {}
    rows = sorted(session.execute(wanted), key=lambda row: STAGES.index(row.task_id))
    for dag_id, run_id, stage in rows:
        found.setdefault((dag_id, run_id), stage)
    return found
