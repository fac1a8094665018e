"""A schema registry of one test: an HTTP server that answers what Confluent's client asks."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class SchemaRegistry:
    """What the server knows, and what it was asked.

    Attributes:
        url: where it listens.
        schemas: registered schemas by id, first 1.
        subjects: ids by subject, in the order of the versions.
        asked: methods and paths of all requests.
        user_info: `user:password` that requests must bring, None for no check.
        broken: whether it answers every request with an error.
        incompatible: whether it finds every schema incompatible.
        first: what it answers before anything else, one a request; text is sent as it is, and
            None as nothing at all, after `slow` seconds.
        slow: how long None takes.
    """

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    user_info: str | None = None
    broken: bool = False
    incompatible: bool = False
    first: list[tuple[int, Any]] = field(default_factory=list)
    slow: float = 0.0

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema, the same one only once."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, "guid": str(uuid.uuid5(uuid.NAMESPACE_OID, text)), **more}
        same = [number for number, known in self.schemas.items() if known == entry]
        number = same[0] if same else len(self.schemas) + 1
        self.schemas[number] = entry
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def guid(self, number: int) -> uuid.UUID:
        return uuid.UUID(self.schemas[number]["guid"])

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and JSON of a request."""
        if self.broken:
            return 500, {"error_code": 50001, "message": "the backend is away"}
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if method == "POST":
            return self._posted(parts, body["schema"])
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            return 200, self.schemas[int(parts[2])]
        if parts[:2] == ["schemas", "guids"]:
            for number, entry in self.schemas.items():
                if entry["guid"] == parts[2]:
                    return 200, {"id": number, **entry}
        if parts[0] == "subjects" and parts[2:3] == ["versions"]:
            return self._version(parts[1], int(parts[3]))
        if parts[0] == "schemas":
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _posted(self, parts: list[str], text: str) -> tuple[int, Any]:
        """Registered, or told whether it is there or could be."""
        if parts[0] == "subjects" and parts[-1] == "versions":
            if self.incompatible:
                sentence = "Schema being registered is incompatible with an earlier schema"
                return 409, {"error_code": 409, "message": sentence}
            number = self.add(parts[1], text)
            return 200, {"id": number, **self.schemas[number]}
        if parts[0] == "compatibility":
            return 200, {"is_compatible": not self.incompatible}
        if parts[0] != "subjects":
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        for number in self.subjects.get(parts[1], []):
            if self.schemas[number]["schema"] == text:
                return 200, {"subject": parts[1], "id": number, "version": 1, "schema": text}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _version(self, subject: str, version: int) -> tuple[int, Any]:
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if version > len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = versions[version - 1]
        entry = {"subject": subject, "version": version, "id": number}
        return 200, {**entry, **self.schemas[number]}


@contextmanager
def schema_registry(user_info: str | None = None) -> Iterator[SchemaRegistry]:
    """A registry that listens on a free port of this machine."""
    registry = SchemaRegistry(user_info=user_info)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            wanted = registry.user_info
            if wanted is not None:
                wanted = "Basic " + base64.b64encode(wanted.encode()).decode()
            if wanted is not None and self.headers.get("Authorization") != wanted:
                status, found = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                asked = (self.command, self.path, body)
                first = registry.first
                status, found = first.pop(0) if first else registry.answer(*asked)
            if found is None:
                time.sleep(registry.slow)
                return
            content = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
