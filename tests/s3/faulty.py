"""A proxy before the S3 server that spoils chosen requests."""

from __future__ import annotations

import http.client
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stack.s3 import S3Server

SLOW_DOWN = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""
NOT_IMPLEMENTED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NotImplemented</Code><Message>Not done here.</Message></Error>"""


class Fault(NamedTuple):
    """What becomes of requests whose line matches.

    Attributes:
        line: regular expression over `PUT /bucket/key?query`.
        kind: `busy` (503 SlowDown), `broken` (500), `cut` (closed before it is passed on), `lost`
            (passed on, the answer is thrown away), `half` (half of the answer's body comes),
            `unknown` (501, where the request is under a condition), `ignore` (put
            whatever the condition says, as by a server that does not know it).
        times: how often; always if 0.
    """

    line: str
    kind: str
    times: int = 1


class FaultyProxy:
    """Passes requests on to a server, spoiling some."""

    def __init__(self, server: S3Server) -> None:
        self._server_behind = server
        self._target = server.port
        self._lock = threading.Lock()
        self._faults: list[list[object]] = []
        self.seen: list[str] = []
        self.spoiled: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def do_any(self) -> None:
                proxy._handle(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spoil(self, *faults: Fault) -> None:
        with self._lock:
            self._faults = [[fault, fault.times] for fault in faults]
            self.seen, self.spoiled = [], []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _kind(self, line: str, conditional: bool) -> str:
        with self._lock:
            self.seen.append(line)
            for entry in self._faults:
                fault, left = entry
                assert isinstance(fault, Fault)
                if not re.search(fault.line, line):
                    continue
                if fault.kind in ("unknown", "ignore") and not conditional:
                    continue
                if fault.times and left == 0:
                    continue
                entry[1] = int(left) - 1 if fault.times else 0  # type: ignore[call-overload]
                self.spoiled.append(f"{fault.kind} {line}")
                return fault.kind
        return ""

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        conditional = "If-None-Match" in request.headers
        kind = self._kind(f"{request.command} {request.path}", conditional)
        if kind in ("busy", "broken", "unknown"):
            status = {"busy": 503, "broken": 500, "unknown": 501}[kind]
            text = {"busy": SLOW_DOWN, "broken": b"", "unknown": NOT_IMPLEMENTED}[kind]
            self._answer(request, status, {"Content-Type": "application/xml"}, text)
            return
        if kind == "cut":
            request.close_connection = True
            return
        if kind == "ignore":
            # The header is signed, so it stays; what it asks for does not hold any more.
            name = request.path.split("?")[0].lstrip("/")
            (self._server_behind.folder / "objects" / name).unlink(missing_ok=True)
        headers = {
            k: v for k, v in request.headers.items() if k.lower() not in ("expect", "connection")
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=60)
        connection.putrequest(
            request.command, request.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        found = {
            k: v
            for k, v in answer.getheaders()
            if k.lower() not in ("content-length", "transfer-encoding", "connection", "date")
        }
        length = answer.getheader("Content-Length")
        connection.close()
        if kind == "lost":
            request.close_connection = True
            return
        self._answer(request, answer.status, found, content, length, half=kind == "half")

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: dict[str, str],
        content: bytes,
        length: str | None = None,
        half: bool = False,
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if status not in (204, 304):
            head = request.command == "HEAD" and length is not None
            request.send_header("Content-Length", str(length if head else len(content)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            request.close_connection = True
