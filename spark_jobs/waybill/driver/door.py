"""What stands before the driver's routes: the token first, then a request of bounded size and time.

Nothing of a body is kept, or looked at, before the token is known to be right: whoever has none
costs no memory and learns nothing of what the routes would say.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20
"""How long an order may be."""

BODY_SECONDS = 10.0
"""How long a client may take to send it."""

REQUEST_SECONDS = 10.0
"""How long a connection may stand without a whole head of a request."""

MOST_CONNECTIONS = 200

_UNREAD_SECONDS = 1.0


class Door:
    """Lets requests through that show the token; `GET /health` needs none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on to the routes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (scope["method"], scope["path"]) == ("GET", "/health"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        declared = _length(headers.get(b"content-length", b""))
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not secrets.compare_digest(shown, self._token):
            if declared is not None and declared <= MOST_BYTES:
                await _discard(receive)
            await _refuse(send, 401, "this is not the driver's token")
        elif declared is not None and declared > MOST_BYTES:
            await _refuse(send, 413, _TOO_LONG)
        else:
            await self._read(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on with the whole body, if it comes whole, in time and is not too long."""
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in _parts(receive):
                    body += part
                    if len(body) > MOST_BYTES:
                        await _refuse(send, 413, _TOO_LONG)
                        return
        except TimeoutError:
            await _refuse(send, 408, f"the order did not come within {BODY_SECONDS:.0f} seconds")
            return
        except _GoneError:
            return
        whole: Message | None = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def again() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            message, whole = whole, None
            return message

        await self._app(scope, again, send)


_TOO_LONG = f"an order has at most {MOST_BYTES} bytes"


class _GoneError(Exception):
    """The client went away before its request was whole."""


async def _parts(receive: Receive) -> Any:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _discard(receive: Receive) -> None:
    """Let a short body pass by, so that its sender is there for the answer."""
    with suppress(TimeoutError, _GoneError):
        async with asyncio.timeout(_UNREAD_SECONDS):
            async for _part in _parts(receive):
                pass


def _length(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


async def _refuse(send: Send, status: int, sentence: str) -> None:
    """Answer and end the connection, whatever is still on its way."""
    body = json.dumps({"detail": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class BoundedConnection(H11Protocol):
    """A connection that is closed unless a whole head of a request comes in time.

    uvicorn itself bounds only the pause between two requests.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes; they may make the request whole."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end_watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        cycle = getattr(self, "cycle", None)  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._end_watch()
        elif self._deadline is None:
            closing = self.timeout_keep_alive_handler
            self._deadline = self.loop.call_later(REQUEST_SECONDS, closing)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
