"""A small client of Airflow's REST API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote


class RestError(Exception):
    """Airflow answered with an error, or not at all; `status` is 0 where it did not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return self.message


class Client:
    """Talks to one Airflow as one user."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._token: str | None = None
        # A proxy that is set in the environment is not meant for this host.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def log_in(self, user: str, password: str) -> None:
        """Get a token for the calls to come."""
        answer = self.call("POST", "/auth/token", {"username": user, "password": password})
        self._token = answer["access_token"]

    def get(self, *path: str, **query: str) -> Any:
        """What stands at a path below /api/v2; its parts are quoted here.

        A read changes nothing: a server that was too busy to answer is asked once more.
        """
        text = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
        path_and_query = _path(path) + (f"?{text}" if text else "")
        try:
            return self.call("GET", path_and_query)
        except RestError as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            return self.call("GET", path_and_query)

    def listed(self, *path: str, entries: str) -> list[dict[str, Any]]:
        """Every entry of the list that stands at a path below /api/v2, page by page.

        Args:
            path: its parts.
            entries: the name that the entries have in an answer.
        """
        found: list[dict[str, Any]] = []
        while True:
            answer = self.get(*path, order_by="id", offset=str(len(found)), limit="100")
            found += answer[entries]
            if not answer[entries] or len(found) >= answer["total_entries"]:
                return found

    def post(self, *path: str, body: dict[str, Any]) -> Any:
        """Post a body to a path below /api/v2."""
        return self.call("POST", _path(path), body)

    def patch(self, *path: str, body: dict[str, Any]) -> Any:
        """Change what stands at a path below /api/v2."""
        return self.call("PATCH", _path(path), body)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call.

        Raises:
            RestError: Airflow refused it or did not answer.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(
            self.base_url + path,
            method=method,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            detail = error.read().decode("utf-8", "replace")[:300]
            message = f"Airflow answered {error.code} to {method} {path}: {detail}"
            raise RestError(error.code, message) from error
        except OSError as error:
            message = f"Airflow does not answer at {self.base_url}: {error}"
            raise RestError(0, message) from error
        return json.loads(content) if content else None


def _path(parts: tuple[str, ...]) -> str:
    return "/api/v2/" + "/".join(quote(part, safe="") for part in parts)
