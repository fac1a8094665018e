"""The routes that show values: refused messages, the changes of a row, rows that differ.

These are data of people's customers: who sees them needs the right to read the logs of the DAG's
tasks, and each look is in Airflow's audit log.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse

from waybill.errors import WaybillError
from waybill.overview.files import read_index
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.headers import WITH_A_FORM
from waybill_airflow.web.known_migrations import known_migration
from waybill_airflow.web.parameters import (
    AS_OF,
    DAG_ID,
    KEY,
    KIND,
    OFFSET,
    ONE_BATCH,
    PARTITION,
    TABLE,
    TOPIC,
)
from waybill_airflow.web.quarantine_view import message_view, quarantine_view
from waybill_airflow.web.rendering import page
from waybill_airflow.web.rights import Rights
from waybill_airflow.web.row_view import row_view
from waybill_airflow.web.verification_view import verification_view

SEES_VALUES = Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))

Notice = Callable[..., HTMLResponse]
"""Makes a page of a few words: title, sentences, and `status`."""


def add_value_pages(app: FastAPI, notice: Notice) -> None:
    """Add the routes to the application."""

    @app.get(
        "/quarantine/{dag_id}",
        dependencies=[SEES_VALUES, Depends(action_logging("waybill_quarantine"))],
    )
    def quarantine(
        user: GetUserDep,
        dag_id: str = DAG_ID,
        batch: str = ONE_BATCH,
        kind: str = KIND,
        table: str = TABLE,
    ) -> HTMLResponse:
        """The refused messages of a migration."""
        try:
            spec = known_migration(dag_id)
            if spec is None:
                return notice(
                    "No migration", [f"{dag_id} is not a migration of Waybill."], status=404
                )
            may_trigger = Rights(user).triggers(dag_id)
            view = quarantine_view(spec, batch, kind, table, may_trigger)
        except WaybillError as error:
            return notice("The quarantine cannot be read", [str(error)], status=503)
        return HTMLResponse(page("quarantine", view=view))

    @app.get(
        "/quarantine/{dag_id}/message",
        dependencies=[SEES_VALUES, Depends(action_logging("waybill_refused_message"))],
    )
    def message(
        dag_id: str = DAG_ID,
        topic: str = TOPIC,
        partition: int = PARTITION,
        offset: int = OFFSET,
    ) -> HTMLResponse:
        """A refused message with its bytes."""
        place = f"{topic}/{partition}/{offset}"
        try:
            spec = known_migration(dag_id)
            view = None if spec is None else message_view(spec, topic, partition, offset)
        except WaybillError as error:
            return notice("The message cannot be read", [str(error)], status=503)
        if view is None:
            sentence = f"No message at {place} was refused by {dag_id}."
            return notice("No such message", [sentence], status=404)
        return HTMLResponse(page("message", view=view))

    @app.get("/rows/{dag_id}", dependencies=[SEES_VALUES, Depends(action_logging("waybill_row"))])
    def row(
        dag_id: str = DAG_ID, table: str = TABLE, key: str = KEY, as_of: str = AS_OF
    ) -> HTMLResponse:
        """Every change of a row, and the row as of a batch."""
        try:
            spec = known_migration(dag_id)
            if spec is None:
                return notice(
                    "No migration", [f"{dag_id} is not a migration of Waybill."], status=404
                )
            index = in_lake_of(spec, read_index)
            view = row_view(spec, table, key, as_of, index)
        except WaybillError as error:
            return notice("The row cannot be read", [str(error)], status=503)
        return HTMLResponse(page("row", view=view), headers=WITH_A_FORM)

    _add_verifications(app, notice)


def _add_verifications(app: FastAPI, notice: Notice) -> None:
    @app.get(
        "/verifications/{dag_id}",
        dependencies=[SEES_VALUES, Depends(action_logging("waybill_verification"))],
    )
    def verification(dag_id: str = DAG_ID) -> HTMLResponse:
        """What the newest verification of every table found."""
        try:
            spec = known_migration(dag_id)
            if spec is None:
                return notice(
                    "No migration", [f"{dag_id} is not a migration of Waybill."], status=404
                )
            view = verification_view(spec)
        except WaybillError as error:
            return notice("The verifications cannot be read", [str(error)], status=503)
        return HTMLResponse(page("verification", view=view))
