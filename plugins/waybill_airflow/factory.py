"""One DAG per migration file."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, chain

from waybill.errors import Code, ConfigurationError
from waybill.report import STAGES
from waybill_airflow.dag_docs import dag_docs
from waybill_airflow.dag_ids import UPKEEP, VERIFY, WATCH
from waybill_airflow.migration_files import read_migrations, sentence
from waybill_airflow.operators import GateOperator, StageOperator
from waybill_airflow.params import batch_of, trigger_form
from waybill_airflow.places import migrations_folder
from waybill_airflow.signals.asset_names import alias_of

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

RUN_TYPES: Any = (
    *("scheduled", "manual", "operator_triggered"),
    *("asset_triggered", "asset_materialization"),
)
"""A batch takes what is new and belongs to no date: a backfill would make runs without end."""

_ONE_LINE = {
    "snapshot": "Copies new messages of the source into the archive, bytes untouched.",
    "convert": "Decodes them to changes and writes the messages of every target to the outbox.",
    "merge": "Updates the tables on a branch that is not visible yet.",
    "validate": "Runs the gate; nothing becomes visible unless it passes.",
    "publish": "Sends the outbox and makes the tables visible.",
}


def migration_dags(folder: Path | None = None) -> dict[str, DAG]:
    """A DAG for every migration file that can be used, by DAG id.

    A file that cannot be used is left out here and does not hide the others; `check_migrations`
    tells about it.
    """
    return _read(folder)[0]


def check_migrations(folder: Path | None = None) -> None:
    """Tell every migration file that cannot become a DAG.

    Raises:
        ConfigurationError: names each file and what is wrong with it.
    """
    problems = _read(folder)[1]
    if problems:
        raise ConfigurationError("\n".join(problems), code=Code.SPECIFICATION)


def _read(folder: Path | None) -> tuple[dict[str, DAG], list[str]]:
    migrations, problems = read_migrations(folder or migrations_folder())
    dags: dict[str, DAG] = {}
    names = {spec.name: file for file, spec in migrations}
    for file, spec in migrations:
        try:
            for build in (build_dag, build_upkeep, build_verify, build_watch):
                dag = build(spec, file)
                if dag is None:
                    continue
                if dag.dag_id != spec.name and dag.dag_id in names:
                    problems.append(
                        f"{file}: it would make the DAG {dag.dag_id!r}, too, which is the "
                        f"migration of {names[dag.dag_id].name}; give one of them another name"
                    )
                    continue
                # Airflow would ask the same, and hide every DAG of the DAG file if one fails.
                dag.validate()  # type: ignore[no-untyped-call]
                dags[dag.dag_id] = dag
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one file stays with it
            problems.append(sentence(file, error))
    return dags, problems


def build_dag(spec: Migration, file: Path) -> DAG:
    """The DAG of one migration: five stages in a row, one run at a time.

    Raises:
        ConfigurationError: a notifier cannot be made.
    """
    _check_notifiers(spec)
    with DAG(
        dag_id=spec.name,
        dag_display_name=spec.name.replace("_", " ").capitalize(),
        description=_first_sentence(spec.description),
        doc_md=dag_docs(spec, str(file)),
        schedule=spec.schedule or [Asset(name) for name in spec.after_assets] or None,
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        auto_register=False,  # the DAG file names them; checking them must not make them
        catchup=False,
        max_active_runs=1,
        allowed_run_types=RUN_TYPES,
        tags={"waybill", *spec.tags},
        params=trigger_form(),
        user_defined_macros={"batch_of": batch_of},
        default_args={
            "owner": spec.owner,
            "retries": 3,
            "retry_delay": timedelta(seconds=20),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(minutes=10),
            **_alerts(spec, file),
        },
    ) as dag:
        tasks = [
            (GateOperator if stage == "validate" else StageOperator)(
                task_id=stage,
                stage=stage,
                migration=str(file.absolute()),
                name=f"waybill {spec.name} {stage}",
                doc_md=_ONE_LINE[stage],
                outlets=[alias_of(spec.name)] if stage == STAGES[-1] else None,
            )
            for stage in STAGES
        ]
        chain(*tasks)
    return dag


def build_upkeep(spec: Migration, file: Path) -> DAG | None:
    """The DAG that keeps the lake of a migration in shape; none where the file does not ask."""
    if spec.upkeep is None:
        return None
    with _dag_beside(
        spec,
        file,
        UPKEEP,
        spec.upkeep.schedule,
        description="Joins small files, expires old snapshots and tombstones.",
        doc_md="Safe while batches run: it skips a table that is being written until the next run.",
        retry_delay=timedelta(minutes=10),
    ) as dag:
        _of_no_batch("upkeep", spec, file)
    return dag


def build_verify(spec: Migration, file: Path) -> DAG | None:
    """The DAG that compares the tables with their database; none where the file names none."""
    if spec.verify is None:
        return None
    with _dag_beside(
        spec,
        file,
        VERIFY,
        spec.verify.schedule,
        description="Compares the merged tables with the source database, row by row.",
        doc_md="Only reads the database. Fails if anything differs, and names the tables.",
        retry_delay=timedelta(minutes=10),
    ) as dag:
        _of_no_batch("verify", spec, file)
    return dag


def _of_no_batch(stage: str, spec: Migration, file: Path) -> StageOperator:
    """The task of a DAG that has no form, because its stage belongs to no batch."""
    return StageOperator(
        task_id=stage,
        stage=stage,
        migration=str(file.absolute()),
        batch=stage,
        mode="incremental",
        tables="",
        keys="",
        until=STAGES[-1],
        until_time="",
        drop_held="",
        name=f"waybill {spec.name} {stage}",
    )


def build_watch(spec: Migration, file: Path) -> DAG | None:
    """The DAG that looks for what no run tells of; none where nobody asks for it."""
    if spec.watched is None:
        return None
    from waybill_airflow.signals.watching import WatchOperator

    with _dag_beside(
        spec,
        file,
        WATCH,
        spec.watched,
        description="Asks the source how much waits there; sends alerts when something is late.",
        doc_md="Pause it together with the migration.",
        retry_delay=timedelta(seconds=20),
    ) as dag:
        WatchOperator(task_id="watch", migration=str(file.absolute()))
    return dag


def _dag_beside(
    spec: Migration,
    file: Path,
    suffix: str,
    schedule: str | None,
    description: str,
    doc_md: str,
    retry_delay: timedelta,
) -> DAG:
    """A DAG beside that of the migration, with the suffix in its id."""
    what = suffix.removeprefix("_")
    return DAG(
        dag_id=f"{spec.name}{suffix}",
        dag_display_name=f"{spec.name.replace('_', ' ').capitalize()} {what}",
        description=description,
        doc_md=doc_md,
        schedule=schedule,
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        auto_register=False,
        catchup=False,
        max_active_runs=1,
        allowed_run_types=RUN_TYPES,
        tags={"waybill", what, *spec.tags},
        default_args={
            "owner": spec.owner,
            "retries": 1,
            "retry_delay": retry_delay,
            **_alerts(spec, file),
        },
    )


def _check_notifiers(spec: Migration) -> None:
    """Make the notifiers of a migration once, so that one that cannot be made names its file.

    Not those of the DAGs beside it again: a notifier of others may take its time.
    """
    if spec.alerts is None:
        return
    from waybill_airflow.signals.notifiers import check_receiver

    for receiver in spec.alerts.to:
        check_receiver(receiver)


def _alerts(spec: Migration, file: Path) -> dict[str, Any]:
    """What makes tasks tell of their failure, where the migration asks for it."""
    if spec.alerts is None:
        return {}
    from waybill_airflow.signals.alerts import AlertOnFailure

    return {"on_failure_callback": AlertOnFailure(file.absolute())}


def _first_sentence(text: str) -> str | None:
    found = re.match(r".+?(?:[.!?](?=\s|$)|$)", " ".join(text.split()))
    return found[0] if found else None
