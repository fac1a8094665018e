"""The driver's door: HTTP on one address, open to those who have the token."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.concurrency import iterate_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from waybill.driver.work import Order, Work
from waybill.errors import DriverError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GONE = "Spark has ended: see the driver's log for why, and start the driver again"


def serve(spark: SparkSession, token: str, host: str, port: int) -> None:
    """Take orders until the process is asked to end, or Spark has ended.

    Args:
        spark: the session that the stages use.
        token: what a client has to show.
        host: the address to listen on.
        port: the port to listen on.

    Raises:
        DriverError: Spark has ended; only a new process has another one.
    """
    work = Work(spark)

    def end() -> None:
        server.should_exit = True

    routes = application(work, token, end)
    server = uvicorn.Server(uvicorn.Config(routes, host=host, port=port, log_level="warning"))
    server.run()
    if not work.alive:
        raise DriverError(GONE, True)


def application(work: Work, token: str, end: Callable[[], None]) -> FastAPI:
    """The routes: `GET /health` says whether Spark answers, `POST /stages` runs a stage.

    Args:
        work: runs the stages.
        token: what a client has to show.
        end: is called when Spark has ended.
    """

    def allowed(
        given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
    ) -> None:
        if not secrets.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(403, "this is not the driver's token")

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    def health() -> dict[str, Any]:
        if not work.alive:
            end()
            raise HTTPException(503, GONE)
        return {"status": "busy" if work.busy else "idle"}

    @app.post("/stages", dependencies=[Depends(allowed)])
    def stages(order: Order) -> StreamingResponse:
        if not work.alive:
            end()
            raise HTTPException(503, GONE)

        async def lines() -> AsyncIterator[bytes]:
            said = work.lines(order)
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
