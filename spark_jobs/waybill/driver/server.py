"""The driver's door: HTTP on one address, open to those who have the token."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.concurrency import iterate_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from waybill.driver.work import Order, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def serve(spark: SparkSession, token: str, host: str, port: int) -> None:
    """Take orders until the process is asked to end.

    Args:
        spark: the session that the stages use.
        token: what a client has to show.
        host: the address to listen on.
        port: the port to listen on.
    """
    work = Work(spark)
    server = uvicorn.Server(
        uvicorn.Config(application(work, token), host=host, port=port, log_level="warning")
    )
    server.run()


def application(work: Work, token: str) -> FastAPI:
    """The routes: `GET /health` says whether Spark answers, `POST /stages` runs a stage."""

    def allowed(
        given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
    ) -> None:
        if not secrets.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(403, "this is not the driver's token")

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    def health() -> dict[str, Any]:
        if not work.alive:
            raise HTTPException(503, "Spark has ended: start the driver again")
        return {"status": "busy" if work.busy else "idle"}

    @app.post("/stages", dependencies=[Depends(allowed)])
    def stages(order: Order) -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            said = work.lines(order)
            try:
                async for line in iterate_in_threadpool(said):
                    yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
            finally:
                # Not left to the collector: a client that has gone away ends its stage now.
                said.close()

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return app
