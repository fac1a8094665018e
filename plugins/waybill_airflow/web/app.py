"""The web application that the plugin mounts.

Airflow gives a mounted application no protection of its own, so that every route here asks for the
login and for the right to see the runs of the DAG in its path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, requires_authenticated
from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi.responses import HTMLResponse

from waybill.errors import WaybillError
from waybill_airflow.params import BATCH_ID
from waybill_airflow.web import pages, reports

DAG_ID = Path(pattern=r"^[a-z][a-z0-9_]{0,62}$")
BATCH = Path(pattern=f"^{BATCH_ID}$")  # Rust's pattern language, where `$` is the very end

HEADERS = {
    # Reports hold names and texts out of other people's messages: nothing in them may run or load.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox"
    ),
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_app() -> FastAPI:
    """The application, without the pages by which FastAPI describes itself."""
    app = FastAPI(
        title="Waybill",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(requires_authenticated())],
    )

    @app.middleware("http")
    async def add_headers(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.get(
        "/gate/{dag_id}/{batch}",
        response_class=HTMLResponse,
        dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))],
    )
    def gate(dag_id: str = DAG_ID, batch: str = BATCH) -> HTMLResponse:
        """What the gate measured for a batch."""
        try:
            report = reports.gate_report(dag_id, batch)
        except WaybillError as error:
            return HTMLResponse(pages.unreadable(dag_id, batch, str(error)), status_code=503)
        if report is None:
            return HTMLResponse(pages.no_report(dag_id, batch), status_code=404)
        return HTMLResponse(report)

    return app
