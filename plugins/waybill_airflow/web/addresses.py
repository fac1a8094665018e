"""Addresses of pages, ours and Airflow's, below the path that Airflow is served under."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlencode

from waybill_airflow.links import gate_path


class Addresses(NamedTuple):
    """Where pages are.

    Attributes:
        base: the path of Airflow's web server, mostly empty.
        mount: where ours begin below it.
    """

    base: str
    mount: str

    def _below(self, *parts: str) -> str:
        return "".join(f"/{quote(part, safe='')}" for part in parts)

    def migrations(self) -> str:
        """The list of migrations."""
        return f"{self.base}{self.mount}/migrations"

    def migration(self, dag_id: str) -> str:
        """The page of a migration."""
        return f"{self.base}{self.mount}/dags{self._below(dag_id)}"

    def batch(self, dag_id: str, batch: str) -> str:
        """The page of a batch."""
        return f"{self.base}{self.mount}/batches{self._below(dag_id, batch)}"

    def quarantine(self, dag_id: str, batch: str = "", kind: str = "", table: str = "") -> str:
        """Refused messages of a migration; only those of a batch, a kind of reason or a table."""
        filters = {"batch": batch, "kind": kind, "table": table}
        asked = {name: text for name, text in filters.items() if text}
        path = f"{self.base}{self.mount}/quarantine{self._below(dag_id)}"
        return f"{path}?{urlencode(asked)}" if asked else path

    def message(self, dag_id: str, topic: str, partition: int, offset: int) -> str:
        """A refused message."""
        asked = urlencode({"topic": topic, "partition": partition, "offset": offset})
        return f"{self.base}{self.mount}/quarantine{self._below(dag_id)}/message?{asked}"

    def row(self, dag_id: str, table: str = "", key: str = "", as_of: str = "") -> str:
        """A row, or one that is still to be named; as of a batch."""
        given = {"table": table, "key": key, "as_of": as_of}
        asked = {name: text for name, text in given.items() if text}
        path = f"{self.base}{self.mount}/rows{self._below(dag_id)}"
        return f"{path}?{urlencode(asked)}" if asked else path

    def verification(self, dag_id: str) -> str:
        """What verifications of a migration found."""
        return f"{self.base}{self.mount}/verifications{self._below(dag_id)}"

    def formats(self, source: str = "", target: str = "") -> str:
        """What is lost between two formats, or the choice of them."""
        asked = urlencode({"source": source, "target": target})
        path = f"{self.base}{self.mount}/formats"
        return f"{path}?{asked}" if source and target else path

    def gate(self, dag_id: str, batch: str) -> str:
        """The gate's report of a batch."""
        return f"{self.base}{self.mount}{gate_path(dag_id, batch)}"

    def file(self, name: str) -> str:
        """A file of the pages' own: style sheet, script."""
        return f"{self.base}{self.mount}/static{self._below(name)}"

    def dag(self, dag_id: str) -> str:
        """The DAG in Airflow, with its button *Trigger*."""
        return f"{self.base}/dags{self._below(dag_id)}"

    def run(self, dag_id: str, run_id: str) -> str:
        """A run in Airflow."""
        return f"{self.base}/dags{self._below(dag_id)}/runs{self._below(run_id)}"

    def runs_api(self, dag_id: str) -> str:
        """Where Airflow's API starts runs of a DAG."""
        return f"{self.base}/api/v2/dags{self._below(dag_id)}/dagRuns"

    def login(self) -> str:
        """Airflow, which asks for the login where there is none."""
        return f"{self.base}/"
