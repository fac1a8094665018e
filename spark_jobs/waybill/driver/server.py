"""The driver's routes: HTTP on one address, open to those who have the token."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import iterate_in_threadpool, run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from waybill.driver.door import BoundedConnection, Door
from waybill.driver.work import BusyError, StageOrder, Work
from waybill.errors import Code, ConfigurationError, DriverError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GONE = "Spark has ended: see the driver's log for why, and start the driver again"


def serve(spark: SparkSession, token: str, migrations: Path, host: str, port: int) -> None:
    """Take orders until the process is asked to end, or Spark has ended.

    Args:
        spark: the session that the stages use.
        token: what a client has to show.
        migrations: the folder below which the files of migrations lie.
        host: the address to listen on.
        port: the port to listen on.

    Raises:
        DriverError: Spark has ended; only a new process has another one.
    """
    work = Work(spark, migrations)

    def end() -> None:
        server.should_exit = True

    server = uvicorn.Server(listening(application(work, token, end), host, port))
    server.run()
    if not work.alive:
        raise DriverError(GONE, True, code=Code.DRIVER_UNREACHABLE)


def listening(routes: FastAPI, host: str, port: int) -> uvicorn.Config:
    """How the routes are served: every connection is bounded in time, and their number is."""
    return uvicorn.Config(
        routes, host=host, port=port, log_level="warning", http=BoundedConnection, ws="none"
    )


def application(work: Work, token: str, end: Callable[[], None]) -> FastAPI:
    """The routes: `GET /health` says whether Spark answers, `POST /stages` runs a stage.

    Args:
        work: runs the stages.
        token: what a client has to show.
        end: is called when Spark has ended.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Door, token=token)

    @app.get("/health")
    def health() -> dict[str, Any]:
        if not work.alive:
            end()
            raise HTTPException(503, GONE)
        return {"status": "busy" if work.busy else "idle"}

    @app.post("/stages")
    async def stages(request: Request) -> StreamingResponse:
        order = _order(await request.body())
        if not await run_in_threadpool(lambda: work.alive):
            end()
            raise HTTPException(503, GONE)
        try:
            running = work.take(order)
        except ConfigurationError as error:
            raise HTTPException(403, error.sentence) from None
        except BusyError as error:
            raise HTTPException(503, str(error), {"Retry-After": "60"}) from None

        async def lines() -> AsyncIterator[bytes]:
            said = work.lines(running)
            try:
                async for line in iterate_in_threadpool(said):
                    # In ASCII: a reader of lines may take other characters for the end of one.
                    yield json.dumps(line).encode() + b"\n"
            finally:
                # Not left to the collector: a client that has gone away ends its stage now.
                said.close()
                if not work.alive:
                    end()

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return app


def _order(body: bytes) -> StageOrder:
    """The order in a request's body; what is wrong with it is reported without its values."""
    try:
        return StageOrder.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [{"loc": ["body", *item["loc"]], "msg": item["msg"]} for item in wrong]
        raise HTTPException(422, errors) from None
