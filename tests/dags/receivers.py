"""Receivers of metrics and lineage on the loopback address, and a notifier that keeps what it is
told."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from airflow.sdk import BaseNotifier
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)


class StatsD:
    """Takes datagrams until it is closed; each line is `name:value|type`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port: int = self._socket.getsockname()[1]
        self._lines: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while not self._ends.is_set():
            try:
                self._lines += self._socket.recv(65_536).decode().splitlines()
            except TimeoutError:
                continue

    def environment(self) -> dict[str, str]:
        """What makes Airflow send its metrics here."""
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self.port),
        }

    def close(self) -> dict[str, list[str]]:
        """End, and tell what came."""
        self._ends.set()
        self._thread.join()
        self._socket.close()
        return self.figures()

    def figures(self) -> dict[str, list[str]]:
        """What came until now: the values and their types of our metrics, by name."""
        found: dict[str, list[str]] = {}
        for line in [*self._lines]:
            name, _, value = line.removeprefix("airflow.").partition(":")
            if name.startswith("waybill."):
                found.setdefault(name, []).append(value)
        return found


class Collector:
    """Takes OpenTelemetry's metrics over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        taken = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                taken.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def environment(self) -> dict[str, str]:
        """What makes Airflow send its metrics here."""
        return {
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }

    def close(self) -> dict[tuple[str, ...], float]:
        """End, and tell what came: values by name of the metric and values of its tags."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        found: dict[tuple[str, ...], float] = {}
        for request in self.requests:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        found |= _points(metric)
        return {key: value for key, value in found.items() if key[0].startswith("waybill.")}


def _points(metric: Any) -> dict[tuple[str, ...], float]:
    kind = metric.WhichOneof("data")
    found = {}
    for point in getattr(metric, kind).data_points:
        tags = [one.value.string_value for one in point.attributes]
        value = point.sum if "histogram" in kind else getattr(point, point.WhichOneof("value"))
        found[metric.name.removeprefix("airflow."), *tags] = value
    return found


class Lineage:
    """Takes OpenLineage's events over HTTP."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        taken = self.events

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                taken.append({**json.loads(body), "path": self.path})
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def environment(self) -> dict[str, str]:
        """What makes Airflow's provider send its events here."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        transport = {"type": "http", "url": url, "endpoint": "api/v1/lineage"}
        return {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}

    def close(self) -> list[dict[str, Any]]:
        """End, and tell what came, in the order that it came in."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        return self.events


class Kept(BaseNotifier):
    """A notifier of one's own."""

    template_fields = ("message",)
    messages: list[str] = []  # noqa: RUF012 - of all of them

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def notify(self, context) -> None:
        self.messages.append(self.message)
