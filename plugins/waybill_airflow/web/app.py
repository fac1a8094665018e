"""The web application that the plugin mounts.

Airflow gives a mounted application no protection of its own, so that every route here but that of
the style sheet asks for the login, and every one about a migration for the right to see the runs of
its DAG.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import TYPE_CHECKING

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_authenticated,
)
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from waybill.errors import WaybillError
from waybill_airflow.dag_ids import dags_beside
from waybill_airflow.web import reports
from waybill_airflow.web.airflow_runs import RunFacts, run_of
from waybill_airflow.web.batch_view import batch_view
from waybill_airflow.web.formats_view import formats_view
from waybill_airflow.web.headers import HEADERS, REPORT_HEADERS, WITH_A_FORM
from waybill_airflow.web.kept_objects import Settled
from waybill_airflow.web.known_migrations import known_migration, known_migrations
from waybill_airflow.web.lake_outlines import ask_again
from waybill_airflow.web.migration_view import migration_view
from waybill_airflow.web.migrations_view import overview
from waybill_airflow.web.parameters import ANY_DAG_ID, BATCH, DAG_ID, RUN_ID
from waybill_airflow.web.rendering import page
from waybill_airflow.web.rights import Rights
from waybill_airflow.web.value_pages import add_value_pages

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

FILES = {
    "waybill.css": "text/css",
    "frame.js": "text/javascript",
    "trigger.js": "text/javascript",
    "again.js": "text/javascript",
    "waybill.svg": "image/svg+xml",
    "waybill-dark.svg": "image/svg+xml",
}

SEES_RUNS = Depends(requires_access_dag("GET", DagAccessEntity.RUN))


def make_app() -> FastAPI:
    """The application, without the pages by which FastAPI describes itself."""
    app = FastAPI(
        title="Waybill",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=HTMLResponse,
        dependencies=[Depends(requires_authenticated())],
    )

    settled = Settled()

    @app.middleware("http")
    async def add_headers(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        route = request.scope.get("route")
        if route is not None and settled.lacks(route.path):
            await run_in_threadpool(settled.after, route.path)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    app.add_exception_handler(AnyHTTPException, _said_no)
    app.add_exception_handler(RequestValidationError, _no_such_name)
    _add_pages(app)
    add_value_pages(app, _notice)
    _add_reports(app)
    return app


# These functions wait for Airflow's database and for files, so none of them is `async`: each runs
# in a thread, and the server goes on.


def _add_pages(app: FastAPI) -> None:
    @app.get("/migrations")
    def migrations(user: GetUserDep) -> HTMLResponse:
        """All migrations that the user may see."""
        view = overview(Rights(user))
        later = BackgroundTask(ask_again, view.due) if view.due else None
        return HTMLResponse(page("migrations", view=view), background=later)

    @app.get("/dags/{dag_id}", dependencies=[SEES_RUNS])
    def migration(user: GetUserDep, dag_id: str = ANY_DAG_ID) -> HTMLResponse:
        """A migration, or a word about a DAG that is none."""
        return _about(dag_id, None, user)

    @app.get("/runs/{dag_id}/{run_id}", dependencies=[SEES_RUNS])
    def run(user: GetUserDep, dag_id: str = ANY_DAG_ID, run_id: str = RUN_ID) -> HTMLResponse:
        """The batch of a run, or a word about a DAG that is not a migration."""
        return _about(dag_id, run_id, user)

    @app.get("/batches/{dag_id}/{batch}", dependencies=[SEES_RUNS])
    def batch(user: GetUserDep, dag_id: str = DAG_ID, batch: str = BATCH) -> HTMLResponse:
        """A batch."""
        return _batch(dag_id, batch, None, user)

    @app.get("/formats")
    def formats(
        source: str = Query("", max_length=100), target: str = Query("", max_length=100)
    ) -> HTMLResponse:
        """What is lost between two formats."""
        return HTMLResponse(page("formats", view=formats_view(source, target)), headers=WITH_A_FORM)

    # The only one that asks for no login: the page that does so is dressed, too.
    app.add_route("/static/{name}", _static)


def _static(request: Request) -> Response:
    """The style sheet, the scripts and the icons of the pages, in which nothing is anybody's."""
    name = request.path_params["name"]
    kind = FILES.get(name)
    if kind is None:
        raise HTTPException(404)
    file = resources.files("waybill_airflow.web") / "static" / name
    return Response(file.read_bytes(), media_type=kind)


def _about(dag_id: str, run_id: str | None, user: BaseUser) -> HTMLResponse:
    try:
        spec = known_migration(dag_id)
    except WaybillError as error:
        return _notice("This migration's file cannot be used", [str(error)], 503)
    if spec is None and (base := _belongs_to(dag_id)) is not None:
        words = f"{dag_id} belongs to the migration {base}. Its figures are there."
        return _notice("A DAG of a migration", [words], link=base)
    if spec is None:
        words = (
            f"{dag_id} is not a migration of Waybill, so there is nothing to show about it here."
        )
        return _notice("No migration", [words])
    if run_id is None:
        rights = Rights(user)
        view = migration_view(spec, rights.triggers(dag_id), rights.sees_values(dag_id))
        return HTMLResponse(page("migration", view=view))
    run = run_of(dag_id, run_id)
    if run is None:
        return _notice("No such run", [f"Airflow knows no run {run_id} of {dag_id}."], 404)
    return _batch(dag_id, run.batch, run, user)


def _belongs_to(dag_id: str) -> str | None:
    """The migration that a DAG keeps in shape or looks after, None if it does neither."""
    known = (spec for _, spec in known_migrations().migrations)
    return next((spec.name for spec in known if dag_id in dags_beside(spec)), None)


def _batch(dag_id: str, batch: str, run: RunFacts | None, user: BaseUser) -> HTMLResponse:
    try:
        spec = known_migration(dag_id)
        with_file = Rights(user).reads_file(dag_id)
        view = None if spec is None else batch_view(spec, batch, run, with_file)
    except WaybillError as error:
        return _notice("The batch cannot be read", [str(error)], 503)
    if view is not None:
        return HTMLResponse(page("batch", view=view))
    sentences = [
        f"There is no account of batch {batch} of migration {dag_id}. No stage has committed "
        "anything for it yet, or it is older than the lake's records."
    ]
    if run is not None:
        sentences.append(f"Airflow says of its run: {run.state or 'nothing'}.")
    # A tab about a run that has only begun is not an error.
    return _notice("No account yet", sentences, 404 if run is None else 200)


def _add_reports(app: FastAPI) -> None:
    @app.get(
        "/gate/{dag_id}/{batch}",
        dependencies=[SEES_RUNS, Depends(action_logging("waybill_gate_report"))],
    )
    def gate(user: GetUserDep, dag_id: str = DAG_ID, batch: str = BATCH) -> HTMLResponse:
        """What the gate measured for a batch; keys and values of rows for whom they are."""
        with_values = Rights(user).sees_values(dag_id)
        try:
            report = reports.gate_report(dag_id, batch, with_values)
        except WaybillError as error:
            words = f"This web server cannot read the gate report of batch {batch}: {error}"
            return _notice("The gate report cannot be read", [words], 503, dag_id)
        if report is None:
            words = (
                f"There is no gate report of batch {batch} of migration {dag_id}. Either the gate "
                "has not run, or the lake no longer keeps it; the log of the validate task says "
                "more."
            )
            return _notice("No gate report", [words], 404)
        if not report.own and not with_values:
            raise HTTPException(403)
        return HTMLResponse(report.text, headers=HEADERS if report.own else REPORT_HEADERS)


def _notice(
    title: str, sentences: list[str], status: int = 200, link: str | None = None
) -> HTMLResponse:
    """A page of a few words, and a link to a migration."""
    text = page("notice", title=title, sentences=sentences, link=link)
    return HTMLResponse(text, status_code=status)


async def _said_no(_request: Request, error: Exception) -> Response:
    """An error as a page: these answers are read by people, in a frame."""
    assert isinstance(error, AnyHTTPException), "it is registered for these"
    headers = dict(error.headers or {})
    if error.status_code == 401:
        return HTMLResponse(page("login"), status_code=401, headers=headers)
    titles = {
        403: (
            "No permission",
            "It needs the right to see the runs of this DAG and, where values of rows are shown, "
            "to read the logs of its tasks.",
        ),
        404: ("No such page", "There is nothing at this address."),
    }
    title, sentence = titles.get(error.status_code, ("Not possible", str(error.detail)))
    text = page("notice", title=title, sentences=[sentence], link=None)
    return HTMLResponse(text, status_code=error.status_code, headers=headers)


async def _no_such_name(_request: Request, _error: Exception) -> Response:
    return _notice("No such name", ["No migration, run or batch can have such a name."], 422)
